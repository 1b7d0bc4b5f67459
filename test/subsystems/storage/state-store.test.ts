/** The state store compared with a model: after any applying and folding, reads give the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { LAST_UNIT_KEY } from '../../../subsystems/storage/last-unit.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import type { Change, Family } from '../../../subsystems/storage/tables.ts';
import { piecesOf, type Unit } from '../../../subsystems/storage/unit.ts';
import { applyWriteBatch, timeOfUnit, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import { Crash, FaultyDisk } from '../../support/faulty-disk.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';

/** Shares of the seeds of `npm run prove -- crashes`: each of these costs more than a seed there. */
const FEW_SEEDS = new ProofSeeds(10, 0.02);
const CRASH_SEEDS = new ProofSeeds(50, 0.1);
const SEGMENT_BYTES = 64 * 1024;
const IDS = [1, 2, 3].map((n) => Buffer.alloc(10, n));
/** The store's own keys: the newest unit that the tables have, and the required extent of the log. */
const OF_STORAGE: ReadonlySet<string> = new Set(['U', 'L'].map((letter) => hex(Buffer.from(letter))));
const TABLES = ['meta', 'queue', 'log', 'blob'] as const satisfies readonly Family[];

/** The expected content of the store, kept in the simplest way. */
class Model {
  readonly entries = new Map<string, string>();
  readonly pages = new Map<string, Buffer>();

  apply(unit: Uint8Array): void {
    applyWriteBatch(unit, {
      put: (family, key, value) => this.entries.set(`${family} ${hex(key)}`, hex(value)),
      delete: (family, key) => this.entries.delete(`${family} ${hex(key)}`),
      clear: (family, prefix) => {
        for (const all of [this.entries, this.pages])
          for (const key of all.keys()) if (key.startsWith(`${family} ${hex(prefix)}`)) all.delete(key);
      },
      patch: (family, id, page, offset, bytes) => {
        const key = `${family} ${hex(id)} ${page}`;
        const content = this.pages.get(key) ?? Buffer.alloc(PAGE_BYTES);
        content.set(bytes, offset);
        this.pages.set(key, content);
      },
    });
  }

  /** Compares everything with tables for which no changes wait. */
  checkTables(tables: MemoryTables): void {
    const found = new Map<string, string>();
    for (const family of [...TABLES, 'heap', 'stable'] as const)
      for (const [key, value] of tables.range(family, new Uint8Array(0), undefined))
        if (family !== 'meta' || !OF_STORAGE.has(hex(key))) found.set(`${family} ${hex(key)}`, hex(value));
    const expected = new Map(this.entries);
    for (const [key, content] of this.pages) {
      const [family = '', id = '', page] = key.split(' ');
      expected.set(`${family} ${id}${Number(page).toString(16).padStart(8, '0')}`, hex(content));
    }
    assert.deepEqual(found, expected);
  }

  /** Compares everything with the store. */
  check(store: StateStore): void {
    for (const family of TABLES) {
      const found = store.reader.range(family, new Uint8Array(0)).filter(([key]) => !OF_STORAGE.has(hex(key)));
      const expected = [...this.entries]
        .filter(([key]) => key.startsWith(`${family} `))
        .sort(([a], [b]) => (a < b ? -1 : 1));
      assert.deepEqual(
        found.map(([key, value]) => [`${family} ${hex(key)}`, hex(value)]),
        expected.map(([key, value]) => [key, value]),
      );
    }
    for (const id of IDS) {
      const { memory, records } = store.reader.canister(id);
      const ofLog = [...this.entries].filter(([key]) => key.startsWith(`log ${hex(id)}`));
      assert.deepEqual(
        [...records.ends].map((end, at) => hex(records.bytes.subarray(records.ends[at - 1] ?? 0, end))),
        ofLog.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, value]) => value),
      );
      assert.equal(records.bytes.length, records.ends.at(-1) ?? 0);
      for (const family of ['heap', 'stable'] as const) {
        const { numbers, chunks } = memory[family];
        const bytes = Buffer.concat(chunks);
        const expected = [...this.pages]
          .filter(([key]) => key.startsWith(`${family} ${hex(id)} `))
          .map(([key, content]) => [Number(key.split(' ')[2]), crc32(content)] as const)
          .sort(([a], [b]) => a - b);
        const found = [...numbers].map((number, at) => [
          number,
          crc32(bytes.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES)),
        ]);
        assert.deepEqual(found, expected);
      }
    }
  }
}

