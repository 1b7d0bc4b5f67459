/**
 * Tables in RocksDB, one column family a Family. The step log and its overlay stand in front: writes come late, in
 * large batches of mostly 4 KiB pages; reads are points and short ranges.
 *
 * Settings, measured with 400 MiB of page writes over 20,000 pages on two cores: universal compaction without
 * compression took 1.3 s and 1.6 s of CPU time, 0.014 ms a get and 0.24 ms for a range of 32 pages; with ZSTD 1.9 s,
 * 2.7 s, 0.014 and 0.52 ms; level compaction 1.8 s, 1.7 s, 0.024 and 0.38 ms. So only modules, written once and
 * seldom read, are compressed. Snapshots, in `blob`, come as megabytes in the order of their keys: level compaction,
 * which moves files that overlap no others without reading them, wrote 2.1 GB for a snapshot of 1 GiB, and universal
 * compaction 10. Blocks of 16 KiB keep the index, which stays in memory, a quarter of the size. Small memtables bound
 * what is in memory; `rocksdb-memtables.ts` bounds RocksDB's own log, replayed at every open.
 *
 * Blocks carry checksums, verified whenever one is read. RocksDB reports a damaged one by its file; the family and
 * the key are found by reading again in smaller steps.
 */
import { mkdir, open, readdir } from 'node:fs/promises';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Binding, FamilyOptions, Handle } from '@nxtedition/rocksdb/binding.js';
import { assert, messageOf, ServerError } from '../../kernel/index.ts';
import { PRIVATE_DIRECTORY } from './private-files.ts';
import { findLogDamage } from './rocksdb-log-check.ts';
import { codeOf } from './state-problems.ts';
import { type ColumnFamily, type Filler, Memtables } from './rocksdb-memtables.ts';
import { damaged, hex, inUse, successorOf, unwritable } from './tables-problems.ts';
import { FAMILIES, type Change, type Entry, type Family, type TableReader, type Tables } from './tables.ts';
import { NO_BYTES } from '../bytes/index.ts';

interface RocksdbOptions {
  /** Blocks kept in memory, for each of `heap` and `stable`; the other families have an eighth of it. */
  readonly pageCacheBytes?: number;
}

const MIB = 1 << 20;
const PAGE_CACHE_BYTES = 8 * MIB;
/** While one merges gigabytes, others merge the new files: RocksDB writes nothing any more where 36 of them wait. */
const COMPACTION_THREADS = 4;
const BLOCK_BYTES = 16_384;
/** The binding takes the size of four. */
const MEMTABLES_BUDGETED = 4;
const PAGE_MEMTABLE_BYTES = 4 * MIB;
const ROW_MEMTABLE_BYTES = MIB;
const BLOB_MEMTABLE_BYTES = 4 * MIB;
/** The least that RocksDB takes: for what is seldom written. */
const LEAST_MEMTABLE_BYTES = 65_536;
/** A batch keeps the room that it once needed: larger ones are not kept. */
const KEPT_BATCH_BYTES = 64 * MIB;
/** Rows that one step of a range reads at most; the first row is always read. */
const STEP_ROWS = 1024;
const STEP_BYTES = MIB;
/** The column family that RocksDB insists on. */
const UNUSED_FAMILY = 'default';
const MEMTABLE_BYTES: Readonly<Record<ColumnFamily, number>> = {
  [UNUSED_FAMILY]: LEAST_MEMTABLE_BYTES,
  meta: ROW_MEMTABLE_BYTES,
  heap: PAGE_MEMTABLE_BYTES,
  stable: PAGE_MEMTABLE_BYTES,
  log: ROW_MEMTABLE_BYTES,
  queue: ROW_MEMTABLE_BYTES,
  module: LEAST_MEMTABLE_BYTES,
  blob: BLOB_MEMTABLE_BYTES,
};
/** A key behind all keys of rows. */
const FILLER_KEY = new Uint8Array(64).fill(0xff);
const BEYOND_ALL_KEYS = new Uint8Array(65).fill(0xff);

interface Database {
  readonly binding: Binding;
  readonly handle: Handle;
  readonly columns: Readonly<Record<Family, { readonly column: Handle; readonly valueEncoding: 'buffer' }>>;
  /** All cursors that are open. */
  readonly cursors: Set<Cursor>;
  isClosed: boolean;
}

