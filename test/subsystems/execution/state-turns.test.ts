/**
 * Changes of a large canister that are no messages, or that do much work behind one, let others run: installation,
 * upgrade, a snapshot taken and loaded. The resulting canister, and the changes told to storage, are those of an engine
 * that never pauses.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Logger } from '../../../kernel/index.ts';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import type { Engine, EngineResult, Running } from '../../../subsystems/execution/engine/engine.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { Recalled } from '../../../subsystems/execution/memory/pieces.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import type { CanisterImage, CodeChange, ModuleInfo, SleepingCanister } from '../../../subsystems/execution/index.ts';
import { type EndedStep, FULL_LIMIT, NO_NUMBERS } from '../../../subsystems/ic/index.ts';
import { PageCollector, type StoredPages } from '../../../subsystems/storage/stored-pages.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { wat } from '../../support/wat.ts';
import {
  ANONYMOUS,
  CANISTER_ID,
  contextOf,
  EMPTY_ARGS,
  load,
  newEngine,
  POLICY,
  STACK_BYTES,
} from './engine-fixture.ts';

const MIB = 2 ** 20;
const NOW_MS = 1_800_000_000_000;
/** Bytes of the heap, and of stable memory. */
const BYTES = 6 * MIB;
/** Bytes that may be processed between two pauses. */
const AT_ONCE_BYTES = MIB;
/** Answers of another canister beside one whole state, at the least, in the best of so many tries. */
const ANSWERS_LEAST = 2;
const TRIES_MAX = 50;
const WASM_PAGE_BYTES = 65_536;

