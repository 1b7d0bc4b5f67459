/**
 * Memory that the machine, V8 or the budget refuses at rare moments: memory taken for it is given back, the message's
 * view is in its record, and unused memory is not kept alive.
 */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { HeapTally } from '../../../subsystems/execution/memory/heap-tally.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { MessageMemory } from '../../../subsystems/execution/memory/message-memory.ts';
import { WASM_PAGE_BYTES } from '../../../subsystems/ic/index.ts';
import { ROOM } from '../../../subsystems/instrument/index.ts';
import { collectGarbage } from '../../../subsystems/threads/index.ts';
import { hogModule } from '../../e2e/memory/hog.ts';
import { HOGS, Log, MIB, PAGE, stateOf, Thread } from './budget-thread.ts';
import { ANONYMOUS, assemble, load, STACK_BYTES, WIDTHS } from './engine-fixture.ts';

/**
 * Limits memories to so many pages of 64 KiB from now on, whatever maximum they were made with; code is not told of the
 * limit.
 */
function v8Provides(pages: number): void {
  setFlagsFromString(`--wasm-max-mem-pages=${pages}`);
}
const EVERYTHING = 2 ** 32 - 1;

/** Idle canisters have a quarter of the memory, and go to sleep for a waiting one. */
class WithIdle extends MemoryBudget {
  idlePages = 0;
  questions = 0;

  override isAnswered(): boolean {
    this.questions++;
    this.free(this.idlePages);
    this.idlePages = 0;
    return true;
  }
}

