/**
 * Files of the step log that go missing, become empty, are replaced by older copies of themselves or change places:
 * either everything acknowledged is read, or the start is refused.
 *
 * Only one case goes unnoticed: a newest segment that is a copy of itself from so few commits ago that the tables do
 * not know, or had not on their disk yet when the power failed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { WriteBatch } from '../../../subsystems/storage/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { decodeHeader } from '../../../subsystems/storage/step-log-format.ts';
import type { Tables } from '../../../subsystems/storage/tables.ts';
import { Crash as DiskCrash, FaultyDisk } from '../../support/faulty-disk.ts';
import { Crash as TablesCrash, FaultyTables } from '../../support/faulty-tables.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';

/**
 * Number of commits that state-store.ts may leave untold to the tables, plus commits that are not settled at once. A
 * power failure may undo the telling.
 */
const UNTOLD_MAX = 64 + 16;

/** Sizes: many segments and folds, or little more than one segment from which nothing is folded. */
interface Sizes {
  readonly segmentBytes: number;
  readonly foldBytes: number;
}
const SIZES: readonly [Sizes, ...Sizes[]] = [
  { segmentBytes: 12 * 1024, foldBytes: 10_000 },
  { segmentBytes: 256 * 1024, foldBytes: 2 ** 24 },
];

function open(tables: Tables, disk: FaultyDisk, { segmentBytes, foldBytes }: Sizes): StateStore {
  const openLog = (known: KnownLog): StepLog => StepLog.open(disk, { ...known, segmentBytes });
  return new StateStore(tables, openLog, { isSynced: true, foldBytes });
}

const numberKey = (number: number): Uint8Array => Buffer.from(String(number).padStart(8, '0'));

/** Makes the n-th unit, which puts the number n. */
function unitOf(number: number, random: Seeded): Uint8Array {
  const unit = new WriteBatch();
  const bytes = random.oneIn(20) ? random.below(36 * 1024) : random.below(200);
  unit.put('queue', numberKey(number), Buffer.alloc(bytes, number));
  return unit.take();
}

/** Returns the number of units; none among them is missing. */
function unitsIn(store: StateStore): number {
  const found = store.reader.range('queue', new Uint8Array(0)).map(([key]) => Buffer.from(key).toString());
  assert.deepEqual(
    found,
    Array.from({ length: found.length }, (_, index) => Buffer.from(numberKey(index + 1)).toString()),
  );
  return found.length;
}

interface Left {
  readonly sizes: Sizes;
  readonly tables: MemoryTables;
  readonly disk: FaultyDisk;
  /** Units that were acknowledged, and units that may be there. */
  readonly acknowledged: number;
  readonly sent: number;
  /** Number of commits that an older copy may lack without being noticed. */
  readonly untoldMax: number;
  /** Earlier states of the disk. */
  readonly earlier: readonly FaultyDisk[];
}

/**
 * Makes some lives of a store that end anywhere, also in their beginning: the process is killed, or the power fails.
 */
function history(random: Seeded): Left {
  const sizes = random.pick(SIZES);
  const endsAnywhere = random.oneIn(2);
  let disk = new FaultyDisk();
  let tables = new MemoryTables();
  let acknowledged = 0;
  let sent = 0;
  let untoldMax = UNTOLD_MAX;
  const earlier: FaultyDisk[] = [];
  for (let lives = 1 + random.below(6); lives > 0; lives--) {
    if (endsAnywhere) disk.arm({ crashAt: 1 + random.below(random.pick([10, 400])) });
    let tablesCrashIn = endsAnywhere && random.oneIn(2) ? 1 + random.below(random.pick([4, 30])) : Infinity;
    const faulty = new FaultyTables(tables, random, () => (--tablesCrashIn === 0 ? 'crash' : undefined));
    try {
      const store = open(faulty, disk, sizes);
      // A start tells the tables everything.
      untoldMax = UNTOLD_MAX;
      const found = unitsIn(store);
      assert.ok(found >= acknowledged && found <= sent, `${found} units are there, ${acknowledged} were acknowledged`);
      acknowledged = sent = found;
      for (let commits = random.below(random.pick([4, 300])); commits > 0; commits--) {
        store.commit([unitOf(++sent, random)]);
        acknowledged = sent;
        if (!random.oneIn(4)) store.settle();
        if (random.oneIn(100)) store.fold();
        if (random.oneIn(10)) earlier.push(disk.killed());
      }
    } catch (error) {
      if (!(error instanceof DiskCrash || error instanceof TablesCrash)) throw error;
    }
    const hasPower = random.oneIn(2);
    if (!hasPower) untoldMax = Infinity;
    faulty.crash();
    tables = hasPower ? MemoryTables.copyOf(tables) : faulty.survivors();
    disk = hasPower ? disk.killed() : disk.survivor(random);
  }
  return { sizes, tables, disk, acknowledged, sent, untoldMax, earlier };
}

