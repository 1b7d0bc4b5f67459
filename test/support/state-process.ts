/**
 * A process that uses a state directory, for tests of what happens between processes:
 *
 *     node state-process.ts hold <directory>      opens the state directory, reports and waits to be killed
 *     node state-process.ts write <directory>     opens tables, writes 300 entries with one sync, reports and waits
 *     node state-process.ts fill <directory>      opens tables and writes pages without end
 *     node state-process.ts open <directory>      opens the state directory and its tables, and closes them
 *     node state-process.ts read <file>           reads a backup from its beginning to its end
 *
 * The variable TABLES says what kind of tables; without it, they are those of the platform.
 *
 * The process reports its result on a line of its own: `ready`, or `refused <code> <message>`.
 */
import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { ServerError } from '../../kernel/index.ts';
import { ReadableBackup } from '../../subsystems/storage/backup-file.ts';
import { openTables } from '../../subsystems/storage/open-tables.ts';
import { openStateDirectory } from '../../subsystems/storage/state-directory.ts';

const THIS_FILE = fileURLToPath(import.meta.url);

interface StateProcess {
  readonly child: ChildProcess;
  /** Output of the process. */
  readonly said: string;
}

/** Resolves when the process has printed a line; it is killed when the test ends. */
export async function runStateProcess(
  t: TestContext,
  action: string,
  directory: string,
  options: SpawnOptions & { readonly fileBlocksMax?: number } = {},
): Promise<StateProcess> {
  const { fileBlocksMax, ...rest } = options;
  const limit = fileBlocksMax === undefined ? '' : `trap '' XFSZ; ulimit -f ${fileBlocksMax}; `;
  const script = `${limit}exec "$0" "$@"`;
  const child = spawn('sh', ['-c', script, process.execPath, THIS_FILE, action, directory], {
    ...rest,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let said = '';
  for await (const chunk of child.stdout ?? []) {
    said += String(chunk);
    if (said.includes('\n')) break;
  }
  return { child, said: said.trim() };
}

export async function killed(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

async function main(action: string, directory: string): Promise<void> {
  const { TABLES } = process.env;
  const kind = TABLES === 'sqlite' || TABLES === 'rocksdb' ? TABLES : undefined;
  switch (action) {
    case 'hold':
      await openStateDirectory(directory);
      break;
    case 'read':
      for await (const _ of new ReadableBackup(directory).changes());
      break;
    case 'write': {
      const { tables } = await openTables(directory, kind);
      const value = new Uint8Array(4096).fill(7);
      const entries = Array.from({ length: 300 }, (_, index) => Uint8Array.of(index >>> 8, index));
      tables.write(
        entries.slice(0, 200).map((key) => ({ family: 'heap', key, value })),
        { isSynced: false },
      );
      tables.write(
        entries.slice(200).map((key) => ({ family: 'queue', key, value })),
        { isSynced: true },
      );
      break;
    }
    case 'fill': {
      const { tables } = await openTables(directory, kind);
      const value = new Uint8Array(4096).fill(7);
      for (let index = 0; ; index++) {
        tables.write([{ family: 'heap', key: Uint8Array.of(index >>> 8, index), value }], { isSynced: true });
      }
    }
    // This point is not reached: the loop has no end.
    case 'open': {
      const state = await openStateDirectory(directory);
      const { tables } = await openTables(state.tables, kind);
      await tables.close();
      await state.close();
      process.stdout.write('ready\n');
      return;
    }
    default:
      throw new Error(`there is no action ${action}`);
  }
  process.stdout.write('ready\n');
  setInterval(() => {}, 60_000);
}

if (import.meta.main) {
  const [action = '', directory = ''] = process.argv.slice(2);
  try {
    await main(action, directory);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    process.stdout.write(`refused ${error.code} ${error.message}\n`);
  }
}