function randomUnit(random: Seeded): Uint8Array {
  const set = new WriteBatch();
  for (let k = random.below(6) + 1; k > 0; k--) {
    const family = random.pick(TABLES);
    const id = IDS[random.below(IDS.length)] ?? Buffer.alloc(10);
    const key = Buffer.concat([random.oneIn(2) ? id : Buffer.from('x'), Buffer.from([random.below(20)])]);
    switch (random.below(8)) {
      case 0:
        set.delete(family, key);
        break;
      case 1:
        set.clear(family, id);
        break;
      case 2:
        if (random.oneIn(6)) set.clear(random.pick(['heap', 'stable']), id);
        break;
      case 3:
      case 4:
        set.put(family, key, Buffer.alloc(random.below(300), random.below(256)));
        break;
      default:
        // Sometimes more pages than are read at a time when they go to the tables.
        patch(set, id, random, random.oneIn(8) ? 1 + random.below(160) : 1);
    }
  }
  return set.take();
}

function patch(set: WriteBatch, id: Uint8Array, random: Seeded, count: number): void {
  const entries = Array.from({ length: count }, () => pageEntry(random));
  set.patch(random.pick(['heap', 'stable']), id, count, Buffer.concat(entries));
}

/** Returns a unit, mostly in one piece. */
function inPieces(random: Seeded): Unit {
  return random.oneIn(3) ? Array.from({ length: 1 + random.below(3) }, () => randomUnit(random)) : randomUnit(random);
}

function pageEntry(random: Seeded): Uint8Array {
  const runs = Array.from({ length: random.below(3) + 1 }, () => {
    const offset = random.oneIn(5) ? 0 : random.below(PAGE_BYTES - 64);
    const few = 1 + random.below(random.oneIn(4) ? Math.min(700, PAGE_BYTES - offset) : 64);
    const length = offset === 0 && random.oneIn(2) ? PAGE_BYTES : few;
    const header = Buffer.alloc(4);
    header.writeUInt16LE(offset, 0);
    header.writeUInt16LE(length, 2);
    return Buffer.concat([header, Buffer.alloc(length, random.below(255) + 1)]);
  });
  const header = Buffer.alloc(6);
  header.writeUInt32LE(random.oneIn(9) ? 0xffff_fffe : random.below(random.oneIn(2) ? 12 : 300), 0);
  header.writeUInt16LE(runs.length, 4);
  return Buffer.concat([header, ...runs]);
}

test('what units say is read back, before and after it is folded, and by the next process', async () => {
  for (const seed of FEW_SEEDS) {
    const random = seeded(seed);
    const model = new Model();
    let tables = new MemoryTables();
    const disk = new FaultyDisk();
    let store = open(tables, disk);
    for (let round = 0; round < 60; round++) {
      const units = Array.from({ length: random.below(4) + 1 }, () => inPieces(random));
      store.commit(units);
      for (const unit of units) for (const piece of piecesOf(unit)) model.apply(piece);
      if (random.oneIn(3)) store.settle();
      if (random.oneIn(8)) store.fold();
      if (random.oneIn(4)) model.check(store);
      // The process ends without folding: the next one finds the log.
      if (random.oneIn(8)) {
        tables = MemoryTables.copyOf(tables.snapshot());
        store = open(tables, disk);
      }
    }
    model.check(store);
    await store.close();
  }
});