/** Damage of the files; returns its name. */
type Harm = (disk: FaultyDisk, random: Seeded, left: Left) => void;

const generationOf = (disk: FaultyDisk, name: string): number => decodeHeader(disk.bytesOf(name), name).generation;

/** Returns the segments in use, the oldest first. */
function used(disk: FaultyDisk): string[] {
  return disk
    .list()
    .filter((name) => name.endsWith('.log') && generationOf(disk, name) > 0)
    .sort((a, b) => generationOf(disk, a) - generationOf(disk, b));
}

function replace(disk: FaultyDisk, name: string, bytes: Uint8Array): void {
  const copy = Uint8Array.from(bytes);
  disk.open(name, { create: true }).write(0, copy);
}

const HARMS: Readonly<Record<string, Harm>> = {
  newest: (disk) =>
    used(disk)
      .slice(-1)
      .forEach((name) => disk.remove(name)),
  'several of the newest': (disk, random) =>
    used(disk)
      .slice(-1 - random.below(3))
      .forEach((name) => disk.remove(name)),
  oldest: (disk) =>
    used(disk)
      .slice(0, 1)
      .forEach((name) => disk.remove(name)),
  'one of them': (disk, random) => {
    const [first, ...rest] = used(disk);
    if (first !== undefined) disk.remove(random.pick([first, ...rest]));
  },
  'all in use': (disk) => used(disk).forEach((name) => disk.remove(name)),
  all: (disk) => disk.list().forEach((name) => disk.remove(name)),
  'a free one': (disk) => {
    const inUse = new Set(used(disk));
    disk
      .list()
      .filter((name) => !inUse.has(name))
      .slice(0, 1)
      .forEach((name) => disk.remove(name));
  },
  'emptied files': (disk, random) => {
    for (const name of used(disk)) if (random.oneIn(2)) disk.truncate(name, 0);
  },
  'two that changed places': (disk, random) => {
    const names = disk.list().filter((name) => name.endsWith('.log'));
    const [one, two] = [random.below(3), random.below(3)].map((at) => names[at]);
    if (one === undefined || two === undefined) return;
    const kept = Uint8Array.from(disk.bytesOf(one));
    replace(disk, one, disk.bytesOf(two));
    replace(disk, two, kept);
  },
  'an older copy of one': (disk, random, { earlier }) => {
    const [first, ...rest] = used(disk);
    const then = earlier[random.below(Math.max(1, earlier.length))];
    if (first === undefined || then === undefined) return;
    const name = random.pick([first, ...rest]);
    if (then.list().includes(name)) replace(disk, name, then.bytesOf(name));
  },
  'older copies of all': (disk, random, { earlier }) => {
    const then = earlier[random.below(Math.max(1, earlier.length))];
    if (then === undefined) return;
    for (const name of disk.list()) disk.remove(name);
    for (const name of then.list()) replace(disk, name, then.bytesOf(name));
  },
};

test('segments that are missing, empty, old or in other places cost nothing that was acknowledged, or refuse the start', () => {
  const seeds = new ProofSeeds(150);
  const counts: Record<string, number> = {};
  const count = (what: string): void => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  for (const seed of seeds) {
    const random = seeded(seed);
    const left = history(random);
    // The undamaged state is never refused.
    const undisturbed = unitsIn(open(MemoryTables.copyOf(left.tables), left.disk.killed(), left.sizes));
    assert.ok(undisturbed >= left.acknowledged && undisturbed <= left.sent, `seed ${seed}: ${undisturbed} units`);
    for (const [name, harm] of Object.entries(HARMS)) {
      const disk = left.disk.killed();
      harm(disk, random, left);
      let units: number;
      try {
        units = unitsIn(open(MemoryTables.copyOf(left.tables), disk, left.sizes));
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        assert.equal(error.code, 'state-corrupt', `seed ${seed}, ${name}: ${error.message}`);
        count(`${name}: refused`);
        continue;
      }
      const isWhole = units >= left.acknowledged;
      const isOldCopy = name.includes('older cop');
      assert.ok(
        isWhole || (isOldCopy && left.acknowledged - units <= left.untoldMax),
        `seed ${seed}: after ${name}, ${units} of ${left.acknowledged} units are there`,
      );
      count(isWhole ? `${name}: whole` : 'last commits lost');
    }
  }
  seeds.saw(counts);
  for (const name of Object.keys(HARMS)) {
    // These never remove anything that is needed.
    const isHarmless = name === 'a free one' || name === 'two that changed places';
    assert.equal((counts[`${name}: refused`] ?? 0) > 0, !isHarmless, name);
  }
});
