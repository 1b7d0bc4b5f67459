/**
 * A process that restores a backup, or an archive, and is killed on its way:
 *
 *     node killed-restore.ts <file or archive> <directory> <step>
 *
 * Steps are its calls that change the file system, counted from 1; the process ends with SIGKILL after the given step.
 * If the restore ends before that, the process prints `restored in <steps> steps`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const THIS_FILE = fileURLToPath(import.meta.url);

/** Returns the number of steps if the restore came to its end; undefined if it was killed at `step`. */
export async function restoreUntil(file: string, directory: string, step: number): Promise<number | undefined> {
  const child = spawn(process.execPath, [THIS_FILE, file, directory, String(step)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const said = await text(child.stdout);
  const [code, signal] = await ended;
  if (signal === 'SIGKILL') return undefined;
  const steps = /^restored in (\d+) steps$/m.exec(said)?.[1];
  if (code !== 0 || steps === undefined) throw new Error(`the restore ended with ${code ?? signal}: ${said}`);
  return Number(steps);
}

type Call = (...args: never[]) => Promise<unknown>;

/** Counts the calls of these functions, and calls `took` after each. */
function countCalls(of: object, names: readonly string[], took: () => void): void {
  for (const name of names) {
    const call = Reflect.get(of, name) as Call;
    const counted: Call = async function (this: unknown, ...args) {
      const result = await call.apply(this, args);
      took();
      return result;
    };
    Reflect.set(of, name, counted);
  }
}

async function main(file: string, directory: string, last: number): Promise<void> {
  let steps = 0;
  const took = (): void => {
    if (++steps === last) process.kill(process.pid, 'SIGKILL');
  };
  {
    await using handle = await fs.open(THIS_FILE, 'r');
    countCalls(Object.getPrototypeOf(handle) as object, ['sync', 'write', 'writeFile'], took);
  }
  countCalls(fs, ['link', 'mkdir', 'open', 'rename', 'rm', 'rmdir', 'writeFile'], took);
  syncBuiltinESMExports();
  if ((await fs.stat(file)).isDirectory()) {
    const { restoreArchive } = await import('../../subsystems/storage/restore-archive.ts');
    await restoreArchive({ archive: file, directory, until: { kind: 'latest' }, follows: true });
  } else {
    const { restoreBackup } = await import('../../subsystems/storage/restore.ts');
    await restoreBackup(file, directory);
  }
  process.stdout.write(`restored in ${steps} steps\n`);
}

if (import.meta.main) {
  const [file = '', directory = '', step = ''] = process.argv.slice(2);
  await main(file, directory, Number(step));
}