export class RocksdbTables implements Tables {
  readonly #directory: string;
  readonly #database: Database;
  readonly #batch: Handle;
  readonly #memtables = new Memtables(MEMTABLE_BYTES);
  #closed: Promise<void> | undefined;

  /**
   * Creates the directory and the tables where there are none. Rejects with ServerError `state-locked`,
   * `state-corrupt`, `state-unwritable`, or `state-unsupported` where RocksDB has no binary for the platform.
   */
  static async open(directory: string, options: RocksdbOptions = {}): Promise<RocksdbTables> {
    const binding = await loadBinding();
    await prepare(directory);
    const handle = binding.db_init(directory);
    const opened = Promise.withResolvers<Readonly<Record<string, Handle>>>();
    binding.db_open(handle, openOptions(options.pageCacheBytes ?? PAGE_CACHE_BYTES), (error, columns) => {
      if (error) opened.reject(openingError(directory, error));
      else opened.resolve(columns);
    });
    return new RocksdbTables(directory, binding, handle, await opened.promise);
  }

  private constructor(directory: string, binding: Binding, handle: Handle, columns: Readonly<Record<string, Handle>>) {
    const byFamily = FAMILIES.map((family) => [family, { column: columns[family], valueEncoding: 'buffer' }]);
    this.#directory = directory;
    this.#database = {
      binding,
      handle,
      columns: Object.fromEntries(byFamily) as Database['columns'],
      cursors: new Set(),
      isClosed: false,
    };
    this.#batch = binding.batch_init();
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    return this.getMany(family, [key])[0];
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    const { binding, handle, columns } = checkOpen(this.#database);
    let rows: readonly (Buffer | null | undefined)[];
    try {
      rows = binding.db_get_many_sync(handle, keys, columns[family]);
    } catch (error) {
      const [key = NO_BYTES] = keys;
      if (keys.length === 1) throw damaged(`${family}, key ${hex(key)}`, error);
      return keys.map((each) => this.get(family, each));
    }
    return rows.map((row, index) => (row === null ? this.get(family, keys[index] ?? NO_BYTES) : row && plain(row)));
  }

  *range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    if (to !== undefined && Buffer.compare(from, to) >= 0) return;
    using cursor = new Cursor(this.#database, family, from, to);
    yield* cursor.entries(from, to);
  }

  write(changes: readonly Change[], { isSynced }: { readonly isSynced: boolean }): void {
    const { binding, columns } = checkOpen(this.#database);
    let bytes = 0;
    for (const { family, key, value } of changes) {
      const length = key.length + (value?.length ?? 0);
      this.#memtables.wrote(family, length);
      bytes += length;
    }
    this.#writeBatch(bytes, isSynced, (batch) => {
      for (const { family, key, value } of changes) {
        if (value === undefined) binding.batch_del(batch, key, columns[family]);
        else binding.batch_put(batch, key, value, columns[family]);
      }
      // RocksDB makes no promise for an empty batch: this one reaches its log, and so syncs what is there.
      if (changes.length > 0) return;
      binding.batch_del(batch, NO_BYTES, {});
      this.#memtables.wrote(UNUSED_FAMILY, 0);
    });
    for (const filler of this.#memtables.takeFillers()) this.#fill(filler);
  }

