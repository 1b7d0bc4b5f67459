/** Threads that are started in advance for actors of an earlier process. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StartExecutorThread } from '../../../subsystems/execution/pool/executor.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { startExecutorWorker } from '../../../subsystems/execution/pool/start-executor-worker.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import { POLICY, STACK_BYTES } from './engine-fixture.ts';

const MODULES = [1, 2, 3].map((pages) => wat(`(module (memory ${pages}))`));
const ignore = (): void => undefined;
const log = { info: ignore, warn: ignore, error: ignore, debug: ignore, announce: ignore, event: ignore };

/** Returns the number of executor threads, at most two, that start for this number of kept modules. */
async function startedFor(modules: number): Promise<number> {
  const cacheDirectory = join(await temporaryDirectory(), 'modules');
  const options = { executors: 2, wasmStackBytes: STACK_BYTES, cacheDirectory };
  const granted = { policy: POLICY, clock: new FakeClock(1_000_000), log };
  const earlier = new ExecutorPool(granted, options);
  for (const module of MODULES.slice(0, modules)) await earlier.prepare(module);
  await earlier.close();

  let started = 0;
  const startThread: StartExecutorThread = (...given) => {
    started++;
    return startExecutorWorker(...given);
  };
  const pool = new ExecutorPool(granted, options, {}, { startThread });
  await pool.prepareForKept();
  const count = started;
  // The actors get these threads.
  await Promise.all(MODULES.map((module) => pool.prepare(module)));
  await pool.close();
  return count;
}

test('as many executors start as there are modules in the state, and none where there is none', async () => {
  for (const [modules, threads] of [
    [0, 0],
    [1, 1],
    [2, 2],
    [3, 2],
  ] as const) {
    assert.equal(await startedFor(modules), threads, `${modules} modules`);
  }
});