/** `canister_init` and `canister_post_upgrade` fill both memories; `maximum` in pages. */
const moduleOf = (maximum: number, value: number): Uint8Array =>
  wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "stable64_size" (func $size (result i64)))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (memory (export "memory") 2 ${maximum})
  (func $fill
    (if (i32.lt_u (memory.size) (i32.const 200)) (then (drop (memory.grow (i32.const 198)))))
    (if (i64.eqz (call $size)) (then (drop (call $grow (i64.const 200)))))
    (memory.fill (i32.const 16) (i32.const ${value}) (i32.const ${BYTES}))
    (call $write (i64.const 4096) (i64.const 16) (i64.const ${BYTES})))
  (func (export "canister_init") (call $fill))
  (func (export "canister_post_upgrade") (call $fill))
  (func (export "canister_query quick") (call $reply)))`);
const FIRST_BYTES = moduleOf(300, 7);
const FIRST = load(FIRST_BYTES);
const SECOND = load(moduleOf(301, 9));

/** Runs the work, and counts the pauses after its last wasm. */
function paused<T>(running: Running<T>): { readonly result: T; readonly pauses: number } {
  let pauses = 0;
  for (let next = running.next(); ;) {
    if (next.done === true) return { result: next.value, pauses };
    const fault = next.value.runToEnd();
    pauses = isPause(next.value) ? pauses + 1 : 0;
    next = running.next(fault);
  }
}

function isPause(runnable: object): boolean {
  return !('heapBytes' in runnable);
}

interface Side {
  readonly engine: Engine;
  readonly canister: CanisterState;
}

function sideOf(snapshotBelowBytes: number | undefined, budget?: MemoryBudget): Side {
  const engine = newEngine({}, undefined, undefined, budget);
  const spec = { id: CANISTER_ID, balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
  const canister = engine.createCanister(snapshotBelowBytes === undefined ? spec : { ...spec, snapshotBelowBytes });
  return { engine, canister };
}

const CHANGES: readonly (readonly [CodeChange, typeof FIRST])[] = [
  [{ mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS }, FIRST],
  [{ mode: 'upgrade', keepsHeap: false, skipsPreUpgrade: false, argument: EMPTY_ARGS, caller: ANONYMOUS }, SECOND],
  [{ mode: 'upgrade', keepsHeap: true, skipsPreUpgrade: false, argument: EMPTY_ARGS, caller: ANONYMOUS }, FIRST],
  [{ mode: 'upgrade', keepsHeap: true, skipsPreUpgrade: false, argument: EMPTY_ARGS, caller: ANONYMOUS }, FIRST],
  [{ mode: 'reinstall', argument: EMPTY_ARGS, caller: ANONYMOUS }, SECOND],
];

function assertSame(a: Side, b: Side): void {
  const [ours, theirs] = [a, b].map(({ engine, canister }) => engine.capture(canister));
  assert.ok(ours !== undefined && theirs !== undefined);
  assert.equal(Buffer.compare(ours.heap, theirs.heap), 0, 'the heap');
  assert.deepEqual(ours.globals, theirs.globals);
  assert.equal(ours.stablePages, theirs.stablePages);
  const stable = [ours, theirs].map((image) => Buffer.concat(image.stable.map(({ bytes }) => bytes)));
  assert.equal(Buffer.compare(stable[0] ?? EMPTY_ARGS, stable[1] ?? EMPTY_ARGS), 0, 'stable memory');
  assert.deepEqual(
    ours.stable.map(({ offset }) => offset),
    theirs.stable.map(({ offset }) => offset),
  );
}

const told = (changes: EngineResult['changes']): readonly string[] | undefined =>
  changes?.map((piece) => Buffer.from(piece).toString('base64'));

for (const snapshotBelowBytes of [0, 1 << 30]) {
  test(`others are let in while a change of code is written, with ${snapshotBelowBytes === 0 ? 'a log' : 'an image'}`, () => {
    const ours = sideOf(snapshotBelowBytes);
    const twin = sideOf(snapshotBelowBytes);
    for (const [at, [change, { code }]] of CHANGES.entries()) {
      const expected = twin.engine.change(twin.canister, code, change, NOW_MS);
      const { result, pauses } = paused(ours.engine.changing(ours.canister, code, change, NOW_MS));
      const what = `change ${at}`;
      assert.equal(result.step.fault, undefined, what);
      assert.deepEqual(result.step, expected.step, what);
      assert.deepEqual(told(result.changes), told(expected.changes), what);
      const least = (2 * BYTES) / AT_ONCE_BYTES;
      assert.ok(pauses >= least, `${what}: ${pauses} pauses, and ${least} MiB are written at least`);
    }
    assertSame(ours, twin);
  });
}

test('others are let in while a state is captured and restored', () => {
  for (const snapshotBelowBytes of [undefined, 0, 1 << 30]) {
    const ours = sideOf(snapshotBelowBytes);
    const [change] = CHANGES[0] ?? [];
    assert.ok(change !== undefined);
    assert.equal(ours.engine.change(ours.canister, FIRST.code, change, NOW_MS).step.fault, undefined);
    const { result: image, pauses } = paused(ours.engine.capturing(ours.canister));
    assert.equal(image.heap.length, 200 * WASM_PAGE_BYTES);
    assert.ok(pauses >= (2 * BYTES) / AT_ONCE_BYTES - 2, `captured with ${pauses} pauses`);

    const again = sideOf(snapshotBelowBytes);
    const twin = sideOf(snapshotBelowBytes);
    assert.equal(twin.engine.restore(twin.canister, FIRST.code, image), undefined);
    const restored = paused(again.engine.restoring(again.canister, FIRST.code, image));
    assert.equal(restored.result, undefined);
    const least = ((snapshotBelowBytes === undefined ? 2 : 4) * BYTES) / AT_ONCE_BYTES - 2;
    assert.ok(restored.pauses >= least, `restored with ${restored.pauses} pauses, stored ${snapshotBelowBytes}`);
    assertSame(again, ours);
    assertSame(again, twin);
    assert.deepEqual(told(again.engine.takeChanges()), told(twin.engine.takeChanges()));
  }
});

test('a state whose copy is recalled at any pause stays as it was, and no memory of the copy is kept', () => {
  for (const snapshotBelowBytes of [undefined, 0]) {
    const budget = MemoryBudget.unbounded();
    const { engine, canister } = sideOf(snapshotBelowBytes, budget);
    const [change] = CHANGES[0] ?? [];
    assert.ok(change !== undefined);
    assert.equal(engine.change(canister, SECOND.code, change, NOW_MS).step.fault, undefined);
    const other = sideOf(undefined);
    assert.equal(other.engine.change(other.canister, FIRST.code, change, NOW_MS).step.fault, undefined);
    const image = other.engine.capture(other.canister);
    const before = engine.capture(canister);
    const stored = engine.stableBytesStored;
    // The memory of one copy that ended may be kept for the next.
    const bytesMax = budget.bytesUsed + before.heap.length + BYTES;
    engine.takeChanges();
    const recalled = (work: (isRecalled: () => boolean) => Running<unknown>): number => {
      for (let asked = 0; ; asked += asked < 3 ? 1 : 4) {
        let left = asked;
        try {
          paused(work(() => left-- <= 0));
          return asked;
        } catch (error) {
          assert.ok(error instanceof Recalled, String(error));
        }
        assert.equal(engine.stableBytesStored, stored);
        assert.ok(budget.bytesUsed <= bytesMax, `${budget.bytesUsed} bytes are used, ${bytesMax} at most before`);
        assert.equal(engine.takeChanges(), undefined);
        const now = engine.capture(canister);
        assert.equal(Buffer.compare(now.heap, before.heap), 0, 'the heap');
        assert.deepEqual(now.globals, before.globals);
        assert.deepEqual([now.stablePages, now.stable.length], [before.stablePages, before.stable.length]);
      }
    };
    const least = (2 * BYTES) / AT_ONCE_BYTES - 2;
    const captures = recalled((isRecalled) => engine.capturing(canister, isRecalled));
    assert.ok(captures >= least, `${captures} pauses of a capture`);
    const restores = recalled((isRecalled) => engine.restoring(canister, FIRST.code, image, isRecalled));
    assert.ok(restores >= least, `${restores} pauses of a restore`);
    assert.equal(Buffer.compare(engine.capture(canister).heap, image.heap), 0, 'the last one is not recalled');
  }
});

/** Returns a canister as it is stored; its heap and its stable memory have several chunks each. */
function storedAs(image: CanisterImage, module: ModuleInfo): SleepingCanister {
  const pagesOf = (runs: readonly { readonly offset: number; readonly bytes: Uint8Array }[]): StoredPages => {
    const collector = new PageCollector();
    for (const { offset, bytes } of runs)
      for (let at = 0; at < bytes.length; at += PAGE_BYTES)
        collector.add((offset + at) / PAGE_BYTES, bytes.subarray(at, at + PAGE_BYTES));
    return collector.take();
  };
  const memory = { heap: pagesOf([{ offset: 0, bytes: image.heap }]), stable: pagesOf(image.stable) };
  assert.ok(memory.heap.chunks.length > 1 && memory.stable.chunks.length > 1);
  return {
    spec: { id: CANISTER_ID, balance: POLICY.startingCycles, controllers: [], env: new Map() },
    settings: {
      ...NO_NUMBERS,
      controllers: [],
      env: new Map(),
      status: 'running',
      version: 1,
      heapBytesMax: Infinity,
    },
    timerNs: 0n,
    instantMs: NOW_MS,
    heapBytes: image.heap.length,
    stablePages: image.stablePages,
    module,
    memory,
    copy: 0,
    globals: image.globals,
    certifiedData: image.certifiedData,
    openCalls: [],
    log: undefined,
  };
}

test('an executor answers others while a state is captured, restored or woken', async () => {
  const silent = (): void => undefined;
  const log: Logger = { info: silent, warn: silent, error: silent, debug: silent, announce: silent, event: silent };
  const clock = new FakeClock(NOW_MS);
  const pool = new ExecutorPool({ policy: POLICY, clock, log }, { executors: 1, wasmStackBytes: STACK_BYTES });
  after(() => pool.close());
  const module = await pool.prepare(FIRST_BYTES);
  const install: CodeChange = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS };
  const [large, other] = await Promise.all(
    [1, 2].map(async (n) => {
      const id = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, n, 1, 1);
      const spec = { id, balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
      const handle = pool.create(spec);
      const { step } = await new Promise<EndedStep>((done) => pool.change(handle, module, install, done));
      assert.equal(step.fault, undefined);
      return handle;
    }),
  );
  assert.ok(large !== undefined && other !== undefined);
  const entry = module.entries.get('canister_query quick') ?? -1;
  const ask = (handle: number): Promise<void> =>
    new Promise((done) => {
      const context = contextOf(ANONYMOUS);
      pool.run(
        handle,
        { kind: 'query', entry, argument: EMPTY_ARGS, context, instructionsMax: FULL_LIMIT },
        ({ step }) => {
          assert.equal(step.fault, undefined);
          done();
        },
      );
    });
  /** Returns how many queries of the other canister are answered, one after another, before `work` ends. */
  const answersBeside = async (work: Promise<unknown>): Promise<number> => {
    let answers = 0;
    let isDone = false;
    const noted = work.then(() => (isDone = true));
    for (; ; answers++) {
      await ask(other);
      if (isDone) break;
    }
    await noted;
    return answers;
  };
  const captured = pool.capture(large, module);
  await captured;
  // Recalled before the thread has begun, or at a pause.
  for (const work of [() => pool.capture(large, module), async () => pool.restore(large, await captured)]) {
    const recalled = assert.rejects(work(), { code: 'state-unfit', message: /the actor is being deleted/ });
    await Promise.resolve();
    pool.recall(large, 'everything');
    await recalled;
    pool.recall(large, 'nothing');
  }
  // Between the posts of the two, the machine may give its cores to others for as long as the whole work takes.
  const answers = { capture: 0, restore: 0, wake: 0 };
  const isEnough = (): boolean => Object.values(answers).every((count) => count >= ANSWERS_LEAST);
  for (let tries = 0; tries < TRIES_MAX && !isEnough(); tries++) {
    answers.capture = Math.max(answers.capture, await answersBeside(pool.capture(large, module)));
    answers.restore = Math.max(answers.restore, await answersBeside(pool.restore(large, await captured)));
    await pool.sleep(large);
    const stored = storedAs(await captured, module);
    answers.wake = Math.max(answers.wake, await answersBeside(pool.wake(large, stored)));
    await ask(large);
  }
  assert.ok(isEnough(), JSON.stringify(answers));
  const again = await pool.capture(large, module);
  assert.equal(Buffer.compare(again.heap, (await captured).heap), 0);
  assert.deepEqual(again.stable, (await captured).stable);
});