test('a crash at any point loses no committed unit, and keeps no part of one', () => {
  for (const seed of CRASH_SEEDS) {
    const random = seeded(seed);
    const tables = new MemoryTables();
    let disk = new FaultyDisk();
    const units: Uint8Array[] = [];
    let committed = 0;
    for (let life = 0; life < 3; life++) {
      disk.arm({ crashAt: random.below(60) + 1 });
      try {
        const store = open(tables, disk);
        assert.ok(store.last >= committed && store.last <= units.length, `seed ${seed}: unit ${store.last} is there`);
        units.length = store.last;
        check(units, store);
        committed = store.last;
        for (;;) {
          const batch = Array.from({ length: random.below(3) + 1 }, () => randomUnit(random));
          units.push(...batch);
          store.commit(batch);
          committed = units.length;
          if (random.oneIn(2)) store.settle();
          if (random.oneIn(20)) store.fold();
        }
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
      }
      disk = disk.survivor(random);
    }
    const store = open(tables, disk);
    assert.ok(store.last >= committed && store.last <= units.length);
    units.length = store.last;
    check(units, store);
  }
});

test('units of the log carry the time of their commit, which never goes back, also over a crash', () => {
  const [tables, disk] = [new MemoryTables(), new FaultyDisk()];
  let nowMs = 1_000;
  const unit = Uint8Array.from(randomUnit(seeded(3)));
  const start = (): StateStore => {
    const openLog = (known: KnownLog): StepLog => StepLog.open(disk, { ...known, segmentBytes: SEGMENT_BYTES });
    return new StateStore(tables, openLog, { isSynced: true, foldBytes: 2 ** 20, clock: { nowMs: () => nowMs } });
  };
  const store = start();
  store.commit([unit, unit]);
  nowMs = 2_500.25;
  store.commit([unit]);
  nowMs = 2_000;
  store.commit([unit]);
  start().commit([unit]);
  const times: (number | undefined)[] = [];
  StepLog.open(disk, { segmentBytes: SEGMENT_BYTES }).recover((stored) => times.push(timeOfUnit(stored)));
  assert.deepEqual(times, [1_000, 1_000, 2_500.25, 2_500.25, 2_500.25]);
});

test('a unit that says nothing has a number, too', () => {
  const store = open(new MemoryTables(), new FaultyDisk());
  assert.equal(store.commit([new Uint8Array(0)]), 1);
  assert.equal(store.commit([new Uint8Array(0), new Uint8Array(0)]), 3);
});

test('a unit that is not as it should be is refused, whatever its bytes are', () => {
  const visitor = { put: () => {}, delete: () => {}, clear: () => {}, patch: () => {} };
  const random = seeded(7);
  let refused = 0;
  for (let k = 0; k < 3000; k++) {
    const unit = Uint8Array.from(randomUnit(random));
    unit[random.below(unit.length)] = random.below(256);
    try {
      applyWriteBatch(random.oneIn(3) ? unit.subarray(0, random.below(unit.length)) : unit, visitor);
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'state-corrupt');
      refused++;
    }
  }
  assert.ok(refused > 500);
});

function check(units: readonly Uint8Array[], store: StateStore): void {
  const model = new Model();
  for (const unit of units) model.apply(unit);
  model.check(store);
}

