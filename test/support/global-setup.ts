/**
 * Runs once, before all files of `npm test` and of `npm run test:system`.
 *
 * The tests start some hundreds of processes, and each of their threads would strip the types of the same sources and
 * compile them: half of a server's start. Node keeps compiled sources only when a process ends by itself, and most
 * servers here are killed. So one server is started and stopped first, and all later ones find its compiled sources.
 * All tests share one Motoko compiler, which stays warm: a compiler that has just been started takes three to five
 * times as long for an actor as one that has compiled a few. Most modules come with the clone (`kept-modules.ts`). They
 * share one package, too, packed when the first asks, and one empty PostgreSQL, of which each
 * copies the files. `bundled-threads.js` is told of the first server's bundle.
 */
import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../config/bundle.js';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE, NODE_CACHE } from './caches.ts';
import { unpackModules } from './kept-modules.ts';
import { pack } from './packages.ts';
import { shareWork } from './shared-work.ts';
import { temporaryDirectory } from './temporary-directory.ts';

let end: (() => Promise<void>) | undefined;

export async function globalSetup(): Promise<void> {
  // For the processes of all test files, and those that they start.
  process.env['NODE_COMPILE_CACHE'] = NODE_CACHE;
  await unpackModules(MOTOKO_CACHE);
  const entry = fileURLToPath(new URL('./first-server.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [entry], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the first server failed:\n${stderr}`);
  const { program, reason } = await findProgram(fileURLToPath(new URL('../..', import.meta.url)));
  if (reason !== undefined) throw new Error(`the first server had no bundle: ${reason}`);
  process.env['SVC_TEST_BUNDLE'] = fileURLToPath(new URL('.', program));
  const compiler = createCompiler({ cacheDirectory: MOTOKO_CACHE, processesMax: 1, idleMs: 600_000 });
  let packed: Promise<string> | undefined;
  let postgres: Promise<string> | undefined;
  const endSharing = await shareWork({
    async compile({ files, ...options }) {
      await compiler.compileText(new Map(files), options).catch(() => undefined);
      return null;
    },
    packServer: () => (packed ??= temporaryDirectory().then((into) => pack(into))),
    makePostgres: () => (postgres ??= makePostgres()),
  });
  end = async () => {
    endSharing();
    if (postgres !== undefined) await rm(dirname(await postgres), { recursive: true });
    await compiler.close();
  };
}

/** Most runs need none. */
async function makePostgres(): Promise<string> {
  return (await import('./postgres.ts')).makePostgresFiles();
}

export async function globalTeardown(): Promise<void> {
  await end?.();
}
