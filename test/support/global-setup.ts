/**
 * Runs once, before all files of `npm test`.
 *
 * The tests start some hundreds of processes, and each of their threads would strip the types of the same sources and
 * compile them: half of a server's start. Node keeps compiled sources only when a process ends by itself, and most
 * servers here are killed. So one server is started and stopped first, and all later ones find its compiled sources.
 * All tests share one Motoko compiler, which stays warm.
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