function open(tables: MemoryTables, disk: FaultyDisk): StateStore {
  const openLog = (known: KnownLog): StepLog => StepLog.open(disk, { ...known, segmentBytes: SEGMENT_BYTES });
  return new StateStore(tables, openLog, { isSynced: true, foldBytes: 20_000 });
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

test('a snapshot is of everything committed when it was asked for, and of nothing later, whatever is read meanwhile', () => {
  for (const seed of FEW_SEEDS) {
    const random = seeded(seed);
    const tables = new MemoryTables();
    const store = open(tables, new FaultyDisk());
    const model = new Model();
    const taken: { readonly snapshot: MemoryTables; readonly asked: number }[] = [];
    const units: Uint8Array[] = [];
    for (let round = 0; round < 40; round++) {
      const unit = randomUnit(random);
      store.commit([unit]);
      units.push(unit);
      if (random.oneIn(5)) {
        // The snapshot that was waited for first is taken first.
        const asked = units.length;
        store.takeSnapshot((snapshot) => taken.push({ snapshot: MemoryTables.copyOf(snapshot), asked }));
      }
      if (random.oneIn(2)) store.settle();
      model.apply(unit);
      if (random.oneIn(3)) model.check(store);
    }
    while (store.settle());
    assert.ok(taken.length > 0);
    for (const { snapshot, asked } of taken) {
      const last = Number(Buffer.from(snapshot.get('meta', Buffer.from('U')) ?? []).readBigUInt64BE());
      assert.ok(last >= asked && last <= units.length);
      const then = new Model();
      for (const unit of units.slice(0, last)) then.apply(unit);
      then.checkTables(snapshot);
    }
    model.check(store);
  }
});

test('a damaged page that has changes ends it each time, and the log keeps what the tables do not have', () => {
  const random = seeded(3);
  const tables = new MemoryTables();
  const [id = Buffer.alloc(10)] = IDS;
  const damaged = Buffer.concat([id, Buffer.from([0, 0, 0, 5])]);
  tables.write([{ family: 'heap', key: damaged, value: new Uint8Array(100) }], { isSynced: true });
  const disk = new FaultyDisk();
  const batch = new WriteBatch();
  for (const page of [4, 5, 6]) {
    const entry = Buffer.from([page, 0, 0, 0, 1, 0, 0, 0, 1, 0, 9]);
    batch.patch('heap', id, 1, entry);
  }
  const store = open(tables, disk);
  store.commit([batch.take()]);
  const isDamage = { code: 'state-corrupt', message: /100 bytes instead of 4096/ };
  for (let time = 0; time < 3; time++) assert.throws(() => store.fold(), isDamage);
  assert.equal(tables.get('meta', Buffer.from('U')), undefined, 'the tables do not say that they have the unit');
  // Once the page is repaired, all of it is there.
  tables.write([{ family: 'heap', key: damaged, value: Buffer.alloc(PAGE_BYTES, 7) }], { isSynced: true });
  const after = open(tables, disk.survivor(random));
  after.fold();
  const { numbers, chunks } = after.reader.canister(id).memory.heap;
  assert.deepEqual([...numbers], [4, 5, 6]);
  assert.deepEqual([chunks[0]?.[0], chunks[0]?.[PAGE_BYTES], chunks[0]?.[PAGE_BYTES + 1]], [9, 9, 7]);
});

/** Tables that note all writes to them. */
class CountedTables extends MemoryTables {
  readonly writes: { readonly bytes: number; readonly isSynced: boolean; readonly endsLayer: boolean }[] = [];

  override write(changes: readonly Change[], options: { readonly isSynced: boolean }): void {
    const bytes = changes.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
    const endsLayer = changes.some(({ family, key }) => family === 'meta' && Buffer.compare(key, LAST_UNIT_KEY) === 0);
    this.writes.push({ bytes, isSynced: options.isSynced, endsLayer });
    super.write(changes, options);
  }
}

test('what is committed beside large units waits for a few slices, each of a bounded size, until they come too fast', () => {
  const tables = new CountedTables();
  const segmentBytes = 2 ** 23;
  const openLog = (known: KnownLog): StepLog => StepLog.open(new FaultyDisk(), { ...known, segmentBytes });
  const foldBytes = 2 ** 22;
  const store = new StateStore(tables, openLog, { isSynced: true, foldBytes });
  const unit = (values: number, valueBytes: number): Uint8Array => {
    const batch = new WriteBatch();
    for (let n = 0; n < values; n++) batch.put('blob', Uint8Array.of(n, n >> 8), Buffer.alloc(valueBytes, n));
    return batch.take();
  };
  const settled = (): number => {
    tables.writes.length = 0;
    store.settle();
    // The other writes note how far the log is durable.
    return tables.writes.filter(({ bytes }) => bytes > 1000).length;
  };
  /** Returns the same as `settled` after the committed changes have been applied, in slices, too. */
  const folded = (): number => {
    for (let rounds = 0; rounds < 32; rounds++) {
      const slices = settled();
      if (slices > 0) return slices;
    }
    return 0;
  };
  // Each is more than may wait for the tables: the first is frozen, the second stands behind it.
  store.commit([unit(250, 60_000)]);
  assert.equal(folded(), 1, 'one slice after a commit');
  assert.ok((tables.writes[0]?.bytes ?? 0) < 1.2 * 2 ** 20, 'of large values, fewer');
  store.commit([unit(90, 60_000)]);
  assert.equal(settled(), 7, 'a little more than was committed, when more waits than is to');
  store.commit([unit(1, 60_000)]);
  assert.equal(settled(), 4, 'a few, however little that is');
  while (store.settle());
  store.commit([unit(900, 60_000)]);
  assert.equal(folded(), 1, 'one, once all of that is frozen');
  store.commit([unit(150, 60_000)]);
  const many = settled();
  const { writes } = tables;
  assert.ok(many > 24 && many <= 30, `three times what was committed, when even more waits: ${many}`);
  // The bytes that are synced at once are bounded, too.
  let unsynced = 0;
  for (const { bytes, isSynced } of writes) {
    unsynced += bytes;
    assert.ok(unsynced < 5.5 * 2 ** 20, `${unsynced} bytes`);
    if (isSynced) unsynced = 0;
  }
  store.commit([unit(1, 60_000)]);
  assert.equal(settled(), 8, 'some, however little is committed then');
  while (store.settle());
  assert.equal(store.reader.range('blob', new Uint8Array(0)).length, 900);
});

test('what folding writes is written out beside commits, and only the last write of a layer is synced', async () => {
  const tables = new CountedTables();
  const openLog = (known: KnownLog): StepLog => StepLog.open(new FaultyDisk(), { ...known, segmentBytes: 2 ** 23 });
  const begun: PromiseWithResolvers<void>[] = [];
  const writeOut = (): Promise<void> => {
    begun.push(Promise.withResolvers());
    return begun.at(-1)?.promise ?? Promise.reject(new Error('nothing has begun'));
  };
  // Up to 2 MiB are neither synced nor written out.
  const store = new StateStore(tables, openLog, { isSynced: true, foldBytes: 24 * 2 ** 20, writeOut });
  const commit = (megabytes: number): void => {
    for (let n = 0; n < megabytes; n++) {
      const batch = new WriteBatch();
      for (let k = 0; k < 16; k++) batch.put('blob', Uint8Array.of(n, k), Buffer.alloc(65_536, n));
      store.commit([batch.take()]);
    }
  };
  const settle = (): void => {
    while (store.settle());
  };
  commit(25);
  settle();
  assert.equal(store.isWaitingForDisk, true);
  assert.equal(begun.length, 1);
  assert.ok(bytesOf(tables.writes) <= 5.5 * 2 ** 20, 'two parts: one is written out, one waits');
  while (store.isWaitingForDisk) {
    begun.at(-1)?.resolve();
    await nextTurn();
    settle();
  }
  const large = tables.writes.filter(({ bytes }) => bytes > 1000);
  assert.ok(begun.length >= 8 && begun.length <= 13, `written out ${begun.length} times`);
  assert.ok(large.every(({ isSynced }) => !isSynced));
  const ends = tables.writes.filter(({ endsLayer }) => endsLayer);
  assert.deepEqual(
    ends.map(({ isSynced }) => isSynced),
    [true],
    'the last write of the layer',
  );
  assert.equal(store.reader.range('blob', new Uint8Array(0)).length, 400);

  // Where commits come faster than the disk takes them, they wait for it.
  tables.writes.length = 0;
  const before = begun.length;
  commit(25);
  settle();
  commit(60);
  for (let n = 0; n < 100 && store.settle(); n++);
  assert.ok(
    tables.writes.some(({ isSynced, bytes }) => isSynced && bytes > 1000),
    'synced, since too much waits',
  );
  assert.equal(begun.length, before + 1, 'the first is under way all the time');

  begun.at(-1)?.reject(new Error('no space left on device'));
  await nextTurn();
  assert.throws(() => settle(), /no space left on device/);
  assert.throws(() => settle(), /no space left on device/, 'and again');
});

function bytesOf(writes: readonly { readonly bytes: number }[]): number {
  return writes.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Counts the bytes that are read from ranges. */
class ReadTables extends MemoryTables {
  bytesRead = 0;

  override *range(...asked: Parameters<MemoryTables['range']>): ReturnType<MemoryTables['range']> {
    for (const entry of super.range(...asked)) {
      this.bytesRead += entry[1].length;
      yield entry;
    }
  }
}

test('what deletes large values reads a few of them in a slice', () => {
  const tables = new ReadTables();
  const openLog = (known: KnownLog): StepLog => StepLog.open(new FaultyDisk(), { ...known, segmentBytes: 2 ** 23 });
  const store = new StateStore(tables, openLog, { isSynced: true, foldBytes: 2 ** 20 });
  for (let n = 0; n < 40; n++) {
    const batch = new WriteBatch();
    for (let k = 0; k < 4; k++) batch.put('blob', Uint8Array.of(7, n, k), Buffer.alloc(200_000, n));
    store.commit([batch.take()]);
    while (store.settle());
  }
  store.fold();
  const batch = new WriteBatch();
  batch.clear('blob', Uint8Array.of(7));
  batch.put('blob', Uint8Array.of(8), Buffer.alloc(2 ** 20 + 500_000));
  store.commit([batch.take()]);
  let slices = 0;
  for (let hasMore = true; hasMore; slices++) {
    tables.bytesRead = 0;
    hasMore = store.settle();
    assert.ok(tables.bytesRead <= 1.5 * 2 ** 20, `${tables.bytesRead} bytes are read in a slice`);
  }
  assert.ok(slices > 25, `${slices} slices`);
  assert.equal(store.reader.range('blob', Uint8Array.of(7)).length, 0);
  assert.equal(store.reader.range('blob', Uint8Array.of(8)).length, 1);
});

test('a large canister is read a slice at a time, and units of others are committed and folded between them', () => {
  const tables = new MemoryTables();
  const segmentBytes = 2 ** 24;
  const openLog = (known: KnownLog): StepLog => StepLog.open(new FaultyDisk(), { ...known, segmentBytes });
  const store = new StateStore(tables, openLog, { isSynced: true, foldBytes: 2 ** 20 });
  const [large = Buffer.alloc(10), other = Buffer.alloc(10)] = IDS;
  const pageOf = (n: number): Buffer => Buffer.alloc(PAGE_BYTES, 1 + (n % 250));
  const patchOf = (n: number): Buffer => {
    const head = Buffer.alloc(10);
    head.writeUInt32LE(n, 0);
    // One run, from the first byte to the last.
    head.writeUInt16LE(1, 4);
    head.writeUInt16LE(PAGE_BYTES, 8);
    return Buffer.concat([head, pageOf(n)]);
  };
  const unitOf = (id: Buffer, family: 'heap' | 'stable', numbers: readonly number[]): Uint8Array => {
    const batch = new WriteBatch();
    for (let at = 0; at < numbers.length; at += 100) {
      const some = numbers.slice(at, at + 100);
      batch.patch(family, id, some.length, Buffer.concat(some.map(patchOf)));
    }
    return batch.take();
  };
  const pages = Array.from({ length: 1200 }, (_, n) => 2 * n);
  store.commit([unitOf(large, 'heap', pages.slice(0, 1150))]);
  store.fold();
  // Some pages are above the tables, and are folded during the reading.
  store.commit([unitOf(large, 'heap', pages.slice(1100)), unitOf(large, 'stable', [1, 2, 3])]);
  const slices = store.reader.readingCanister(large);
  let read = slices.next();
  let count = 1;
  for (; read.done !== true; read = slices.next(), count++) {
    store.commit([unitOf(other, 'heap', pages.slice(count * 10, count * 10 + 300))]);
    while (store.settle());
  }
  assert.ok(count >= 2, `${count} slices`);
  const { heap, stable } = read.value.memory;
  assert.deepEqual([[...heap.numbers], [...stable.numbers]], [pages, [1, 2, 3]]);
  const bytes = Buffer.concat(heap.chunks);
  for (const [at, n] of pages.entries())
    assert.ok(bytes.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES).equals(pageOf(n)), `page ${n}`);
});
