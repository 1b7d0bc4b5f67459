/**
 * A message that sends or answers much stores it ahead of its step, piece by piece, in rows that the step refers to. A
 * message that is recalled meanwhile leaves none of them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EngineResult, runSuspendable, runToEnd, TOO_LONG } from '../../../subsystems/execution/engine/engine.ts';
import { payloadBytesMax } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { FULL_LIMIT, type RunKind, type StoredAs, type Task } from '../../../subsystems/ic/index.ts';
import { rowsOfPayload } from '../../../subsystems/storage/payload-rows.ts';
import { wat } from '../../support/wat.ts';
import { StoredEngine } from './stored-engine.ts';
import { ANONYMOUS, contextOf, EMPTY_ARGS, load } from './engine-fixture.ts';

const PIECE_SIZES = { atOncePages: 400, slicePages: 16 };
const PIECE_BYTES = 65_536;
const NOW_MS = 1_800_000_000_000;

/** `go` sends 100,000, 10, 300 and 200,000 bytes to another canister, and 200,000 to the management canister. */
const MODULE = load(
  wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reject" (func $reject (param i32 i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $data (param i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory (export "memory") 9) (data (i32.const 0) "\\80\\00\\00\\00\\00\\10\\00\\07\\01\\01go")
  (func (export "canister_init") (local $at i32) (local.set $at (i32.const 16))
    (loop $l
      (i32.store (local.get $at) (i32.mul (local.get $at) (i32.const 0x9e3779b1)))
      (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4))) (i32.const 400000)))))
  (func $send (param $callee i32) (param $from i32) (param $bytes i32)
    (call $new (i32.const 0) (local.get $callee) (i32.const 10) (i32.const 2)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (call $data (local.get $from) (local.get $bytes))
    (drop (call $perform)))
  (func $go
    (call $send (i32.const 10) (i32.const 16) (i32.const 100000))
    (call $send (i32.const 10) (i32.const 32) (i32.const 10))
    (call $send (i32.const 0) (i32.const 32) (i32.const 200000))
    (call $send (i32.const 10) (i32.const 48) (i32.const 300))
    (call $send (i32.const 10) (i32.const 64) (i32.const 200000))
    (call $append (i32.const 80) (i32.const 70000))
    (call $reply))
  (func (export "canister_update go") (call $go))
  (func (export "canister_update trap") (call $go) unreachable)
  (func (export "canister_update little")
    (call $send (i32.const 10) (i32.const 16) (i32.const ${payloadBytesMax(PIECE_SIZES) / 2}))
    (call $reply))
  (func (export "canister_update write") (i32.store (i32.const 16) (i32.const 1)) (call $reply))
  (func (export "canister_update refuse") (call $reject (i32.const 400016) (i32.const 150000)))
  (func (export "canister_query show")
    (call $append (i32.const 80) (i32.const 150000))
    (call $reply))
  (func (export "canister_update system")
    (call $send (i32.const 0) (i32.const 16) (i32.const 200000))
    (call $reply)))`),
);

/** A canister, and what is stored of it. */
class Stored extends StoredEngine {
  constructor({ canStore = true, isDurable = true, snapshotBelowBytes = 2 ** 40 } = {}) {
    super({ canStore, pieceSizes: PIECE_SIZES, ...(isDurable && { snapshotBelowBytes }) });
  }

  static async of(options: ConstructorParameters<typeof Stored>[0] = {}): Promise<Stored> {
    const stored = new Stored(options);
    const install = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS } as const;
    const installing = stored.engine.changing(stored.canister, MODULE.code, install, NOW_MS);
    const { step } = options.canStore === false ? runToEnd(installing) : await runSuspendable(installing);
    assert.equal(step.fault, undefined);
    return stored;
  }

  async call(method: string, keepsAnswer = true): Promise<EngineResult> {
    return await runSuspendable(this.engine.executing(this.canister, taskOf(method, keepsAnswer), NOW_MS));
  }

  /** Has an update call a query method; `number`: of the call's context. */
  async show(number: number): Promise<EngineResult> {
    const entry = MODULE.info.entries.get('canister_query show') ?? -1;
    const context = { ...contextOf(ANONYMOUS), keepsAnswer: true, number };
    const task: Task = { kind: 'update', entry, argument: EMPTY_ARGS, context, instructionsMax: FULL_LIMIT };
    return await runSuspendable(this.engine.executing(this.canister, task, NOW_MS));
  }

  execute(method: string): EngineResult {
    return this.engine.execute(this.canister, taskOf(method, true), NOW_MS);
  }

  applyTaken(): void {
    this.apply(this.engine.takeChanges());
  }

  payload(storedAs: StoredAs | undefined): Uint8Array | undefined {
    if (storedAs === undefined) return undefined;
    const rows = [...rowsOfPayload(storedAs)].map((key) => this.tables.get('queue', key));
    return new Uint8Array(Buffer.concat(rows.map((row) => row ?? assert.fail('a row is missing'))));
  }

  get rows(): number {
    return this.tables.range('queue', new Uint8Array(0)).length;
  }
}

type UpdateTask = Extract<Task, { readonly kind: RunKind }>;

function taskOf(method: string, keepsAnswer: boolean): UpdateTask {
  const entry = MODULE.info.entries.get(`canister_update ${method}`) ?? -1;
  const context = { ...contextOf(ANONYMOUS), keepsAnswer };
  return { kind: 'update', entry, argument: EMPTY_ARGS, context, instructionsMax: FULL_LIMIT };
}

/** Returns the task with an argument that is kept or not. */
function argued(task: UpdateTask, argument: Uint8Array, keepsArgument: boolean): UpdateTask {
  return { ...task, argument, context: { ...task.context, keepsArgument } };
}

const same = (a: Uint8Array | undefined, b: Uint8Array): boolean => a !== undefined && Buffer.compare(a, b) === 0;

for (const snapshotBelowBytes of [2 ** 40, 0]) {
  const way = snapshotBelowBytes === 0 ? 'by a log' : 'by what changed';
  test(`large payloads are stored ahead in pieces, of a canister that is kept ${way}`, async () => {
    const stored = await Stored.of({ snapshotBelowBytes });
    for (let round = 1; round <= 2; round++) {
      const { step } = await stored.call('go');
      assert.equal(step.fault, undefined);
      const isStored = step.calls.map(({ storedAs, payload }) => same(stored.payload(storedAs), payload));
      assert.deepEqual(isStored, [true, false, false, true, true], 'small ones and those for the system are not');
      const { answer } = step;
      assert.ok(answer?.kind === 'reply' && same(stored.payload(answer.storedAs), answer.data));
      assert.ok(Math.max(...stored.pieces) < 2 * PIECE_BYTES, `pieces of ${stored.pieces.join(', ')} bytes`);
      assert.equal(stored.pieces.length, 7 * round, 'half a piece is enough');
      assert.equal(stored.rows, 9 * round, 'another message has other rows');
    }
    const { step } = await stored.call('go', false);
    assert.ok(step.answer?.kind === 'reply' && step.answer.storedAs === undefined, 'a client gets the answer at once');
  });
}

test('a message that is recalled between two pieces leaves no rows', async () => {
  for (const recalledAt of [1, 3, 5]) {
    const stored = await Stored.of();
    stored.onPiece = () => stored.pieces.length < recalledAt;
    assert.equal(await stored.call('go'), TOO_LONG);
    assert.ok(stored.rows > 0);
    stored.applyTaken();
    assert.equal(stored.rows, 0);
    stored.onPiece = () => true;
    const { step } = await stored.call('go');
    assert.equal(step.calls.length, 5, 'it can begin again');
  }
});

test('nothing is stored ahead of a message that traps, of little, and of what is not kept', async () => {
  const stored = await Stored.of();
  assert.equal((await stored.call('trap')).step.fault?.kind, 'trap');
  for (const method of ['little', 'system']) {
    const { step } = await stored.call(method);
    assert.deepEqual(
      step.calls.map(({ storedAs }) => storedAs),
      [undefined],
    );
  }
  const inMemory = await Stored.of({ isDurable: false });
  const { step } = await inMemory.call('go');
  assert.ok(step.calls.every(({ storedAs }) => storedAs === undefined));
  assert.deepEqual([...stored.pieces, ...inMemory.pieces], []);
});

test('a message that has to store much, where it cannot wait, begins again where it can', async () => {
  const stored = await Stored.of({ canStore: false });
  assert.equal(stored.execute('go'), TOO_LONG);
  assert.equal(stored.execute('little').step.fault, undefined);
  assert.equal(stored.execute('system').step.fault, undefined);
  const inMemory = await Stored.of({ canStore: false, isDurable: false });
  assert.equal(inMemory.execute('go').step.calls.length, 5);
});

test('answers of queries have rows of their own, though they leave their canister its version', async () => {
  const stored = await Stored.of();
  const first = (await stored.show(7)).step.answer;
  const second = (await stored.show(8)).step.answer;
  for (const answer of [first, second])
    assert.ok(answer?.kind === 'reply' && same(stored.payload(answer.storedAs), answer.data));
  assert.equal(stored.rows, 6);
  const { answer } = (await stored.show(0)).step;
  assert.ok(answer?.kind === 'reply' && answer.storedAs === undefined, 'without a number there is no key for them');
});

test('a message whose argument goes with its step waits until what came before is durable', async () => {
  const argument = new Uint8Array(payloadBytesMax(PIECE_SIZES) + 1);
  for (const [snapshotBelowBytes, keepsArgument, pieces] of [
    [0, false, 1],
    [2 ** 40, true, 1],
    [2 ** 40, false, 0],
  ] as const)
    // One that traps is noted, and is in the log, as well.
    for (const method of ['system', 'trap']) {
      const stored = await Stored.of({ snapshotBelowBytes });
      const task = argued(taskOf(method, false), argument, keepsArgument);
      assert.equal(stored.engine.carriesMuch(stored.canister, task), pieces === 1);
      const { step } = await runSuspendable(stored.engine.executing(stored.canister, task, NOW_MS));
      assert.equal(step.fault?.kind, method === 'trap' ? 'trap' : undefined);
      assert.deepEqual(stored.pieces, Array(pieces).fill(0));
      assert.equal(stored.rows, 0);
      const small = argued(taskOf(method, false), argument.subarray(1), keepsArgument);
      assert.ok(!stored.engine.carriesMuch(stored.canister, small));
    }
});

test('a message that has happened is not taken back while it waits for what came before', async () => {
  const stored = await Stored.of();
  stored.onPiece = () => false;
  const task = argued(taskOf('write', false), new Uint8Array(payloadBytesMax(PIECE_SIZES) + 1), true);
  const { step, changes } = await runSuspendable(stored.engine.executing(stored.canister, task, NOW_MS));
  assert.equal(step.answer?.kind, 'reply');
  assert.ok(changes !== undefined, 'its changes are told with its step');
});

test('a long reject waits until what came before is durable, and begins again where it can wait', async () => {
  const stored = await Stored.of();
  const { step } = await stored.call('refuse');
  assert.ok(step.answer?.kind === 'reject' && step.answer.message.length === 150_000);
  assert.deepEqual(stored.pieces, [0]);
  await stored.call('refuse', false);
  assert.deepEqual(stored.pieces, [0], 'a client gets the answer at once');
  const elsewhere = await Stored.of({ canStore: false });
  assert.equal(elsewhere.execute('refuse'), TOO_LONG);
});
