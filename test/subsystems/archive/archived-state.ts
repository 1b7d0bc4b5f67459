/**
 * A state with an archive, without a server: the shipped store, feed, writer and restore, over a disk in memory; and
 * beside it tables to which each unit is applied in the simplest way, whose hash says what a moment was.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { systemRandom } from '../../../kernel/index.ts';
import type { ArchiveFiles } from '../../../subsystems/archive/archive-files.ts';
import { ArchiveWriter, type ArchiveOptions } from '../../../subsystems/archive/archive-writer.ts';
import type { BaseStream, TakeAnswer, UnitSource } from '../../../subsystems/archive/index.ts';
import { BackupReader } from '../../../subsystems/storage/backup.ts';
import { FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { LAST_UNIT_KEY } from '../../../subsystems/storage/last-unit.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { openTables } from '../../../subsystems/storage/open-tables.ts';
import { StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { TableChanges } from '../../../subsystems/storage/table-changes.ts';
import { FAMILIES, type TableReader } from '../../../subsystems/storage/tables.ts';
import { UnitFeed } from '../../../subsystems/storage/unit-feed.ts';
import { applyWriteBatch, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { FaultyDisk } from '../../support/faulty-disk.ts';
import type { Seeded } from '../../support/seeded.ts';

/** Rows of storage itself, which are not part of what an actor sees. */
const OF_STORAGE: readonly Uint8Array[] = [LAST_UNIT_KEY, Buffer.from('L')];
/** The clock goes in steps of a look of the archive, the last ones at least. */
const STEP_MS = 1_000;
const STEPS_MS = 12_000;
const IDS = [Buffer.alloc(10, 1), Buffer.alloc(10, 2), Buffer.alloc(10, 3)] as const;

/** Returns the hash of all rows but those of storage itself. */
export function hashOf(tables: TableReader): string {
  const hash = createHash('sha256');
  for (const family of FAMILIES)
    for (const [key, value] of tables.range(family, new Uint8Array(0), undefined)) {
      if (family === 'meta' && OF_STORAGE.some((own) => Buffer.compare(own, key) === 0)) continue;
      hash.update(`${family} ${key.length} ${value.length}\n`).update(key).update(value);
    }
  return hash.digest('hex');
}

/** Returns the hash of a state directory, which nobody uses. */
export async function hashOfDirectory(directory: string): Promise<string> {
  const { tables } = await openTables(join(directory, 'tables'), undefined);
  try {
    return hashOf(tables);
  } finally {
    await tables.close();
  }
}

interface ArchivedStateOptions extends Partial<ArchiveOptions> {
  /** A directory that exists: the archive is made below it. */
  readonly folder: string;
  readonly stateDirectory?: string;
  readonly feedBytesMax?: number;
  readonly filesOf?: (path: string) => ArchiveFiles;
  readonly clock?: FakeClock;
  readonly foldBytes?: number;
}

export class ArchivedState implements UnitSource {
  readonly clock: FakeClock;
  readonly archive: string;
  readonly directory: string;
  readonly stateFormat = FORMAT;
  readonly writer: ArchiveWriter;
  readonly lines: string[] = [];
  /** Hashes of the state behind each unit, by its number. */
  readonly hashes = new Map<number, string>();
  /** Times of units by their numbers. */
  readonly times = new Map<number, number>();
  readonly #options: ArchivedStateOptions;
  readonly #model: MemoryTables;
  #disk: FaultyDisk;
  #tables: MemoryTables;
  readonly #feed: UnitFeed;
  readonly #store: StateStore;
  #closing: (() => Promise<void>) | undefined;

