/**
 * While a message of a canister is suspended, no other work enters the canister, through whichever engine; and in the
 * end storage is told all of the message's changes. So an answer that has left is durable as a whole: the changes are
 * taken from the journal on which the message began.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { ControlMemory, type ControlMemoryOptions } from '../../../subsystems/execution/memory/control-memory.ts';
import { createStores, Engine, runSuspendable } from '../../../subsystems/execution/engine/engine.ts';
import { FULL_LIMIT, type Task } from '../../../subsystems/ic/index.ts';
import {
  ANONYMOUS,
  assemble,
  CANISTER_ID,
  contextOf,
  EMPTY_ARGS,
  load,
  POLICY,
  STACK_BYTES,
} from './engine-fixture.ts';

const NOW_MS = 1_800_000_000_000;

/**
 * `work` writes to two pages, of heap and stable memory, and sets a global, before and after a loop of several slices.
 */
const MODULE = load(
  assemble(
    32,
    `(module
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stable (param i64 i64 i64)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (memory 4)
  (global $a (mut i32) (i32.const 0))
  (global $b (mut i32) (i32.const 0))
  (func (export "canister_init") (drop (call $grow (i64.const 4))))
  (func (export "canister_update work") (local $i i32)
    (i32.store (i32.const 8192) (i32.add (i32.load (i32.const 8192)) (i32.const 1)))
    (global.set $a (i32.add (global.get $a) (i32.const 1)))
    (call $stable (i64.const 100) (i64.const 8192) (i64.const 4))
    (local.set $i (i32.const 1000000))
    (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
    (call $stable (i64.const 70000) (i64.const 70000) (i64.const 4))
    (global.set $b (i32.add (global.get $b) (i32.const 1)))
    (call $reply))
  ;; Both halves, in memory and in the globals.
  (func (export "canister_query look")
    (i32.store (i32.const 0) (global.get $a)) (i32.store (i32.const 4) (global.get $b))
    (call $append (i32.const 0) (i32.const 8))
    (call $append (i32.const 8192) (i32.const 4)) (call $append (i32.const 70000) (i32.const 4))
    (call $reply)))`,
  ),
);

const shared = createStores({ stableBytesMax: 64 << 20 });
const engineWith = (options: Partial<ControlMemoryOptions>): Engine =>
  new Engine({
    policy: POLICY,
    control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 64 << 20, ...options }),
    shared,
    reportBug: (message) => assert.fail(message),
  });

const taskOf = (kind: 'update' | 'query', method: string): Task => ({
  kind,
  entry: MODULE.info.entries.get(`canister_${kind} ${method}`) ?? -1,
  argument: EMPTY_ARGS,
  context: contextOf(ANONYMOUS),
  instructionsMax: FULL_LIMIT,
});
const WORK = taskOf('update', 'work');
const LOOK = taskOf('query', 'look');

/** `snapshotBelowBytes` 0: the canister has a log. */
function installed(engine: Engine, snapshotBelowBytes: number): CanisterState {
  const spec = {
    id: CANISTER_ID,
    balance: POLICY.startingCycles,
    controllers: [],
    env: new Map<string, string>(),
    snapshotBelowBytes,
  };
  const canister = engine.createCanister(spec);
  const change = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS } as const;
  assert.equal(engine.change(canister, MODULE.code, change, NOW_MS).step.fault, undefined);
  return canister;
}

/** Returns the canister's answer to `look`. */
function seen(engine: Engine, canister: CanisterState): readonly number[] {
  const { answer } = engine.execute(canister, LOOK, NOW_MS).step;
  assert.equal(answer?.kind, 'reply');
  return [...new Int32Array(Uint8Array.from(answer.data).buffer)];
}

const ENTERED = /entered while a message of its own is under way/;

for (const [way, snapshotBelowBytes] of [
  ['by what changed', 1 << 30],
  ['with a log', 0],
] as const) {
  test(`a suspended message of a canister that is kept ${way} has the canister to itself, and its changes are whole`, async () => {
    const home = engineWith({});
    let resume = (): void => undefined;
    let suspended = (): void => undefined;
    const onYield = (): Promise<void> => {
      suspended();
      return new Promise((resolve) => (resume = resolve));
    };
    const suspension = (): Promise<boolean> => new Promise((resolve) => (suspended = () => resolve(true)));
    const [long, other] = [engineWith({ onYield, canSuspend: true }), engineWith({})];
    const [canister, twin, neighbour] = [
      installed(home, snapshotBelowBytes),
      installed(home, snapshotBelowBytes),
      installed(home, snapshotBelowBytes),
    ];
    // The rounds cover the changes of a first message, and of a later one.
    for (const round of [1, 2]) {
      const expected = home.execute(twin, WORK, NOW_MS);
      let suspensions = 0;
      let next = suspension();
      const running = runSuspendable(long.executing(canister, WORK, NOW_MS));
      const end = running.then(() => false);
      while (await Promise.race([next, end])) {
        suspensions++;
        for (const engine of [home, other, long]) {
          for (const task of [LOOK, WORK]) assert.throws(() => engine.execute(canister, task, NOW_MS), ENTERED);
          const change = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS } as const;
          assert.throws(() => engine.change(canister, MODULE.code, change, NOW_MS), ENTERED);
          assert.throws(() => engine.capture(canister), ENTERED);
          assert.throws(() => engine.checkpoint(canister), ENTERED);
          assert.throws(() => engine.prepareCheckpoint(canister), ENTERED);
          assert.throws(() => engine.putToSleep(canister), ENTERED);
          assert.throws(() => engine.removeCanister(canister), ENTERED);
          assert.throws(() => engine.uninstall(canister), ENTERED);
          assert.throws(() => engine.configure(canister, { version: 1 }), ENTERED);
          assert.throws(() => engine.addCycles(canister, 1n), ENTERED);
        }
        assert.throws(() => home.adopt(canister), /leave the journal of its own message/);
        // A neighbour in the same thread goes on as usual.
        assert.equal(home.execute(neighbour, WORK, NOW_MS).step.fault, undefined);
        next = suspension();
        resume();
      }
      const result = await running;
      assert.ok(suspensions >= 3, `it was suspended ${suspensions} times`);
      assert.equal(result.step.answer?.kind, 'reply');
      assert.ok((result.changes?.length ?? 0) > 0);
      assert.deepEqual(result.changes, expected.changes, `message ${round}`);
      assert.deepEqual(seen(home, canister), [round, round, round, round]);
      assert.deepEqual(seen(home, twin), [round, round, round, round]);
    }
  });
}
