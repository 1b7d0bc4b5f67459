import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { ServerError } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../../subsystems/ic/index.ts';
import { STABLE_PAGES_MAX, StableMemory, StablePagePool } from '../../../subsystems/execution/memory/stable-memory.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { inOneGo } from '../../../subsystems/execution/memory/pieces.ts';
import { seeded } from '../../support/seeded.ts';
import { applied, assertSameBytes, collectEntries, runsOf } from '../../support/page-entries.ts';

const MEBIBYTE = 1 << 20;

function contents(stable: StableMemory): Uint8Array {
  const all = new Uint8Array(stable.bytes).fill(0xee);
  stable.read(0, all, 0, all.length);
  return all;
}

type Step =
  | { readonly do: 'grow'; readonly pages: number }
  | { readonly do: 'write'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly do: 'fill'; readonly offset: number; readonly length: number; readonly byte: number }
  | { readonly do: 'read'; readonly offset: number; readonly length: number }
  | { readonly do: 'commit' | 'rollback' };

const offset = fc.oneof(
  fc.nat(3 * WASM_PAGE_BYTES),
  // Around the borders of granules, pages and tables.
  fc
    .record({
      at: fc.constantFrom(0, 4096, 8192, WASM_PAGE_BYTES, 2 * WASM_PAGE_BYTES),
      by: fc.integer({ min: -3, max: 3 }),
    })
    .map(({ at, by }) => Math.max(0, at + by)),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ do: fc.constant('grow' as const), pages: fc.nat(2) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      offset,
      bytes: fc.uint8Array({ minLength: 1, maxLength: 100 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('fill' as const), offset, length: fc.nat(20_000), byte: fc.nat(255) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('read' as const), offset, length: fc.nat(20_000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('commit' as const, 'rollback' as const) }) },
);

test('stable memory behaves as a plain array whose messages are committed or undone', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const pool = new StablePagePool(16 * MEBIBYTE);
      const stable = new StableMemory(pool);
      stable.grow(2);
      stable.commit();
      let committed = new Uint8Array(2 * WASM_PAGE_BYTES);
      let model = committed.slice();
      const write = (at: number, bytes: Uint8Array): void => {
        const part = bytes.subarray(0, Math.max(0, model.length - at));
        if (part.length === 0) return;
        const before = stable.dirtyGranules.length;
        const clean = stable.cleanGranules(at, part.length);
        // The bytes come from a larger buffer, so that a wrong source offset shows.
        const source = new Uint8Array(part.length + 7).fill(0xaa);
        source.set(part, 5);
        stable.write(at, source, 5, part.length);
        assert.equal(stable.dirtyGranules.length - before, clean);
        model.set(part, at);
      };
      for (const s of steps) {
        if (s.do === 'grow') {
          assert.equal(stable.grow(s.pages), model.length / WASM_PAGE_BYTES);
          const grown = new Uint8Array(model.length + s.pages * WASM_PAGE_BYTES);
          grown.set(model);
          model = grown;
        } else if (s.do === 'write') write(s.offset, s.bytes);
        else if (s.do === 'fill') write(s.offset, new Uint8Array(s.length).fill(s.byte));
        else if (s.do === 'read') {
          const length = Math.max(0, Math.min(s.length, model.length - s.offset));
          const got = new Uint8Array(length + 2).fill(0x55);
          if (length > 0) stable.read(s.offset, got, 1, length);
          assert.equal(Buffer.compare(got.subarray(1, 1 + length), model.subarray(s.offset, s.offset + length)), 0);
          assert.deepEqual([got[0], got[length + 1]], [0x55, 0x55]);
        } else if (s.do === 'commit') {
          const dirty = new Set(stable.dirtyGranules);
          for (let granule = 0; granule * PAGE_BYTES < model.length; granule++) {
            const from = granule * PAGE_BYTES;
            const to = from + PAGE_BYTES;
            const isChanged = Buffer.compare(model.subarray(from, to), padded(committed, from, to)) !== 0;
            if (isChanged) assert.ok(dirty.has(granule), `granule ${granule} changed and is not reported dirty`);
          }
          stable.commit();
          committed = model.slice();
        } else {
          stable.rollback();
          model = committed.slice();
        }
        assert.equal(stable.bytes, model.length);
      }
      assert.equal(Buffer.compare(contents(stable), model), 0);
      stable.rollback();
      assert.equal(Buffer.compare(contents(stable), committed), 0);
      assert.equal(pool.used * PAGE_BYTES, stable.storedBytes, 'no slot is lost');
      stable.clear();
      assert.equal(pool.used, 0);
    }),
    { numRuns: cases(400) },
  );
});

