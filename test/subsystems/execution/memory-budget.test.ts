/** Accounting of the memory that all actors share, refusals, and the same refusal when a log is run again. */
import assert from 'node:assert/strict';
import { describe, suite, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { FULL_LIMIT, WASM_PAGE_BYTES } from '../../../subsystems/ic/index.ts';
import { ROOM } from '../../../subsystems/instrument/index.ts';
import { HeapTally } from '../../../subsystems/execution/memory/heap-tally.ts';
import { MessageMemory } from '../../../subsystems/execution/memory/message-memory.ts';
import { HostTrap } from '../../../subsystems/execution/engine/fault.ts';
import { MemoryBudget, OutOfMemory } from '../../../subsystems/execution/memory/memory-budget.ts';
import { seeded } from '../../support/seeded.ts';
import { HOGS, Log, MIB, PAGE, stateOf, Thread } from './budget-thread.ts';
import { ANONYMOUS, assemble, contextOf, load, WIDTHS } from './engine-fixture.ts';

const NO_PAGE = Buffer.alloc(PAGE);

function usedPages(heap: Uint8Array): number {
  let used = 0;
  for (let at = 0; at < heap.length; at += PAGE) if (NO_PAGE.compare(heap, at, at + PAGE) !== 0) used++;
  return used;
}

for (const width of WIDTHS) {
  const hog = HOGS[width];

  describe(`memory that all actors share, ${width}-bit`, () => {
    test('growth that has no room is −1; what was undone, or is gone, can be had again', () => {
      const thread = new Thread(64 * MIB);
      const [one, other] = [thread.install(hog), thread.install(hog)];
      const all = thread.ask(one, 'grow', 16);
      assert.ok(all * 65_536 > 30 * MIB && all * 65_536 < 64 * MIB, `${all} pages`);
      assert.equal(thread.ask(other, 'grow', 16), 1, 'the other has nothing left to grow by');
      assert.equal(thread.ask(other, 'inc'), 1);
      assert.match(
        thread.fault(other, 'grow_and_trap'),
        /^unreachable \(the message was refused more memory: \d+ of the/,
      );
      assert.equal(thread.ask(other, 'size'), 1);
      assert.equal(thread.ask(one, 'size'), all);
      assert.ok(thread.budget.refusals >= 2);
      assert.equal(thread.budget.bytesUsed, thread.expected([one, other]));
      thread.engine.removeCanister(one);
      thread.collect();
      assert.ok(thread.ask(other, 'grow', 16) * 65_536 > 30 * MIB);
    });

    test('to grow takes the room in which that is undone', () => {
      const thread = new Thread(128 * MIB);
      const canister = thread.install(hog);
      assert.equal(thread.ask(canister, 'grow', 16, 1200), 1201);
      const before = thread.budget.bytesUsed;
      // 75 MiB and the same again are more than there is.
      assert.equal(thread.ask(canister, 'grow', 1), 1201);
      assert.equal(thread.ask(canister, 'look_and_grow', 1), 1201);
      assert.equal(thread.budget.bytesUsed, before);
    });

    test('small heaps count by the pages that were ever touched, large ones by their size', () => {
      const thread = new Thread(1024 * MIB);
      const sparse = load(
        assemble(
          width,
          `(module (import "ic0" "msg_reply" (func $reply)) (memory %index 100)
            (func (export "canister_update touch") (i64.store (PTR.const 4000000) (i64.const 1)) (call $reply))
            (func (export "canister_update fall") (i64.store (PTR.const 5000000) (i64.const 1)) unreachable)
            (func (export "canister_query look") (i64.store (PTR.const 6000000) (i64.const 1)) (call $reply))
            (func (export "canister_update grow") (drop (memory.grow (PTR.const 200))) (call $reply)))`,
        ),
      ).code;
      const canister = thread.install(sparse);
      const pages = (): number => canister.installed?.instance.countedPages ?? -1;
      assert.equal(pages(), 0);
      thread.run(canister, 'touch');
      assert.equal(pages(), 2, 'it, and the one behind that a store may have reached');
      thread.run(canister, 'touch');
      assert.equal(pages(), 2);
      thread.fault(canister, 'fall');
      assert.equal(pages(), 4, 'undone, and the machine provides it all the same');
      thread.run(canister, 'look');
      assert.equal(pages(), 6);
      assert.equal(thread.upgrade(canister, sparse, true).step.fault, undefined);
      assert.equal(pages(), 6, 'the heap is the same');
      thread.run(canister, 'grow');
      assert.equal(pages(), 300 * 16, 'it is large now');
      const { engine, stores, budget } = thread;
      engine.removeCanister(canister);
      assert.equal(stores.heaps.droppedBytes, 300 * 65_536);
      assert.equal(budget.bytesUsed, 300 * 65_536, 'until it is collected');
    });

    test('with nothing left a page that was never touched is refused, and one that was is not', () => {
      const thread = new Thread(64 * MIB);
      const pages = load(
        assemble(
          width,
          `(module
            (import "ic0" "msg_arg_data_copy" (func $copy (param PTR PTR PTR)))
            (import "ic0" "msg_reply" (func $reply))
            (import "ic0" "msg_reply_data_append" (func $append (param PTR PTR)))
            (memory %index 100)
            (func (export "canister_update touch")
              (call $copy (PTR.const 0) (PTR.const 0) (PTR.const 4))
              (i64.store ${width === 64 ? '(i64.load32_u (i64.const 0))' : '(i32.load (i32.const 0))'} (i64.const 5))
              (i64.store (PTR.const 8) (i64.const 5))
              (call $append (PTR.const 8) (PTR.const 8))
              (call $reply)))`,
        ),
      ).code;
      const canister = thread.install(pages);
      assert.equal(thread.ask(canister, 'touch', 4_000_000), 5);
      const { budget } = thread;
      const rest = budget.pagesLeft;
      assert.ok(budget.take(rest));
      for (let k = 0; k < 3; k++) assert.equal(thread.ask(canister, 'touch', 4_000_000), 5);
      assert.match(
        thread.fault(canister, 'touch', 5_000_000),
        /^the message cannot use more of its heap: 67108864 of the/,
      );
      assert.equal(budget.bytesUsed, 64 * MIB);
      assert.equal(thread.ask(canister, 'touch', 4_000_008), 5, 'the page is its own already');
      budget.free(rest);
      assert.equal(thread.ask(canister, 'touch', 5_000_000), 5);
      assert.equal(budget.bytesUsed, thread.expected([canister]));
    });

    test('stable memory is refused to grow when there is no room, and a write without room traps', () => {
      const thread = new Thread(64 * MIB);
      const canister = thread.install(hog);
      const pages = thread.ask(canister, 'stable', 16);
      assert.ok(pages * 65_536 > 40 * MIB && pages * 65_536 <= 64 * MIB, `${pages} pages`);
      assert.equal(thread.ask(canister, 'inc'), 1);
      assert.equal(thread.ask(canister, 'stable', 16), pages);
      const { stable } = canister;
      assert.equal(stable.grow(8_000_000), pages, 'however far, it is not written');
      stable.commit();
      thread.engine.removeCanister(canister);
      thread.stores.pool.trim(0);
      const other = thread.install(hog);
      assert.ok(thread.budget.take(thread.budget.pagesLeft - (20 * MIB) / PAGE));
      const before = other.stable.pages;
      assert.match(thread.fault(other, 'pour'), /ic0.stable64_write: stable memory cannot be written: \d+ of the/);
      assert.equal(other.stable.pages, before);
      assert.ok(thread.ask(other, 'stable', 16) * 65_536 > 18 * MIB, 'what was undone can be had again');
    });

    test('pre-images count, and a message that has no room for them is undone', () => {
      const thread = new Thread(64 * MIB);
      const canister = thread.install(hog);
      thread.ask(canister, 'grow', 16, 400);
      thread.ask(canister, 'rewrite');
      assert.ok(thread.control.grownBytes > 20 * MIB, 'the control memory has become larger');
      assert.equal(thread.budget.bytesUsed, thread.expected([canister]));
      const small = new Thread(40 * MIB);
      const large = small.install(hog);
      assert.equal(small.ask(large, 'grow', 300, 301), 301);
      assert.ok(small.budget.take(small.budget.pagesLeft - 1024));
      const before = stateOf(large);
      assert.match(small.fault(large, 'rewrite'), /^the message cannot keep what it changes: \d+ of the/);
      assert.deepEqual(stateOf(large), before);
      assert.equal(small.ask(large, 'inc'), 1);
    });

    test('whatever canisters do, what is counted is what there is', () => {
      for (let seed = 1; seed <= 6; seed++) {
        const random = seeded(seed * 10 + width);
        const thread = new Thread(random.pick([24, 48, 96]) * MIB);
        const canisters: CanisterState[] = [];
        const methods = ['grow', 'grow_and_trap', 'look_and_grow', 'rewrite', 'stable', 'inc', 'pour'] as const;
        for (let round = 0; round < 150; round++) {
          const canister = canisters[random.below(5)];
          if (canister === undefined) {
            const fresh = thread.create();
            const rest = { argument: new Uint8Array(0), caller: ANONYMOUS };
            const { step } = thread.engine.change(fresh, hog, { mode: 'reinstall', ...rest }, thread.nowMs++);
            if (step.fault === undefined) canisters.push(fresh);
          } else if (random.oneIn(12)) {
            thread.upgrade(canister, hog, random.oneIn(2));
          } else if (random.oneIn(15)) {
            thread.engine.removeCanister(canister);
            canisters.splice(canisters.indexOf(canister), 1);
          } else {
            const size = (canister.installed?.instance.heapBytes ?? 0) / 65_536;
            thread.run(canister, random.pick(methods), 1 + random.below(40), size + random.below(120));
          }
          assert.equal(thread.budget.bytesUsed, thread.expected(canisters), `seed ${seed}, round ${round}`);
          assert.ok(thread.budget.bytesUsed <= thread.budget.bytesMax + MIB);
          if (random.oneIn(4)) thread.collect();
          const instance = random.oneIn(10) ? canisters[0]?.installed?.instance : undefined;
          if (instance !== undefined) assert.ok(usedPages(instance.heap()) <= instance.countedPages);
        }
      }
    });
  });
}

for (const width of WIDTHS) {
  const code = HOGS[width];

  test(`what a message was refused is refused again when its log is run, with any memory, ${width}-bit`, () => {
    let refused = 0;
    let stopped = 0;
    let refusedInCleanup = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const random = seeded(seed * 100 + width);
      const bytesMax = 48 * MIB;
      const thread = new Thread(bytesMax);
      const canister = thread.install(code, thread.create(0));
      const log = new Log();
      thread.engine.checkpoint(canister);
      log.keep(thread.engine.takeChanges());
      const first = { ...stateOf(canister), module: undefined };
      let held = 0;
      for (let round = 0; round < 60; round++) {
        // Others take memory, and give it back.
        thread.budget.free(held);
        thread.collect();
        held = random.oneIn(3) ? 0 : Math.max(0, thread.budget.pagesLeft - random.below(9000));
        assert.ok(thread.budget.take(held));
        const method = random.pick([
          'grow',
          'grow',
          'grow_and_trap',
          'rewrite',
          'stable',
          'pour',
          'inc',
          'call',
        ] as const);
        const size = (canister.installed?.instance.heapBytes ?? 0) / 65_536;
        const result = thread.run(canister, method, 1 + random.below(9), size + random.below(60));
        log.keep(result.changes);
        for (const shortage of thread.control.message.shortages ?? []) {
          if (shortage?.kind === 'refused') refused++;
          else if (shortage?.kind === 'stopped') stopped++;
        }
        for (const call of result.step.calls) {
          // The callback grows and fails, and so the cleanup runs, which grows, too.
          const response = { kind: 'reply', data: new Uint8Array(0) } as const;
          const { callbacks } = call;
          const context = contextOf(ANONYMOUS, { canAnswer: false });
          const task = { kind: 'callback', callbacks, response, refunded: 0n, context, frame: 0 } as const;
          const instructionsMax = FULL_LIMIT;
          log.keep(thread.engine.execute(canister, { ...task, instructionsMax }, thread.nowMs++).changes);
          const shortages = thread.control.message.shortages ?? [];
          if (shortages[1] !== undefined) refusedInCleanup++;
        }
      }
      const expected = stateOf(canister);
      for (const memory of [1024 * MIB, bytesMax]) {
        const again = log.replayed(memory, first, code, canister);
        const found = stateOf(again.state);
        assert.equal(Buffer.compare(found.heap, expected.heap), 0, `seed ${seed}: the heaps differ`);
        assert.deepEqual(found.globals, expected.globals);
        assert.deepEqual(found.stable, expected.stable);
        assert.equal(found.stablePages, expected.stablePages);
        assert.equal(again.state.account.balance, canister.account.balance);
        assert.equal(again.state.version, canister.version);
        assert.equal(again.budget.bytesUsed, again.expected([again.state]));
      }
    }
    const counts = `${refused} refused, ${stopped} stopped, ${refusedInCleanup} in a cleanup`;
    assert.ok(refused > 20 && stopped > 0 && refusedInCleanup > 0, counts);
  });
}

test('a log that takes more memory than there is does not damage its canister: it is told', () => {
  const thread = new Thread(256 * MIB);
  const canister = thread.install(HOGS[32], thread.create(0));
  const log = new Log();
  thread.engine.checkpoint(canister);
  log.keep(thread.engine.takeChanges());
  const first = { ...stateOf(canister), module: undefined };
  log.keep(thread.run(canister, 'grow', 1000, 1001).changes);
  assert.equal(thread.ask(canister, 'size'), 1001);
  assert.throws(() => log.replayed(48 * MIB, first, HOGS[32], canister), OutOfMemory);
  assert.equal(log.replayed(256 * MIB, first, HOGS[32], canister).ask(canister, 'size'), 1001);
});

test('threads that take and give back at once lose nothing, and never have more than there is', async () => {
  const table = MemoryBudget.table(1000 * PAGE, 5);
  const budget = new MemoryBudget(table, 4);
  const code = `
    import { workerData, parentPort } from 'node:worker_threads';
    import { MemoryBudget } from '${new URL('../../../subsystems/execution/memory/memory-budget.ts', import.meta.url).href}';
    const budget = new MemoryBudget(workerData.table, workerData.executorIndex);
    let has = 0; let most = 0; let refused = 0;
    for (let k = 0; k < 200000; k++) {
      const pages = 1 + (k * 7919 + workerData.executorIndex * 31) % 300;
      if (has < 250 && budget.take(pages)) has += pages; else { refused++; budget.free(has); has = 0; }
      most = Math.max(most, budget.bytesUsed);
    }
    parentPort.postMessage({ has, most, refused });`;
  const ends = await Promise.all(
    [0, 1, 2, 3].map(
      (executorIndex) =>
        new Promise<{ has: number; most: number; refused: number }>((resolve, reject) => {
          const url = new URL(`data:text/javascript,${encodeURIComponent(code)}`);
          const worker = new Worker(url, { workerData: { table, executorIndex } });
          worker.once('message', resolve);
          worker.once('error', reject);
        }),
    ),
  );
  for (const { most, refused } of ends) {
    assert.ok(most <= 1000 * PAGE, `${most}`);
    assert.ok(refused > 0);
  }
  assert.equal(budget.bytesUsed, ends.reduce((sum, { has }) => sum + has, 0) * PAGE);
  // The thread of one has died: its memory is free.
  budget.forget(0);
  assert.equal(budget.bytesUsed, (ends[1]?.has ?? 0) * PAGE + (ends[2]?.has ?? 0) * PAGE + (ends[3]?.has ?? 0) * PAGE);
});

suite('a message that there is no room for', () => {
  const BOUND_PAGES = 10_000;
  /** Makes a budget in which idle canisters are asked to give way, and nobody answers. */
  function crowded(
    freePages: number,
    answer: () => Promise<unknown> = () => new Promise(() => undefined),
  ): MemoryBudget {
    const budget = new MemoryBudget(MemoryBudget.table(BOUND_PAGES * PAGE, 1), 0);
    budget.attend(answer);
    assert.ok(budget.take(BOUND_PAGES - freePages));
    return budget;
  }
  const heap = (): HeapTally => new HeapTally(WASM_PAGE_BYTES);

  test('waits for a moment only where its thread stands still: relief needs that thread', () => {
    const budget = crowded(10);
    const message = new MessageMemory(budget, 256);
    message.begin(heap(), 65_536);
    const beginMs = performance.now();
    assert.throws(() => message.take(100, 'no room', false), HostTrap);
    // The wait is 50 ms; guests that can yield wait for a minute.
    assert.ok(performance.now() - beginMs < 10_000);
    budget.unattend();
  });

  test('goes on as soon as another thread gives memory back, whether or not relief has come', () => {
    class WithNeighbour extends MemoryBudget {
      looks = 0;

      override isAnswered(): boolean {
        if (++this.looks === 3) this.free(20);
        return false;
      }
    }
    const budget = new WithNeighbour(MemoryBudget.table(BOUND_PAGES * PAGE, 1), 0);
    budget.attend(() => new Promise<void>(() => undefined));
    assert.ok(budget.take(BOUND_PAGES - 10));
    assert.equal(budget.takeOrWait(20), true);
    assert.equal(budget.looks, 3);
    budget.unattend();
  });

  test('does not stand still again soon where another has in vain, and finds what has become free', () => {
    class Counting extends MemoryBudget {
      looks = 0;

      override isAnswered(question: number, waitMs: number): boolean {
        this.looks++;
        return super.isAnswered(question, waitMs);
      }
    }
    const budget = new Counting(MemoryBudget.table(BOUND_PAGES * PAGE, 1), 0);
    budget.attend(() => new Promise<void>(() => undefined));
    assert.ok(budget.take(BOUND_PAGES - 10));
    assert.equal(budget.takeOrWaitRarely(20), false);
    const { looks } = budget;
    assert.ok(looks > 0);
    for (let n = 0; n < 100; n++) assert.equal(budget.takeOrWaitRarely(20), false);
    assert.equal(budget.looks, looks);
    budget.free(10);
    assert.equal(budget.takeOrWaitRarely(20), true);
    budget.unattend();
  });

  test('is answered where it wants little, while others wait for the answer for much, and knows which was in vain', async () => {
    const budget = new MemoryBudget(MemoryBudget.table(BOUND_PAGES * PAGE, 1), 0);
    const large = Promise.withResolvers<boolean>();
    const asked: number[] = [];
    budget.attend((bytes) => {
      asked.push(bytes / PAGE);
      return bytes / PAGE === 5_000 ? large.promise : Promise.resolve(bytes / PAGE !== 40);
    });
    const answered = async (question: number): Promise<boolean> => {
      for (let turn = 0; turn < 5; turn++) await sleep(1);
      return budget.isAnswered(question, 0);
    };
    const much = budget.ask(5_000);
    assert.equal(await answered(much), false);
    const little = budget.ask(30);
    assert.deepEqual([await answered(little), budget.wasInVain(little)], [true, false]);
    const inVain = budget.ask(40);
    assert.deepEqual([await answered(inVain), budget.wasInVain(inVain)], [true, true]);
    assert.equal(await answered(much), false);
    large.resolve(true);
    assert.deepEqual([await answered(much), budget.wasInVain(much)], [true, false]);
    assert.deepEqual(asked, [5_000, 30, 40]);
    budget.unattend();
  });

  test('leaves memory to a small canister that is to be woken, for a while', (t) => {
    let ms = 1_000_000;
    t.mock.method(process, 'hrtime', () => [Math.floor(ms / 1000), (ms % 1000) * 1_000_000]);
    t.mock.method(performance, 'now', () => ms);
    const budget = crowded(10);
    const asking = (): (() => number) => {
      const message = new MessageMemory(budget, 256);
      message.begin(new HeapTally(WASM_PAGE_BYTES), 65_536);
      return () => message.growStable(4096, 0);
    };
    const lacking = (pages = 15): (() => number) => {
      const message = new MessageMemory(budget, 256);
      message.begin(new HeapTally(WASM_PAGE_BYTES), 65_536);
      return () => message.take(pages, 'no room', true);
    };
    const wake = (pages: number): unknown => [...budget.makingRoomToWake(pages)];
    assert.equal(asking()(), ROOM.GRANTED);
    wake(20);
    const [ask, lack] = [asking(), lacking()];
    // More than a message may have that is not refused at once.
    const greedy = lacking(Math.ceil(BOUND_PAGES / 64));
    assert.equal(greedy(), ROOM.LATER);
    ms += 50;
    assert.throws(greedy, HostTrap);
    ms -= 50;
    for (const waited of [0, 200]) {
      ms = 1_000_000 + waited;
      wake(20);
      // Another one that finds room changes nothing.
      wake(5);
      assert.equal(ask(), ROOM.LATER, `ten pages are free, and left alone after ${waited} ms`);
      assert.equal(lack(), ROOM.LATER);
    }
    ms += 1;
    assert.equal(ask(), ROOM.GRANTED, 'it has waited for long enough');
    assert.equal(asking()(), ROOM.LATER);
    ms = 1_000_500;
    assert.equal(lack(), ROOM.LATER);
    ms += 1;
    assert.throws(lack, HostTrap, 'what it has may be what the canister lacks');
    ms = 1_000_999;
    assert.equal(asking()(), ROOM.LATER);
    for (; ms < 1_011_000; ms += 100) {
      wake(20);
      if (ms >= 1_001_000) assert.equal(asking()(), ROOM.GRANTED, `${ms}`);
    }
    const patient = lacking();
    assert.equal(patient(), ROOM.LATER);
    ms = 1_011_600;
    assert.equal(patient(), ROOM.LATER, 'nobody is to be woken in time');
    wake(20);
    assert.equal(asking()(), ROOM.LATER);
    // The waking succeeds, so the next one has its turn at once.
    budget.free(10);
    wake(20);
    assert.equal(asking()(), ROOM.GRANTED);
    wake(30);
    assert.equal(asking()(), ROOM.LATER);
    ms += 11_000;
    for (let n = 0; n < 3; n++) wake(BOUND_PAGES / 8);
    assert.equal(asking()(), ROOM.GRANTED);
    budget.unattend();
  });

  test('is as patient with up to twice what a canister waits for as with little', (t) => {
    let ms = 1_000_000;
    t.mock.method(process, 'hrtime', () => [Math.floor(ms / 1000), (ms % 1000) * 1_000_000]);
    t.mock.method(performance, 'now', () => ms);
    const budget = crowded(10);
    const lacking = (pages: number): (() => number) => {
      const message = new MessageMemory(budget, 256);
      message.begin(heap(), 65_536);
      return () => message.take(pages, 'no room', true);
    };
    const awaited = BOUND_PAGES / 20;
    assert.deepEqual([...budget.makingRoomToWake(awaited)], []);
    const [as, more] = [lacking(2 * awaited), lacking(2 * awaited + 1)];
    for (const ask of [as, more]) assert.equal(ask(), ROOM.LATER);
    ms += 50;
    assert.throws(more, HostTrap);
    ms += 450;
    assert.equal(as(), ROOM.LATER);
    ms += 1;
    assert.throws(as, HostTrap);
    budget.unattend();
  });

  test('is refused when four answers told that nobody gives way, however many told that somebody did', async () => {
    let isWorthwhile = true;
    const budget = crowded(0, () => Promise.resolve(isWorthwhile));
    const message = new MessageMemory(budget, 256);
    message.begin(heap(), 65_536);
    const answers: number[] = [];
    for (let n = 0; n < 40; n++) {
      if (n === 20) isWorthwhile = false;
      answers.push(message.grow(1));
      await nextTurn();
    }
    const refused = answers.indexOf(ROOM.REFUSED);
    assert.ok(refused >= 23 && refused <= 26, answers.join(' '));
    budget.unattend();
  });

  test('has what its thread does not use, before anybody is asked', () => {
    const budget = new MemoryBudget(MemoryBudget.table(BOUND_PAGES * PAGE, 1), 0);
    assert.ok(budget.take(BOUND_PAGES));
    budget.reclaim = (pages) => {
      budget.free(pages);
      return true;
    };
    const message = new MessageMemory(budget, 256);
    message.begin(heap(), 65_536);
    assert.equal(message.grow(10), ROOM.GRANTED);
    assert.equal(message.growStable(65_536, 0), ROOM.GRANTED);
    assert.equal(message.take(10, 'pages', true), ROOM.GRANTED);
  });

  test('asks anew, whatever those before it have asked in vain', async () => {
    const budget = crowded(10, () => Promise.resolve());
    const message = new MessageMemory(budget, 256);
    for (let n = 0; n < 12; n++) {
      message.begin(heap(), 65_536);
      // The answer to the first request has come by then, and has freed nothing.
      for (let looks = 0; looks < 2; looks++) {
        assert.equal(message.grow(100), ROOM.LATER, `message ${n}`);
        await nextTurn();
      }
    }
    budget.unattend();
  });

  test('is refused at once where what it has itself leaves no room, and nobody is put to sleep for it', () => {
    const budget = crowded(BOUND_PAGES);
    const tally = new HeapTally(24 * 2 ** 20);
    tally.settle(budget, 0);
    const message = new MessageMemory(budget, 256);
    message.begin(tally, 65_536);
    // The canister has 6,144 pages, and undoing the growth needs the same again.
    assert.equal(message.grow(16), ROOM.REFUSED);
    budget.unattend();
  });
});
