/**
 * Runs once, before all files of `npm test`.
 *
 * The tests start some hundreds of processes, and each of their threads would strip the types of the same sources and compile
 * them: half of what a server takes to start. Node keeps what it made of a source, but only when a process ends by itself,
 * and most servers here are killed. So one is started and stopped first, and all that come later find what it left. And all
 * have one compiler of Motoko, which stays warm.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { NODE_CACHE } from './caches.ts';
import { startCompileServer } from './compile-server.ts';

let endCompileServer: (() => Promise<void>) | undefined;

export async function globalSetup(): Promise<void> {
  // For the processes of all test files, and those that they start.
  process.env['NODE_COMPILE_CACHE'] = NODE_CACHE;
  const entry = fileURLToPath(new URL('./first-server.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [entry], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the first server failed:\n${stderr}`);
  endCompileServer = await startCompileServer();
}

export async function globalTeardown(): Promise<void> {
  await endCompileServer?.();
}