function padded(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const part = new Uint8Array(to - from);
  part.set(bytes.subarray(from, to));
  return part;
}

test('growing to 500 GiB allocates nothing, and not a page more is granted', () => {
  const pool = new StablePagePool(MEBIBYTE);
  const stable = new StableMemory(pool);
  assert.equal(stable.grow(STABLE_PAGES_MAX), 0);
  assert.equal(stable.grow(1), -1);
  assert.equal(stable.grow(2 ** 64), -1);
  assert.equal(stable.pages, STABLE_PAGES_MAX);
  assert.equal(pool.used, 0);
  const last = STABLE_PAGES_MAX * WASM_PAGE_BYTES;
  stable.write(last - 3, new Uint8Array([1, 2, 3]), 0, 3);
  const end = new Uint8Array(5);
  stable.read(last - 5, end, 0, 5);
  assert.deepEqual([...end], [0, 0, 1, 2, 3]);
  assert.equal(pool.used, 1);
});

test('a limit of its own bounds a growth of the 32-bit interface', () => {
  const stable = new StableMemory(new StablePagePool(MEBIBYTE));
  assert.equal(stable.grow(65_537, 65_536), -1);
  assert.equal(stable.grow(65_536, 65_536), 0);
  assert.equal(stable.grow(1, 65_536), -1);
  assert.equal(stable.grow(1), 65_536);
});

test('bounds are checked without wrapping around', () => {
  const stable = new StableMemory(new StablePagePool(MEBIBYTE));
  stable.grow(1);
  assert.ok(stable.contains(0, WASM_PAGE_BYTES));
  assert.ok(stable.contains(WASM_PAGE_BYTES, 0));
  assert.ok(!stable.contains(1, WASM_PAGE_BYTES));
  assert.ok(!stable.contains(2 ** 64 - 1, 2));
  assert.ok(!stable.contains(2, 2 ** 64 - 1));
});

test('a message that touches memory everywhere and is rolled back leaves nothing allocated', () => {
  const pool = new StablePagePool(MEBIBYTE);
  const stable = new StableMemory(pool);
  stable.grow(STABLE_PAGES_MAX);
  stable.commit();
  for (let round = 0; round < 50; round++) {
    for (let i = 0; i < 200; i++) stable.write((round * 200 + i) * 16 * MEBIBYTE, new Uint8Array([1]), 0, 1);
    stable.rollback();
    assert.deepEqual([pool.used, stable.tableBytes], [0, 0]);
  }
});

test('a pool that is used up refuses by name, and the message can be undone', () => {
  const pool = new StablePagePool(4 * PAGE_BYTES);
  const stable = new StableMemory(pool);
  stable.grow(1);
  stable.write(0, new Uint8Array([7]), 0, 1);
  stable.commit();
  assert.throws(
    () => stable.write(0, new Uint8Array(8 * PAGE_BYTES).fill(9), 0, 8 * PAGE_BYTES),
    (error) => error instanceof ServerError && error.code === 'stable-memory-exhausted' && error.kind === 'unavailable',
  );
  stable.rollback();
  assert.equal(pool.used, 1);
  assert.deepEqual([...contents(stable).subarray(0, 3)], [7, 0, 0]);
});

test('a slot that another canister gave back starts as zeros', () => {
  const pool = new StablePagePool(PAGE_BYTES);
  const first = new StableMemory(pool);
  first.grow(1);
  first.write(0, new Uint8Array(PAGE_BYTES).fill(0xff), 0, PAGE_BYTES);
  first.commit();
  first.clear();
  const second = new StableMemory(pool);
  second.grow(1);
  second.write(10, new Uint8Array([1]), 0, 1);
  const page = contents(second).subarray(0, PAGE_BYTES);
  assert.deepEqual([...page.subarray(0, 12)], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
  assert.ok(page.subarray(12).every((byte) => byte === 0));
});

test('the deltas of a message are what it changed, and the image is everything', () => {
  let changes = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
      const stable = new StableMemory(new StablePagePool(16 * MEBIBYTE));
      let before: Uint8Array = new Uint8Array(0);
      const check = (): void => {
        const after = contents(stable);
        const deltas = collectEntries();
        stable.deltas(deltas.sink);
        assertSameBytes(applied(before, deltas, after.length), after, 'deltas');
        for (const { page, offset: at, bytes } of runsOf(deltas)) {
          const from = page * PAGE_BYTES + at;
          // Runs begin and end with a word that differs.
          for (const word of [0, bytes.length - 8]) {
            const old = new Uint8Array(8);
            old.set(before.subarray(from + word, from + word + 8));
            assert.notEqual(Buffer.compare(old, bytes.subarray(word, word + 8)), 0);
          }
          changes++;
        }
        const image = collectEntries();
        inOneGo(stable.image(image.sink));
        assertSameBytes(applied(new Uint8Array(0), image, after.length), after, 'image');
        assert.ok(runsOf(image).every(({ bytes }) => bytes.length === 4096 && bytes.some((byte) => byte !== 0)));
      };
      for (const action of steps) {
        if (action.do === 'grow') stable.grow(action.pages, 4);
        else if (action.do === 'write' && stable.contains(action.offset, action.bytes.length))
          stable.write(action.offset, action.bytes, 0, action.bytes.length);
        else if (action.do === 'fill' && stable.contains(action.offset, action.length))
          stable.write(action.offset, new Uint8Array(action.length).fill(action.byte), 0, action.length);
        else if (action.do === 'commit' || action.do === 'rollback') {
          check();
          stable[action.do]();
          if (action.do === 'commit') before = contents(stable);
          assertSameBytes(contents(stable), before, action.do);
          const none = collectEntries();
          stable.deltas(none.sink);
          assert.deepEqual(none.chunks, []);
        }
      }
      check();
    }),
    { numRuns: cases(60) },
  );
  assert.ok(changes > 100, String(changes));
});