  constructor(options: ArchivedStateOptions, before?: ArchivedState) {
    this.#options = options;
    this.clock = options.clock ?? before?.clock ?? new FakeClock();
    this.archive = options.directory ?? join(options.folder, 'kept');
    this.directory = options.stateDirectory ?? options.folder;
    this.#model = before?.model ?? new MemoryTables();
    this.#disk = before?.disk ?? new FaultyDisk();
    this.#tables = before?.tables ?? new MemoryTables();
    for (const [unit, hash] of before?.hashes ?? []) this.hashes.set(unit, hash);
    for (const [unit, timeMs] of before?.times ?? []) this.times.set(unit, timeMs);
    this.#feed = new UnitFeed({
      waiting: () => this.#waiting(),
      ...(options.feedBytesMax !== undefined && { bytesMax: options.feedBytesMax }),
    });
    this.#store = this.#openStore();
    this.hashes.set(this.#store.last, hashOf(this.#model));
    const { secs = 10, days = 0, bytes = 0 } = options;
    const needs = {
      source: this,
      clock: this.clock,
      random: systemRandom,
      log: {
        info: (text: string) => void this.lines.push(text),
        warn: (text: string) => void this.lines.push(text),
        debug: () => undefined,
      },
      ...(options.filesOf !== undefined && { filesOf: options.filesOf }),
    };
    this.writer = new ArchiveWriter(needs, { directory: this.archive, secs, days, bytes });
  }

  #waiting: () => void = () => undefined;

  get model(): MemoryTables {
    return this.#model;
  }

  get disk(): FaultyDisk {
    return this.#disk;
  }

  get tables(): MemoryTables {
    return this.#tables;
  }

  #openStore(): StateStore {
    return new StateStore(this.#tables, (known) => StepLog.open(this.#disk, { ...known, segmentBytes: 256 * 1024 }), {
      isSynced: true,
      clock: this.clock,
      listener: this.#feed,
      foldBytes: this.#options.foldBytes ?? 64 * 1024,
    });
  }

  get durable(): number {
    return this.#store.last;
  }

  take(archived: number): Promise<TakeAnswer> {
    return Promise.resolve(this.#feed.take(archived));
  }

  async base(): Promise<BaseStream> {
    let reader: BackupReader | undefined;
    this.#store.takeSnapshot((snapshot) => (reader = new BackupReader(snapshot)));
    while (reader === undefined) this.#store.settle();
    const opened: BackupReader = reader;
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      for (let piece = opened.next(); piece !== undefined; piece = opened.next()) yield await Promise.resolve(piece);
    };
    return Promise.resolve({ ...this.#store.snapshotPlace, pieces: pieces() });
  }

  onWaiting(waiting: () => void): void {
    this.#waiting = waiting;
  }

  onClosing(closing: () => Promise<void>): void {
    this.#closing = closing;
  }

  /** Commits units with one flush, and notes what the state is behind each. */
  commit(units: readonly Uint8Array[]): void {
    for (const unit of units) {
      const changes = new TableChanges(this.#model);
      applyWriteBatch(unit, changes);
      this.#model.write(changes.take(), { isSynced: false });
      const number = this.#store.last + 1 + units.indexOf(unit);
      this.hashes.set(number, hashOf(this.#model));
    }
    const before = this.#store.last;
    this.#store.commit(units);
    for (let unit = before + 1; unit <= this.#store.last; unit++) this.times.set(unit, this.clock.nowMs());
    this.#store.settle();
  }

  /** Has the clock go on, and waits until the archive has done what is due then. */
  async pass(ms: number): Promise<void> {
    const stepsMs = Math.min(ms, STEPS_MS);
    this.clock.advance(ms - stepsMs);
    await this.rest();
    for (let leftMs = stepsMs; leftMs > 0; leftMs -= STEP_MS) {
      this.clock.advance(Math.min(leftMs, STEP_MS));
      await this.rest();
    }
  }

  /** Waits until nothing of the archive is under way. */
  async rest(): Promise<void> {
    await this.writer.rested();
  }

  /** Stops in order. */
  async stop(): Promise<void> {
    await this.writer.stop();
    await this.#closing?.();
    this.#store.fold();
    const kept = MemoryTables.copyOf(this.#tables);
    await this.#store.close();
    this.#tables = kept;
    this.clock.dropTimers();
  }

  /** Goes on after SIGKILL, with what the disk has. */
  killed(options: Partial<ArchivedStateOptions> = {}): ArchivedState {
    this.clock.dropTimers();
    this.#disk = this.#disk.killed();
    return new ArchivedState({ ...this.#options, ...options }, this);
  }
}

/** Returns a unit that changes some rows and pages of some actors. */
export function randomUnit(random: Seeded): Uint8Array {
  const set = new WriteBatch();
  for (let k = random.below(5) + 1; k > 0; k--) {
    const family = random.pick(['meta', 'queue', 'log', 'blob', 'module'] as const);
    const id = random.pick(IDS);
    const key = Buffer.concat([id, Buffer.from([random.below(20)])]);
    const choice = random.below(8);
    if (choice === 0) set.delete(family, key);
    else if (choice === 1) set.clear(family, id);
    else if (choice < 5) set.put(family, key, Buffer.alloc(random.below(300), random.below(256)));
    else set.patch(random.pick(['heap', 'stable']), id, 1, patchEntry(random));
  }
  return set.take();
}

/** Returns a page entry with one run (bytes/page-patch.ts). */
function patchEntry(random: Seeded): Uint8Array {
  const bytes = Buffer.alloc(1 + random.below(64), random.below(256));
  const header = Buffer.alloc(10);
  header.writeUInt32LE(random.below(12), 0);
  header.writeUInt16LE(1, 4);
  header.writeUInt16LE(random.below(4000), 6);
  header.writeUInt16LE(bytes.length, 8);
  return Buffer.concat([header, bytes]);
}