for (const width of WIDTHS) {
  const hog = HOGS[width];

  describe(`what is refused late, ${width}-bit`, () => {
    afterEach(() => v8Provides(EVERYTHING));

    test('a heap that V8 does not grow was not granted, and the same when the log is run again', () => {
      const thread = new Thread(256 * MIB);
      const canister = thread.install(hog, thread.create(0));
      const log = new Log();
      thread.engine.checkpoint(canister);
      log.keep(thread.engine.takeChanges());
      const first = { ...stateOf(canister), module: undefined };
      v8Provides(60);
      const result = thread.run(canister, 'grow', 16, 200);
      log.keep(result.changes);
      assert.equal(canister.installed?.instance.heapBytes, 49 * WASM_PAGE_BYTES, 'three growths, and no fourth');
      assert.deepEqual(thread.control.message.shortages, [{ kind: 'refused', granted: 3 }]);
      assert.equal(thread.budget.bytesUsed, thread.expected([canister]));
      assert.equal(thread.budget.refusals, 1);
      v8Provides(EVERYTHING);
      const again = log.replayed(1024 * MIB, first, hog, canister);
      assert.equal(Buffer.compare(stateOf(again.state).heap, stateOf(canister).heap), 0);
      const next = thread.run(canister, 'grow', 16, 600);
      assert.equal(
        canister.installed?.instance.heapBytes,
        609 * WASM_PAGE_BYTES,
        'the next message has what there is again',
      );
      log.keep(next.changes);
      // A machine that provides less than before: the canister is intact, and cannot be woken here.
      v8Provides(500);
      assert.throws(() => log.replayed(1024 * MIB, first, hog, canister), { name: 'OutOfMemory' });
    });

    test('what was taken for such a growth is free at once, for a message may go on for long', () => {
      const budget = new MemoryBudget(MemoryBudget.table(64 * MIB, 1), 0);
      const message = new MessageMemory(budget, 256);
      const tally = new HeapTally(WASM_PAGE_BYTES);
      message.beginTask();
      message.begin(tally, 1000);
      assert.equal(message.grow(100), ROOM.GRANTED);
      assert.equal(message.grow(2000), ROOM.GRANTED, 'it is beyond the maximum of the module, and fails by itself');
      message.notGrown();
      assert.equal(budget.bytesUsed, 100 * WASM_PAGE_BYTES);
      assert.equal(message.grow(200), ROOM.GRANTED);
      message.notGrown();
      assert.equal(budget.bytesUsed, 100 * WASM_PAGE_BYTES);
      assert.equal(message.grow(1), ROOM.REFUSED, 'after one refusal there are others, until the message ends');
      assert.deepEqual(message.shortages, [{ kind: 'refused', granted: 1 }]);
      message.settle(tally);
      assert.equal(budget.bytesUsed, 0);
    });

    test('a journal that V8 does not grow stops the message, and nothing is lost of the budget', () => {
      const thread = new Thread(256 * MIB);
      const canister = thread.install(hog);
      thread.ask(canister, 'grow', 16, 180);
      const before = stateOf(canister);
      v8Provides(thread.control.memory.buffer.byteLength / WASM_PAGE_BYTES);
      assert.match(thread.fault(canister, 'rewrite'), /^the message cannot keep what it changes: the machine has no/);
      assert.equal(thread.control.message.shortages?.[0]?.kind, 'stopped');
      assert.equal(thread.budget.bytesUsed, thread.expected([canister]));
      assert.deepEqual(stateOf(canister), before);
      v8Provides(EVERYTHING);
      thread.ask(canister, 'rewrite');
    });

    test('a spare heap that cannot be grown stays a spare heap', () => {
      const thread = new Thread(256 * MIB);
      thread.engine.removeCanister(thread.install(hog));
      assert.equal(thread.stores.heaps.count, 1);
      v8Provides(20);
      const canister = thread.create();
      const large = load(hogModule(width, 40)).code;
      const rest = { argument: new Uint8Array(0), caller: ANONYMOUS };
      const { fault } = thread.engine.change(canister, large, { mode: 'reinstall', ...rest }, thread.nowMs++).step;
      assert.equal(fault?.kind, 'unavailable');
      assert.equal(thread.stores.heaps.count, 1);
      assert.equal(thread.budget.bytesUsed, thread.expected([canister]));
    });

    test('an instance that cannot be made takes nothing', (t) => {
      const thread = new Thread(256 * MIB);
      // The heap is a spare one, or a new one of a size that no spare heap has.
      thread.engine.removeCanister(thread.install(hog));
      const kept = thread.install(hog);
      const large = load(hogModule(width, 300)).code;
      const { Instance } = WebAssembly;
      t.after(() => (WebAssembly.Instance = Instance));
      const failOnce = (): void => {
        WebAssembly.Instance = function (): never {
          WebAssembly.Instance = Instance;
          throw new RangeError('WebAssembly.Instance(): Out of memory');
        } as unknown as typeof Instance;
      };
      for (const code of [load(hogModule(width, 4)).code, large]) {
        const canister = thread.create();
        const rest = { argument: new Uint8Array(0), caller: ANONYMOUS };
        failOnce();
        const { fault } = thread.engine.change(canister, code, { mode: 'reinstall', ...rest }, thread.nowMs++).step;
        assert.equal(fault?.kind, 'unavailable');
        failOnce();
        assert.equal(thread.upgrade(kept, load(hogModule(width, 2)).code, true).step.fault?.kind, 'unavailable');
        assert.equal(thread.budget.bytesUsed, thread.expected([canister, kept]));
        thread.install(code, canister);
        assert.equal(thread.budget.bytesUsed, thread.expected([canister, kept]));
        thread.engine.removeCanister(canister);
      }
      assert.equal(thread.ask(kept, 'inc'), 1);
      thread.engine.removeCanister(kept);
      assert.equal(thread.budget.bytesUsed, thread.expected([]));
    });

    test('a small heap that was large in a message that was undone counts what it has', () => {
      const thread = new Thread(256 * MIB);
      // The last page of the heap is used, and hardly any before it.
      const sparse = load(
        assemble(
          width,
          `(module
            (import "ic0" "msg_reply" (func $reply))
            (memory %index 100)
            (func (export "canister_update touch") (i64.store (PTR.const 6500000) (i64.const 7)) (call $reply))
            (func (export "canister_update grow_and_trap") (drop (memory.grow (PTR.const 300)))
              (memory.fill (PTR.const 0) (i32.const 1) (PTR.const 20000000)) (unreachable))
            (func (export "canister_update grow") (drop (memory.grow (PTR.const 50)))
              (i64.store (PTR.const 9000000) (i64.const 8)) (call $reply)))`,
        ),
      ).code;
      const canister = thread.install(sparse);
      thread.run(canister, 'touch');
      const counted = (): number => canister.installed?.instance.countedPages ?? -1;
      const before = counted();
      assert.ok(before < 10, `${before} pages`);
      thread.fault(canister, 'grow_and_trap', 16, 400);
      assert.ok(counted() < 10, `${counted()} pages of ${100 * 16} after it`);
      assert.equal(thread.budget.bytesUsed, thread.expected([canister]));
      // The heap is as before: also for the next message, and for the next canister that gets it.
      thread.run(canister, 'grow');
      const grown = stateOf(canister);
      thread.fault(canister, 'grow_and_trap', 16, 400);
      assert.deepEqual(stateOf(canister), grown);
    });

    test('a write to stable memory waits for idle canisters to go to sleep', () => {
      const thread = new Thread(64 * MIB, WithIdle);
      const budget = thread.budget as WithIdle;
      budget.attend(() => Promise.resolve());
      const canister = thread.install(hog);
      budget.idlePages = budget.pagesLeft - MIB / PAGE;
      assert.ok(budget.take(budget.idlePages));
      // The canister's growth reserves only the first 16 MiB, so it is not refused then, and the idle ones come back
      // after it.
      const wide = load(
        assemble(
          width,
          `(module
            (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
            (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
            (import "ic0" "msg_reply" (func $reply))
            (memory %index 130)
            (func (export "canister_update reserve") (drop (call $grow (i64.const 128))) (call $reply))
            (func (export "canister_update pour") (call $write (i64.const 0) (i64.const 0) (i64.const 8388608)) (call $reply)))`,
        ),
      ).code;
      const pouring = thread.install(wide);
      assert.equal(thread.run(pouring, 'reserve').step.fault, undefined);
      assert.equal(pouring.stable.pages, 128);
      budget.idlePages = budget.pagesLeft - MIB / PAGE;
      assert.ok(budget.take(budget.idlePages));
      budget.questions = 0;
      assert.equal(thread.run(pouring, 'pour').step.fault, undefined);
      assert.equal(budget.questions, 1, 'once for all that it writes: the thread stands still meanwhile');
      assert.equal(budget.bytesUsed, thread.expected([canister, pouring]));
      budget.unattend();
    });
  });
}

test('the journal of an engine that is gone is not kept alive by spare heaps that were used with it', async () => {
  const thread = new Thread(256 * MIB);
  const { stores, budget } = thread;
  const canister = thread.install(HOGS[32]);
  const released = (() => {
    const control = new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 1 << 30, budget });
    const engine = thread.engineOn(control);
    thread.run(canister, 'grow', 16, 200, engine);
    thread.run(canister, 'rewrite', 0, 0, engine);
    // The growth is undone on a copy: the canister's heap goes to the pool, too.
    thread.run(canister, 'grow_and_trap', 16, 240, engine);
    assert.ok(engine.journalBytes > MIB);
    engine.removeCanister(canister);
    assert.ok(stores.heaps.count >= 2);
    const dropped = stores.heaps.droppedBytes;
    const { journalBytes } = engine;
    engine.dispose();
    assert.equal(stores.heaps.droppedBytes, dropped + journalBytes);
    return new WeakRef(control.memory);
  })();
  for (let n = 0; n < 10 && released.deref() !== undefined; n++) {
    await nextTurn();
    collectGarbage('full');
  }
  assert.equal(released.deref(), undefined);
  assert.ok(stores.heaps.count >= 2, 'they are there for the next canister');
});