test('deltas of many granules come in chunks, and granules at the end of the address space keep their numbers', () => {
  const stable = new StableMemory(new StablePagePool(16 * MEBIBYTE));
  stable.grow(STABLE_PAGES_MAX);
  const bytes = new Uint8Array(40 * PAGE_BYTES).fill(7);
  const far = STABLE_PAGES_MAX * WASM_PAGE_BYTES - bytes.length;
  stable.write(far, bytes, 0, bytes.length);
  for (const collect of ['deltasInPieces', 'image'] as const) {
    const entries = collectEntries();
    inOneGo(stable[collect](entries.sink));
    assert.equal(entries.chunks.length, 3, collect);
    const runs = runsOf(entries);
    assert.deepEqual(
      runs.map(({ page }) => page),
      Array.from({ length: 40 }, (_, k) => far / PAGE_BYTES + k),
    );
    assert.ok(runs.every((run) => Buffer.compare(run.bytes, bytes.subarray(0, PAGE_BYTES)) === 0));
  }
  // The same bytes once more are no change.
  stable.commit();
  stable.write(far, bytes, 0, bytes.length);
  const entries = collectEntries();
  stable.deltas(entries.sink);
  assert.deepEqual(entries.chunks, []);
  stable.rollback();
});

test('a large memory that is gone is given back in pieces, and its slots are free at once', () => {
  const pool = new StablePagePool(256 * MEBIBYTE);
  const fill = (mebibytes: number): StableMemory => {
    const stable = new StableMemory(pool);
    stable.grow((mebibytes * MEBIBYTE) / WASM_PAGE_BYTES);
    const bytes = Buffer.alloc(MEBIBYTE, mebibytes);
    for (let n = 0; n < mebibytes; n++) stable.write(n * MEBIBYTE, bytes, 0, MEBIBYTE);
    stable.commit();
    return stable;
  };
  const mebibytesHeld = (): number => (pool.slabPages * PAGE_BYTES) / MEBIBYTE;
  const other = fill(1);
  fill(200).clear();
  assert.equal(pool.used, MEBIBYTE / PAGE_BYTES);
  assert.equal(mebibytesHeld(), 201, 'nothing has been given back yet');
  let pieces = 0;
  for (let before = mebibytesHeld(); pool.hasDiscarded; pieces++, before = mebibytesHeld()) {
    pool.release();
    assert.ok(before - mebibytesHeld() <= 16, 'of some MiB at a time');
  }
  assert.ok(pieces >= 12, `${pieces} pieces`);
  assert.ok(mebibytesHeld() <= 3, `${mebibytesHeld()} MiB are held for 1 that is used`);

  // A canister that comes in between gets all of the pool.
  fill(200).clear();
  pool.release();
  const next = fill(250);
  assert.ok(contents(next).every((byte) => byte === 250));
  assert.ok(contents(other).every((byte) => byte === 1));
  next.clear();
  assert.throws(() => fill(256), /holds at most 256 MiB/);
});