  /** No row has that key. */
  #fill({ family, bytes }: Filler): void {
    const { binding, columns } = this.#database;
    const column = family === UNUSED_FAMILY ? {} : columns[family];
    this.#writeBatch(bytes, false, (batch) => {
      binding.batch_put(batch, FILLER_KEY, new Uint8Array(bytes), column);
      binding.batch_del(batch, FILLER_KEY, column);
    });
  }

  #writeBatch(bytes: number, isSynced: boolean, put: (batch: Handle) => void): void {
    const { binding, handle } = this.#database;
    const batch = bytes <= KEPT_BATCH_BYTES ? this.#batch : binding.batch_init();
    try {
      put(batch);
      binding.batch_write(handle, batch, { sync: isSynced });
    } catch (error) {
      throw isCorruption(error) ? damaged(this.#directory, error) : unwritable(this.#directory, error);
    } finally {
      binding.batch_clear(batch);
    }
  }

  /**
   * Writes out RocksDB's log as it is now, in threads of the system. A sync by RocksDB blocks the thread that asks for
   * it, and takes long while a compaction's files are written, since the file system writes those out with it. It has
   * little left to do after this.
   */
  async writeOut(): Promise<void> {
    try {
      const names = (await readdir(this.#directory)).filter((name) => name.endsWith('.log'));
      await Promise.all(names.map((name) => writeOutFile(join(this.#directory, name))));
    } catch (error) {
      throw unwritable(this.#directory, error);
    }
  }

  snapshot(): TableReader & Disposable {
    return new Snapshot(checkOpen(this.#database));
  }

  get bytes(): number {
    let bytes = 0;
    for (const name of readdirSync(this.#directory)) {
      // Compaction takes files away at any time.
      bytes += statSync(join(this.#directory, name), { throwIfNoEntry: false })?.size ?? 0;
    }
    return bytes;
  }

  close(): Promise<void> {
    const { binding, handle, cursors } = this.#database;
    // The binding closes those that are left in another thread, and dies where one is collected meanwhile.
    for (const cursor of cursors) cursor[Symbol.dispose]();
    this.#database.isClosed = true;
    return (this.#closed ??= new Promise((resolve, reject) => {
      binding.db_close(handle, (error) => (error ? reject(unwritable(this.#directory, error)) : resolve()));
    }));
  }
}

/** The binding has no snapshots, but its iterators pin one: one for each family, made between two writes. */
class Snapshot implements TableReader, Disposable {
  readonly #cursors: Readonly<Record<Family, Cursor>>;

  constructor(database: Database) {
    const cursors = FAMILIES.map((family) => [family, new Cursor(database, family, NO_BYTES, undefined)]);
    this.#cursors = Object.fromEntries(cursors) as Record<Family, Cursor>;
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    const [found, value] = this.#cursors[family].read(key, 1).rows;
    return found !== undefined && value !== undefined && Buffer.compare(found, key) === 0 ? plain(value) : undefined;
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    return keys.map((key) => this.get(family, key));
  }

  range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    return this.#cursors[family].entries(from, to);
  }

  [Symbol.dispose](): void {
    for (const family of FAMILIES) this.#cursors[family][Symbol.dispose]();
  }
}

/** An iterator of one family, over the tables as they were when it was made. */
class Cursor implements Disposable {
  readonly #database: Database;
  readonly #family: Family;
  readonly #iterator: Handle;
  #isClosed = false;

  constructor(database: Database, family: Family, from: Uint8Array, to: Uint8Array | undefined) {
    const { binding, handle, columns } = checkOpen(database);
    this.#database = database;
    this.#family = family;
    this.#iterator = binding.iterator_init(handle, {
      ...columns[family],
      gte: from,
      ...(to && { lt: to }),
      keyEncoding: 'buffer',
      highWaterMarkBytes: STEP_BYTES,
    });
    database.cursors.add(this);
  }

  /**
   * Returns up to `count` rows from that key on; fewer if they are large. Other reads may come in between: each seeks
   * anew.
   */
  read(from: Uint8Array, count: number): { readonly rows: readonly Buffer[]; readonly finished: boolean } {
    checkOpen(this.#database);
    assert(!this.#isClosed, 'the snapshot was disposed of');
    try {
      return this.#step(from, count);
    } catch (error) {
      if (count === 1) throw damaged(`${this.#family}, key ${hex(from)} or the one after it`, error);
    }
    return this.#readUpToDamage(from);
  }

  /** A step of several rows failed: the rows before the damage, or the error that names the key, if there are none. */
  #readUpToDamage(from: Uint8Array): { readonly rows: readonly Buffer[]; readonly finished: boolean } {
    const rows: Buffer[] = [];
    for (let next = from; ;) {
      let step: { readonly rows: readonly Buffer[]; readonly finished: boolean };
      try {
        step = this.#step(next, 1);
      } catch (error) {
        if (rows.length > 0) return { rows, finished: false };
        throw damaged(`${this.#family}, key ${hex(from)} or the one after it`, error);
      }
      rows.push(...step.rows);
      const [key] = step.rows;
      if (step.finished || key === undefined) return { rows, finished: true };
      next = successorOf(key);
    }
  }

  #step(from: Uint8Array, count: number): { readonly rows: readonly Buffer[]; readonly finished: boolean } {
    const { binding } = this.#database;
    try {
      binding.iterator_seek(this.#iterator, from);
      return binding.iterator_nextv_sync(this.#iterator, count);
    } catch (error) {
      // An iterator that met damage repeats its error after a seek to a place between two blocks nearby; a seek to
      // another place ends that.
      binding.iterator_seek(this.#iterator, BEYOND_ALL_KEYS);
      throw error;
    }
  }

  *entries(from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    for (let next = from; ;) {
      const { rows, finished } = this.read(next, STEP_ROWS);
      const last = rows.at(-2);
      if (last === undefined) {
        assert(finished, 'RocksDB returned nothing, and says that there is more');
        return;
      }
      const isWithin = to === undefined || Buffer.compare(last, to) < 0;
      for (let index = 0; index < rows.length; index += 2) {
        const key = rows[index];
        const value = rows[index + 1];
        assert(key !== undefined && value !== undefined, 'RocksDB returned a key without its value');
        if (!isWithin && Buffer.compare(key, to) >= 0) return;
        yield [plain(key), plain(value)];
      }
      if (finished) return;
      next = successorOf(last);
    }
  }

  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#database.cursors.delete(this);
    this.#database.binding.iterator_close(this.#iterator);
  }
}

/** Writes a file out; there is nothing to do for one that RocksDB has removed meanwhile. */
async function writeOutFile(path: string): Promise<void> {
  try {
    await using file = await open(path, 'r');
    await file.datasync();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

async function loadBinding(): Promise<Binding> {
  try {
    return (await import('@nxtedition/rocksdb/binding.js')).default;
  } catch (error) {
    const platform = `${process.platform}-${process.arch}`;
    throw new ServerError(
      'unavailable',
      'state-unsupported',
      `RocksDB cannot be loaded on ${platform}: ${firstLineOf(error)}; give --tables sqlite, or run on linux-x64`,
      { cause: error },
    );
  }
}

/**
 * Without its file CURRENT, RocksDB would take a database for none, and begin a new one over it; and what stands behind
 * damage in its log it would drop.
 */
async function prepare(directory: string): Promise<void> {
  let names: readonly string[];
  try {
    await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY });
    names = await readdir(directory);
  } catch (error) {
    throw unwritable(directory, error);
  }
  const rest = names.find((name) => /^MANIFEST-|[.](?:sst|log)$/.test(name));
  if (rest !== undefined && !names.includes('CURRENT')) {
    throw damaged(directory, new Error(`the file CURRENT is missing, but there is ${rest}`));
  }
  const damage = await findLogDamage(directory);
  if (damage !== undefined) {
    throw damaged(
      damage.file,
      new Error(`the record at byte ${damage.byte} cannot be read, and others stand behind it`),
    );
  }
}

function openOptions(pageCacheBytes: number): Parameters<Binding['db_open']>[1] {
  const families = FAMILIES.map((family): [string, FamilyOptions] => {
    const isPages = family === 'heap' || family === 'stable';
    const options: FamilyOptions = {
      compression: family === 'module',
      compaction: family === 'blob' ? 'level' : 'universal',
      memtableMemoryBudget: MEMTABLES_BUDGETED * MEMTABLE_BYTES[family],
      cacheSize: isPages ? pageCacheBytes : pageCacheBytes >>> 3,
      blockSize: BLOCK_BYTES,
    };
    return [family, options];
  });
  const unused: FamilyOptions = {
    compression: false,
    compaction: 'universal',
    memtableMemoryBudget: MEMTABLES_BUDGETED * LEAST_MEMTABLE_BYTES,
    cacheSize: 0,
    blockSize: BLOCK_BYTES,
  };
  return {
    createIfMissing: true,
    walCompression: false,
    parallelism: COMPACTION_THREADS,
    cacheSize: 0,
    columns: { [UNUSED_FAMILY]: unused, ...Object.fromEntries(families) },
  };
}

/** Asserts that a database is open: a call on a closed one would end the process. */
function checkOpen(database: Database): Database {
  assert(!database.isClosed, 'the tables are closed');
  return database;
}

function openingError(directory: string, error: Error & { readonly code?: string }): ServerError {
  if (error.code === 'LEVEL_LOCKED') return inUse(directory, error);
  // A file that the tables need is missing: an I/O error to RocksDB, damage to its readers.
  const isDamage = error.code !== 'LEVEL_IO_ERROR' || error.message.includes('No such file');
  return isDamage ? damaged(directory, error) : unwritable(directory, error);
}

function isCorruption(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'LEVEL_CORRUPTION';
}

function firstLineOf(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] ?? '';
}

/** The same bytes as a plain Uint8Array: `slice` of a Buffer would not copy. */
function plain(buffer: Buffer): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
}
