/**
 * Sleeping canisters that executors keep: their choice, their number, and kept state that differs from the stored one.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { systemClock } from '../../../kernel/index.ts';
import { asleep, Bench, type Canister, upgrade } from '../../../plugins/api/contracts/execution/bench.ts';
import { NO_FACTS } from '../../../subsystems/ic/index.ts';
import type { PackedFacts } from '../../../subsystems/execution/index.ts';
import { HeapTally } from '../../../subsystems/execution/memory/heap-tally.ts';
import { HeapTemplates } from '../../../subsystems/execution/memory/heap-template.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import type { PackedCanister } from '../../../subsystems/execution/persistence/packed-canister.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { PackedCanisters } from '../../../subsystems/execution/thread/packed-canisters.ts';
import type { InstrumentedCode } from '../../../subsystems/execution/wire/instrumented-code.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { Overlay } from '../../../subsystems/storage/overlay.ts';
import { fakeAmbient } from '../../support/kernel.ts';
import { POLICY, STACK_BYTES } from './engine-fixture.ts';

const MIB = 2 ** 20;
const PAGE = 4096;

describe('what an executor keeps', () => {
  const { logger: log } = fakeAmbient();
  const pool = new ExecutorPool(
    { policy: POLICY, clock: systemClock, log },
    { executors: 1, wasmStackBytes: STACK_BYTES },
  );
  const alive = setInterval(() => undefined, 1000);
  after(async () => {
    clearInterval(alive);
    await pool.close();
  });

  const stored = new Overlay(new MemoryTables());
  const made = async (snapshotBelowBytes = 2 ** 30): Promise<[Bench, Canister]> => {
    const bench = await Bench.over({ execution: pool });
    const it = await bench.installed(Uint8Array.of(20), { snapshotBelowBytes }, stored);
    await bench.change(it, bench.module, upgrade(true));
    await pool.sleep(it.handle);
    return [bench, it];
  };
  const woken = async (bench: Bench, it: Canister): Promise<void> => {
    await pool.wake(it.handle, asleep(bench, it, stored));
    assert.deepEqual(await bench.counts(it, 'get'), [20]);
    pool.remove(it.handle);
  };

  test('is what it puts to sleep, once', async () => {
    const [bench, it] = await made();
    assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), true);
    assert.deepEqual(await bench.counts(it, 'get', 'inc'), [20, 21]);
    assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false, 'it is awake');
    pool.remove(it.handle);
  });

  test('is nothing of a canister with a log, which is run again', async () => {
    const [bench, it] = await made(0);
    assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false);
    await woken(bench, it);
  });

  test('is given back when memory is needed', async () => {
    const [bench, it] = await made();
    const before = pool.memory.bytesUsed;
    await pool.trim();
    assert.ok(pool.memory.bytesUsed < before, 'it was counted');
    assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false);
    await woken(bench, it);
  });

  const changes: Readonly<Record<string, (it: Canister) => void>> = {
    'settings that were changed': (it) => pool.configure(it.handle, { heapBytesMax: MIB }),
    'a certificate that was given': (it) => pool.giveFacts(it.handle, { ...NO_FACTS, hasCertificate: true }),
  };
  for (const [what, change] of Object.entries(changes))
    test(`is not used after ${what} while it slept`, async () => {
      const [bench, it] = await made();
      change(it);
      assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false);
      await pool.wake(it.handle, asleep(bench, it, stored));
      // The same holds before the canister's executor has answered.
      const falling = pool.sleep(it.handle);
      change(it);
      await falling;
      assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false);
      await woken(bench, it);
    });

  const others: Readonly<Record<string, (it: PackedFacts) => PackedFacts>> = {
    balance: (it) => ({ ...it, spec: { ...it.spec, balance: it.spec.balance + 1n } }),
    version: (it) => ({ ...it, settings: { ...it.settings, version: it.settings.version + 1 } }),
    'size of the heap': (it) => ({ ...it, heapBytes: it.heapBytes + 65_536 }),
    'size of the stable memory': (it) => ({ ...it, stablePages: it.stablePages + 1 }),
    'open call': (it) => ({ ...it, openCalls: [{ callee: new Uint8Array(10), slot: 1, count: 1 }] }),
  };
  for (const [what, changed] of Object.entries(others))
    test(`is not used where the host knows of another ${what}`, async () => {
      const [bench, it] = await made();
      assert.equal(await pool.rouse(it.handle, changed(asleep(bench, it, stored))), false);
      await woken(bench, it);
    });

  test('goes with a canister that is removed', async () => {
    const [bench, it] = await made();
    pool.remove(it.handle);
    assert.equal(await pool.rouse(it.handle, asleep(bench, it, stored)), false);
  });
});

describe('the room for sleeping canisters', () => {
  const codes = [{}, {}] as unknown as readonly InstrumentedCode[];
  const [code, other] = codes;
  assert.ok(code !== undefined && other !== undefined);
  const heap = new Uint8Array(16 * PAGE).fill(1);
  const tally = new HeapTally(heap.length);
  tally.use(0, 16);
  const marks = tally.marks ?? assert.fail();
  /** Size with the numbers of the pages, and a place for each. */
  const SIZE = heap.length + 16 * 8;
  const pagesOf = (bytes: number): number => Math.ceil(bytes / PAGE) * PAGE;

  /** Makes a canister of so many bytes that is packed with the template of its code. */
  function packed(templates: HeapTemplates, of: InstrumentedCode, bytes: number): PackedCanister {
    const template = templates.of(of) ?? templates.make(of, heap, marks);
    return {
      code: of,
      memory: { isPacked: true, heap: { template, changes: [] }, stable: [] },
      bytes,
    } as unknown as PackedCanister;
  }

  function room(
    bytesMax: number,
    budgetBytes = 64 * MIB,
  ): { readonly budget: MemoryBudget; readonly templates: HeapTemplates; readonly kept: PackedCanisters } {
    const budget = new MemoryBudget(MemoryBudget.table(budgetBytes, 1), 0);
    const templates = new HeapTemplates();
    return { budget, templates, kept: new PackedCanisters(bytesMax, templates, budget) };
  }

  test('is bounded: those that fell asleep first go first, and a template counts once', () => {
    const { budget, templates, kept } = room(SIZE + 10 * PAGE);
    for (let handle = 0; handle < 12; handle++) assert.equal(kept.add(handle, packed(templates, code, PAGE)), true);
    assert.equal(kept.count, 10);
    assert.equal(kept.take(1), undefined);
    const taken = kept.take(2) ?? assert.fail();
    assert.equal(taken.bytes, PAGE);
    assert.equal(kept.take(2), undefined, 'what is taken is gone');
    assert.equal(kept.countedBytes, pagesOf(SIZE + 9 * PAGE));
    assert.equal(budget.bytesUsed, kept.countedBytes);
    kept.clear();
    const { template } = taken.memory.heap ?? assert.fail();
    assert.equal(template.bytes.length, heap.length, 'what was taken can still be read');
    kept.letGo(taken);
    assert.equal(template.bytes.length, 0, 'and its memory is given back, without a collection');
    assert.deepEqual([kept.count, kept.countedBytes, budget.bytesUsed, templates.bytes], [0, 0, 0, 0]);
    assert.equal(templates.of(code), undefined, 'a template goes with the last that needs it');
  });

  test('is given back at once, with all of its pages', () => {
    const { templates, kept } = room(MIB);
    const piece = (): Uint8Array => new Uint8Array(2 * PAGE).fill(1);
    const [changed, stable] = [piece(), piece()];
    const one = packed(templates, code, 4 * PAGE);
    const template = one.memory.heap?.template ?? assert.fail();
    const memory = {
      ...one.memory,
      heap: { template, changes: [{ entries: 1, bytes: changed }] },
      stable: [{ entries: 1, bytes: stable }],
    };
    kept.add(1, { ...one, memory });
    kept.drop(1);
    assert.deepEqual([changed.length, stable.length], [0, 0]);
  });

  test('has no place for what is larger than all of it', () => {
    const { budget, templates, kept } = room(SIZE + 2 * PAGE);
    assert.equal(kept.add(1, packed(templates, code, PAGE)), true);
    assert.equal(kept.add(2, packed(templates, code, 3 * PAGE)), false);
    assert.deepEqual([kept.count, budget.bytesUsed], [0, 0]);
  });

  test('is never more than the budget of all actors has', () => {
    const { budget, templates, kept } = room(64 * MIB, 20 * PAGE);
    for (let handle = 0; handle < 8; handle++) kept.add(handle, packed(templates, code, PAGE));
    // The template, with the places of its pages, takes a part of one more page.
    assert.equal(kept.count, 3);
    assert.equal(budget.bytesUsed, 20 * PAGE);
    assert.equal(budget.take(1), false);
    kept.drop(7);
    assert.equal(budget.take(1), true);
  });

  test('counts what a template takes to find its pages, too', () => {
    const { budget, templates, kept } = room(MIB);
    const sparse = new HeapTally(16 * MIB);
    sparse.use(4095, 4096);
    const large = new Uint8Array(16 * MIB).fill(1);
    const template = templates.make(code, large, sparse.marks ?? assert.fail());
    const one = { code, memory: { isPacked: true, heap: { template, changes: [] }, stable: [] }, bytes: 0 };
    kept.add(1, one as unknown as PackedCanister);
    assert.ok(budget.bytesUsed >= PAGE + 4 * 4096, `${budget.bytesUsed}`);
  });

  test('keeps the smaller template of heaps of unlike size', () => {
    const { templates, kept } = room(MIB);
    const [small, larger] = [new Uint8Array(16 * PAGE).fill(1), new Uint8Array(16 * PAGE).fill(2)];
    const few = new HeapTally(small.length);
    few.use(0, 4);
    const fewMarks = few.marks ?? assert.fail();
    const first = templates.make(code, small, fewMarks);
    const packedWith = (handle: number, template: typeof first): boolean =>
      kept.add(handle, {
        code,
        memory: { isPacked: true, heap: { template, changes: [] }, stable: [] },
        bytes: 0,
      } as unknown as PackedCanister);
    packedWith(1, first);
    const second = templates.make(code, larger, marks);
    assert.equal(templates.of(code), second, 'one that only one is packed with gives way');
    packedWith(2, second);
    packedWith(3, second);
    assert.notEqual(templates.make(code, larger, marks), second);
    const third = templates.make(code, small, fewMarks);
    assert.equal(templates.of(code), third, 'and so does a larger one');
    packedWith(4, third);
    packedWith(5, third);
    templates.make(code, larger, marks);
    assert.equal(templates.of(code), third);
    const larger16 = 16 * PAGE;
    assert.equal(templates.makeIfBetter(code, larger, marks, larger16), undefined, 'nor is another one made for it');
    assert.ok(templates.makeIfBetter(code, larger, marks, larger16 + 1), 'unless the differences are larger');
    assert.equal(templates.of(code), third);
    const fourth = templates.makeIfBetter(code, small, fewMarks, 1) ?? assert.fail('it is no larger');
    assert.equal(templates.of(code), fourth);
  });

  test('has the newest of a canister, and nothing of a module that is forgotten', () => {
    const { templates, kept } = room(MIB);
    kept.add(1, packed(templates, code, PAGE));
    kept.add(1, packed(templates, code, 2 * PAGE));
    assert.equal(templates.of(code)?.bytes.length, heap.length, 'the newer one is packed with the same template');
    kept.add(2, packed(templates, other, PAGE));
    kept.forget(code);
    assert.deepEqual([kept.take(1), kept.take(2)?.bytes], [undefined, PAGE]);
  });
});