test('what a write has claimed is there for it, whatever other memories of the pool do meanwhile', () => {
  const BOUND = 12 * MEBIBYTE;
  const GRANULES = 1000;
  let refusals = 0;
  let stolenFrom = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const random = seeded(seed);
    const budget = new MemoryBudget(MemoryBudget.table(BOUND, 1), 0);
    const pool = new StablePagePool(4 * BOUND, budget);
    const memories = Array.from({ length: 5 }, () => {
      const stable = new StableMemory(pool);
      stable.grow(100);
      // The table is there, which a claim does not count.
      stable.write(GRANULES * PAGE_BYTES, new Uint8Array(1), 0, 1);
      stable.commit();
      return { stable, claimed: 0, at: 0 };
    });
    const bytes = new Uint8Array(PAGE_BYTES).fill(seed);
    let elsewhere = 0;
    for (let turn = 0; turn < 300; turn++) {
      const memory = memories[random.below(memories.length)] ?? assert.fail();
      const { stable } = memory;
      assert.ok(budget.bytesUsed <= BOUND, `seed ${seed}: ${budget.bytesUsed} bytes`);
      switch (random.below(10)) {
        case 0:
        case 1: {
          // A message writes granules that it has not written before.
          const granules = Math.min(1 + random.below(600), GRANULES - memory.at - memory.claimed);
          if (granules > 0 && stable.claim(granules, (pages) => budget.take(pages))) memory.claimed += granules;
          else refusals++;
          break;
        }
        case 2:
        case 3:
        case 4:
          for (let n = Math.min(memory.claimed, 1 + random.below(300)); n > 0; n--, memory.claimed--)
            stable.write(memory.at++ * PAGE_BYTES, bytes, 0, PAGE_BYTES);
          break;
        case 5:
          // One that has claimed nothing takes what is nobody's, or fails.
          if (memory.claimed > 0 || memory.at >= GRANULES) break;
          try {
            stable.write(memory.at * PAGE_BYTES, bytes, 0, PAGE_BYTES);
            memory.at++;
            if (memories.some(({ claimed }) => claimed > 0)) stolenFrom++;
          } catch (error) {
            assert.ok(error instanceof ServerError);
            refusals++;
          }
          break;
        case 6:
          // Granules that were written before are written again, and take a slot each as well.
          if (random.below(2) === 0) stable.rollback();
          else stable.commit();
          memory.claimed = memory.at = 0;
          break;
        case 7:
          // Another part of the thread takes all that is left.
          elsewhere += budget.pagesLeft;
          budget.demand(budget.pagesLeft, 'another part');
          break;
        case 8:
          budget.free(elsewhere);
          elsewhere = 0;
          break;
        default:
          if (random.below(2) === 0) pool.trim(random.pick([0, 100, 5000]));
          else pool.release();
      }
    }
    for (const { stable } of memories) stable.clear();
    pool.trim(0);
    budget.free(elsewhere);
    assert.equal(budget.bytesUsed, 0, `seed ${seed}`);
  }
  assert.ok(refusals > 100 && stolenFrom > 100, `${refusals}, ${stolenFrom}`);
});

test('what was reserved is kept for its memory, whoever writes between its pieces, until its message ends', () => {
  const pages = 512;
  const budget = new MemoryBudget(MemoryBudget.table((pages + 2) * PAGE_BYTES, 1), 0);
  const pool = new StablePagePool(64 * MEBIBYTE, budget);
  const [loaded, other] = [new StableMemory(pool), new StableMemory(pool)];
  for (const memory of [loaded, other]) memory.grow(pages / 16);
  const page = new Uint8Array(PAGE_BYTES).fill(7);
  loaded.reserve(400);
  for (let n = 0; n < 400; n++) {
    loaded.write(n * PAGE_BYTES, page, 0, PAGE_BYTES);
    if (n < 112) other.write(n * PAGE_BYTES, page, 0, PAGE_BYTES);
    else assert.throws(() => other.write(n * PAGE_BYTES, page, 0, PAGE_BYTES), { code: 'stable-memory-exhausted' });
  }
  loaded.rollback();
  other.write(200 * PAGE_BYTES, page, 0, PAGE_BYTES);
});

test('giving slabs back leaves what is claimed, in slabs that are made and in those that are not', () => {
  for (const [isMade, slotsKept] of [
    [true, 0],
    [false, 0],
    [false, 100],
  ] as const) {
    const pages = 512;
    const budget = new MemoryBudget(MemoryBudget.table(pages * PAGE_BYTES, 1), 0);
    const pool = new StablePagePool(64 * MEBIBYTE, budget);
    pool.reserve(pages);
    pool.unclaim(pages);
    const slots = isMade ? Array.from({ length: pages }, () => pool.take(false)) : [];
    for (const slot of slots) pool.give(slot);
    assert.ok(pool.claim(400, () => assert.fail('there is room')));
    pool.trim(slotsKept);
    budget.take(budget.pagesLeft);
    for (let n = 0; n < 400; n++) pool.take(false, true);
    assert.equal(budget.bytesUsed, pages * PAGE_BYTES);
    assert.equal(pool.slabPages, pages);
  }
});
