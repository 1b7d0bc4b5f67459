import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { CACHE_HOME } from './caches.ts';
import { temporaryDirectory } from './temporary-directory.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

interface ReplayedFile {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `svc --replay` in an empty folder, with the bytes of a capsule in a file there. */
export async function replayFile(capsule: Uint8Array, ...args: readonly string[]): Promise<ReplayedFile> {
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'one.capsule'), capsule);
  return await replayIn(folder, '--replay', 'one.capsule', ...args);
}

/** Runs `svc` in a folder. */
export async function replayIn(folder: string, ...args: readonly string[]): Promise<ReplayedFile> {
  const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME };
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output.stdout += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (output.stderr += part));
  const [code] = (await once(child, 'close')) as [number];
  return { code, ...output };
}
