/**
 * A bit flipped anywhere in a state directory: a read returns the written content, or fails, and the damage is
 * reported.
 *
 * Only one damage cannot be distinguished from a torn write: that of the last flush before a kill, which may be gone
 * then.
 */
import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { FileDisk } from '../../../subsystems/storage/file-disk.ts';
import { memoryId, WriteBatch } from '../../../subsystems/storage/index.ts';
import { openTables, type TablesKind } from '../../../subsystems/storage/open-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const SEGMENT_BYTES = 48 * 1024;
/** Size of the window; parts lie on both sides of its ends. */
const WINDOW_BYTES = 4096;
const FOLD_BYTES = 40 * 1024;
const ENTRIES = ['meta', 'log', 'queue', 'module'] as const;
const CANISTERS = [1, 2, 3].map((n) => Uint8Array.of(0x80, 0, 0, 0, 0, 0x10, 0, n, 1, 1)) as [
  Uint8Array,
  ...Uint8Array[],
];

async function open(directory: string, kind?: TablesKind): Promise<StateStore> {
  const log = join(directory, 'log');
  await mkdir(log, { recursive: true });
  const { tables } = await openTables(join(directory, 'tables'), kind);
  try {
    const openLog = (known: KnownLog): StepLog =>
      StepLog.open(new FileDisk(log), { ...known, segmentBytes: SEGMENT_BYTES, windowBytes: WINDOW_BYTES });
    return new StateStore(tables, openLog, { foldBytes: FOLD_BYTES, isSynced: true });
  } catch (error) {
    await tables.close();
    throw error;
  }
}

/**
 * Returns keys and values of all families without the store's own: the unit that the tables have, and the required
 * extent of the log.
 */
function contentOf(store: StateStore): string {
  const families = ENTRIES.map((family) =>
    store.reader
      .range(family, new Uint8Array(0))
      .filter(([key]) => !(family === 'meta' && /^[UL]$/.test(Buffer.from(key).toString('latin1'))))
      .map(([key, value]) => `${Buffer.from(key).toString('hex')} ${Buffer.from(value).toString('hex')}`)
      .join('\n'),
  );
  const memories = CANISTERS.map((id) => {
    const { heap, stable } = store.reader.canister(id).memory;
    return [heap, stable].map(({ numbers, chunks }) => `${numbers.join(' ')} ${Buffer.concat(chunks).toString('hex')}`);
  });
  return [...families, ...memories.flat()].join('\n\n');
}

/** Makes one run of one page. */
function patchOf(random: Seeded, bytes: Uint8Array): Uint8Array {
  const head = Buffer.alloc(10);
  head.writeUInt32LE(random.below(20));
  head.writeUInt16LE(1, 4);
  head.writeUInt16LE(random.below(4096 - bytes.length), 6);
  head.writeUInt16LE(bytes.length, 8);
  return Buffer.concat([head, bytes]);
}

function commitSome(store: StateStore, random: Seeded, count: number): void {
  for (let n = 0; n < count; n++) {
    const unit = new WriteBatch();
    for (let part = 0; part <= random.below(3); part++) {
      const value = Buffer.alloc(1 + random.below(random.oneIn(4) ? 4000 : 200), random.below(256));
      if (random.oneIn(2)) unit.put(random.pick(ENTRIES), Buffer.from(`k${random.below(60)}`), value);
      else unit.patch(random.pick(['heap', 'stable']), memoryId(random.pick(CANISTERS), 0), 1, patchOf(random, value));
    }
    store.commit([unit.take()]);
    while (random.oneIn(2) && store.settle());
  }
}

interface Original {
  readonly directory: string;
  readonly content: string;
  /** Content before the last flush. */
  readonly contentBefore: string;
}

/** Makes a state with content in the files of its tables, in their log, and in the step log. */
async function original(seed: number, isClosed: boolean, kind: TablesKind): Promise<Original> {
  const random = seeded(seed);
  const directory = await temporaryDirectory();
  for (let round = 0; round < 3; round++) {
    const store = await open(directory, kind);
    commitSome(store, random, 30);
    if (round === 1) store.fold();
    await store.close();
  }
  const store = await open(directory);
  commitSome(store, random, 25);
  if (isClosed) store.fold();
  const contentBefore = contentOf(store);
  commitSome(store, random, 1);
  const content = contentOf(store);
  if (isClosed) store.fold();
  const copy = await temporaryDirectory();
  if (isClosed) await store.close();
  cpSync(directory, copy, { recursive: true });
  if (!isClosed) await store.close();
  return { directory: copy, content, contentBefore: isClosed ? content : contentBefore };
}

/** Flips one bit of a file that is picked by its size, or evenly; returns the place. */
function flip(directory: string, random: Seeded): string {
  const files = ['tables', 'log'].flatMap((folder) =>
    readdirSync(join(directory, folder)).map((name) => join(directory, folder, name)),
  );
  const written = files.filter((file) => statSync(file).size > 0);
  const file = random.pick(written as [string, ...string[]]);
  const bytes = readFileSync(file);
  // Most of a segment is zeros.
  const within = random.oneIn(2) ? bytes.length : Math.min(bytes.length, 16_384);
  const at = random.below(within);
  bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << random.below(8)), at);
  writeFileSync(file, bytes);
  return `${file.slice(directory.length + 1)} at byte ${at}`;
}

for (const kind of ['rocksdb', 'sqlite'] as const)
  test(`a flipped bit is told, or changes nothing, with tables in ${kind}`, async () => {
    const seeds = new ProofSeeds(24);
    const counts = { told: 0, harmless: 0, 'last flush lost': 0 };
    let from: Original | undefined;
    for (const seed of seeds) {
      // Several bits are flipped in each state.
      if (from === undefined || seed % 20 === 1) from = await original(seed, Math.floor(seed / 20) % 2 === 0, kind);
      const random = seeded(seed + 1_000_000);
      const directory = await temporaryDirectory();
      cpSync(from.directory, directory, { recursive: true });
      const place = flip(directory, random);
      let store: StateStore | undefined;
      try {
        store = await open(directory);
        const content = contentOf(store);
        if (content === from.content) counts.harmless++;
        else {
          assert.ok(
            content === from.contentBefore,
            `seed ${seed}: after a bit of ${place} was flipped, something else is read`,
          );
          counts['last flush lost']++;
        }
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        counts.told++;
      } finally {
        await store?.close();
        await rm(directory, { recursive: true });
      }
    }
    seeds.saw(counts);
    assert.ok(counts.told > 0 && counts.harmless > 0);
  });
