/** The host's stop: checkpoints are written, as far as there is time, and threads end, or are left to the process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StartExecutorThread } from '../../../subsystems/execution/pool/executor.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { startExecutorWorker } from '../../../subsystems/execution/pool/start-executor-worker.ts';
import { type EndedStep, FULL_LIMIT } from '../../../subsystems/ic/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { wat } from '../../support/wat.ts';
import { ANONYMOUS, contextOf, POLICY, STACK_BYTES } from './engine-fixture.ts';

/** A module of 12.5 MiB, a dozen pieces of a checkpoint. */
const MODULE = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 200)
  (func (export "canister_update fill")
    (memory.fill (i32.const 0) (i32.const 1) (i32.const 13107200)) (call $reply)))`);
const NO_BYTES = new Uint8Array(0);

/**
 * Returns the number of pieces of a checkpoint that are made durable during the stop, if each piece takes `pieceMs`.
 */
async function piecesAtClose(pieceMs: number): Promise<number> {
  const clock = new FakeClock(1_000_000);
  const ignore = (): void => undefined;
  const log = { info: ignore, warn: ignore, error: ignore, debug: ignore, announce: ignore, event: ignore };
  const pool = new ExecutorPool({ policy: POLICY, clock, log }, { executors: 1, wasmStackBytes: STACK_BYTES });
  let pieces = 0;
  pool.attend({
    changed: ignore,
    credited: ignore,
    lost: () => assert.fail('the thread is lost'),
    settled: () => {
      pieces++;
      clock.advance(pieceMs);
      return Promise.resolve();
    },
  });
  const id = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 1, 1);
  const spec = { id, balance: POLICY.startingCycles, controllers: [], env: new Map(), snapshotBelowBytes: 0 };
  const handle = pool.create(spec);
  const module = await pool.prepare(MODULE);
  const ended = async (start: (done: (ended: EndedStep) => void) => void): Promise<void> => {
    assert.equal((await new Promise<EndedStep>(start)).step.fault, undefined);
  };
  await ended((done) => pool.change(handle, module, { mode: 'install', argument: NO_BYTES, caller: ANONYMOUS }, done));
  const entry = module.entries.get('canister_update fill') ?? -1;
  const context = contextOf(ANONYMOUS);
  const task = { kind: 'update', entry, argument: NO_BYTES, context, instructionsMax: FULL_LIMIT } as const;
  await ended((done) => pool.run(handle, task, done));
  await pool.close();
  return pieces;
}

test('a host that stops writes checkpoints, and leaves to the logs what it has no time for', async () => {
  const all = await piecesAtClose(1);
  assert.ok(all > 8, `${all} pieces`);
  assert.equal(await piecesAtClose(4_000), 2);
});

test('a thread that does not end is told, and fails no stop', async (t) => {
  for (const how of ['ends', 'never ends'] as const) {
    const clock = new FakeClock(1_000_000);
    const ignore = (): void => undefined;
    const warnings: string[] = [];
    const warn = (text: string): void => void warnings.push(text);
    const log = { info: ignore, warn, error: ignore, debug: ignore, announce: ignore, event: ignore };
    const asked = Promise.withResolvers<void>();
    const startThread: StartExecutorThread = (options, ended) => {
      const thread = startExecutorWorker(options, ended);
      t.after(() => thread.terminate());
      const terminate = (): Promise<unknown> => {
        asked.resolve();
        return how === 'ends' ? thread.terminate() : new Promise(ignore);
      };
      return { listen: (outbox, drain) => thread.listen(outbox, drain), terminate };
    };
    const options = { executors: 1, wasmStackBytes: STACK_BYTES };
    const pool = new ExecutorPool({ policy: POLICY, clock, log }, options, {}, { startThread });
    const id = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 1, 1);
    pool.create({ id, balance: 0n, controllers: [], env: new Map() });
    const closed = pool.close();
    await asked.promise;
    if (how === 'never ends') clock.advance(2_000);
    await closed;
    assert.equal(warnings.length, how === 'ends' ? 0 : 1, warnings.join());
    if (how === 'never ends') assert.match(warnings[0] ?? '', /still running 2000 ms after their end/);
  }
});
