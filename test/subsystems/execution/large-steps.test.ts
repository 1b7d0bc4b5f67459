/** Real executor threads under the scheduler: a message that makes many calls delays nobody in the main thread. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import {
  CALL_BYTES_PER_TURN,
  CALLS_PER_TURN,
  idToText,
  type OutgoingCall,
  TurnOfCalls,
} from '../../../subsystems/ic/index.ts';
import { NO_LISTENER, NO_LOADER } from '../../../subsystems/scheduler/canister-port.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import type { Logger } from '../../../kernel/index.ts';
import { wat } from '../../support/wat.ts';
import { callOf } from '../scheduler/held-execution.ts';
import { ANONYMOUS, POLICY, STACK_BYTES } from './engine-fixture.ts';

const quiet = (): void => undefined;
const SILENT: Logger = { info: quiet, warn: quiet, error: quiet, debug: quiet, announce: quiet, event: quiet };
const CANISTERS = 6;
/** Maximum of open calls at one callee. */
const CALLS_EACH = 500;

/** `storm` calls `m` of each canister whose id is in its argument. */
const MODULE = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 1) (data (i32.const 0) "m")
  (table 1 funcref) (elem (i32.const 0) $nothing)
  (func $nothing (param i32))
  (func (export "canister_update m") (call $reply))
  (func (export "canister_update storm") (local $at i32) (local $k i32)
    (call $copy (i32.const 16) (i32.const 0) (call $size))
    (local.set $at (i32.const 16))
    (loop $each
      (local.set $k (i32.const ${CALLS_EACH}))
      (loop $call
        (call $new (local.get $at) (i32.const 10) (i32.const 0) (i32.const 1)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
        (if (call $perform) (then (unreachable)))
        (br_if $call (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
      (local.set $at (i32.add (local.get $at) (i32.const 10)))
      (br_if $each (i32.lt_u (local.get $at) (i32.add (i32.const 16) (call $size)))))
    (call $reply)))`);

const idOf = (handle: number): Uint8Array => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, handle, 1, 1);

test('a turn of the event loop sends so many calls, whatever a message makes', async () => {
  const clock = new FakeClock(1_000_000);
  const pool = new ExecutorPool({ policy: POLICY, clock, log: SILENT }, { executors: 2, wasmStackBytes: STACK_BYTES });
  after(() => pool.close());
  const options = { heartbeatMs: 0, timerMs: 0, queryInstructionsMax: 1e9 };
  const scheduler = new RoundScheduler({ execution: pool, clock, storage: new NoStorage() }, options);
  const module = await pool.prepare(MODULE);
  const ended = new Array<number>(CANISTERS).fill(0);
  const stepEnded = (n: number): void => void (ended[n] = (ended[n] ?? 0) + 1);
  scheduler.attachCanisters(NO_LOADER, { ...NO_LISTENER, stepEnded });
  for (let n = 0; n < CANISTERS; n++) {
    const spec = { id: idOf(n), balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
    assert.equal(pool.create(spec), n);
    scheduler.admit(n, idToText(idOf(n)));
    const change = { mode: 'install', argument: new Uint8Array(0), caller: ANONYMOUS } as const;
    assert.equal((await scheduler.change(n, module, change)).step.fault, undefined);
  }
  const waiting = (): number => ended.reduce((sum, _, n) => sum + scheduler.stateOf(n).queued, 0);
  let [most, before] = [0, 0];
  let isOver = false;
  const look = (): void => {
    most = Math.max(most, waiting() - before);
    before = waiting();
    if (!isOver) setImmediate(look);
  };
  look();
  const argument = Buffer.concat(ended.map((_, n) => idOf(n)));
  const outcomes = await Promise.all(
    [0, 1].map((n) => scheduler.deliver(n, { kind: 'update', method: 'storm', caller: ANONYMOUS, argument })),
  );
  assert.deepEqual(
    outcomes.map(({ kind }) => kind),
    ['reply', 'reply'],
  );
  // Each of two callers makes 500 calls to each canister, and each call has a callback.
  const all = 2 * CANISTERS * CALLS_EACH * 2;
  while (ended.reduce((sum, count) => sum + count, 0) < CANISTERS + 2 + all) await new Promise(setImmediate);
  isOver = true;
  assert.ok(most >= CALLS_PER_TURN / 2, `${most} calls`);
  // Responses are sent beside the calls.
  assert.ok(most <= 2 * CALLS_PER_TURN, `one turn sent ${most} calls`);
});

test('calls take more than one turn by their number, or by the bytes of all but the last', () => {
  const { method } = callOf(idOf(0));
  const calls = (count: number, bytes: number, name = method): OutgoingCall[] =>
    Array.from({ length: count }, () => ({ ...callOf(idOf(0)), method: name, payload: new Uint8Array(bytes) }));
  const isLarge = (of: readonly OutgoingCall[]): boolean => TurnOfCalls.isTooSmallFor(of);
  assert.ok(!isLarge(calls(CALLS_PER_TURN, 0)));
  assert.ok(isLarge(calls(CALLS_PER_TURN + 1, 0)));
  const full = CALL_BYTES_PER_TURN - method.length;
  assert.ok(!isLarge(calls(1, full)));
  assert.ok(isLarge(calls(2, full)));
  assert.ok(!isLarge(calls(2, full - 1)));
  assert.ok(isLarge(calls(3, full - 1)));
  assert.ok(isLarge(calls(2, 0, 'm'.repeat(CALL_BYTES_PER_TURN))), 'names count, too');
});
