/**
 * Tables in SQLite, for platforms that RocksDB has no binary for: Node brings SQLite along.
 *
 * A write is a transaction, in SQLite's log. A synced one waits for the disk, and then everything in the log goes to
 * the database (a checkpoint): so what is needed is in the log alone for as long as the overlay folds 4 MiB, or as a
 * snapshot lives, which the log grows beside. An empty synced write changes a counter: without a change SQLite would
 * wait for nothing.
 *
 * Rows have checksums (`sqlite-reader.ts`), SQLite's own structure has none: it is known by the number of rows that
 * each index leads to, which is counted at the start (a twenty-fifth of the bytes of 4 KiB rows) and compared.
 *
 * Room of deleted rows is used again; where there is much of it each write gives some back to the system.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { StatementSync } from 'node:sqlite';
import { assert } from '../../kernel/index.ts';
import { numberOf, type OpenDatabase, openDatabase, problemOf } from './sqlite-database.ts';
import { SqliteReader, sumOf } from './sqlite-reader.ts';
import { damaged } from './tables-problems.ts';
import { FAMILIES, type Change, type Entry, type Family, type TableReader, type Tables } from './tables.ts';

/** Pages of 4 KiB that may lie free; more are given back, so many at a write: some milliseconds. */
const FREE_PAGES_KEPT = 1024;
/** Share of all pages that may lie free besides: what is written again soon needs them. */
const FREE_SHARE_KEPT = 1 / 8;
const PAGES_GIVEN_BACK = 256;
/** Connections of readers that are kept for the next ones. */
const IDLE_READERS_MAX = 4;

interface Writing {
  readonly update: StatementSync;
  readonly insert: StatementSync;
  readonly remove: StatementSync;
}

export class SqliteTables implements Tables {
  readonly #database: OpenDatabase;
  readonly #reader: SqliteReader;
  readonly #writing: Readonly<Record<Family, Writing>>;
  readonly #count: StatementSync;
  readonly #idle: SqliteReader[] = [];
  readonly #snapshots = new Set<Snapshot>();
  #rows: Readonly<Record<Family, number>>;
  #closed: Promise<void> | undefined;

  /**
   * Creates the directory and the tables where there are none. Rejects with ServerError `state-locked`,
   * `state-corrupt`, `state-unwritable`, `state-newer`, or `state-unsupported` where Node has no SQLite.
   */
  static async open(directory: string): Promise<SqliteTables> {
    const database = await openDatabase(directory);
    try {
      return new SqliteTables(database);
    } catch (error) {
      database.writer.close();
      database.unlock();
      throw problemOf(error, directory);
    }
  }

  private constructor(database: OpenDatabase) {
    const { writer } = database;
    this.#database = database;
    this.#reader = new SqliteReader(writer);
    this.#rows = countedRows(database);
    this.#count = writer.prepare('update counts set rows = ? where name = ?');
    this.#writing = byFamily((family) => ({
      update: writer.prepare(`update ${family} set sum = ?, value = coalesce(?, x'') where key = coalesce(?, x'')`),
      insert: writer.prepare(`insert into ${family} (key, sum, value) values (coalesce(?, x''), ?, coalesce(?, x''))`),
      remove: writer.prepare(`delete from ${family} where key = coalesce(?, x'')`),
    }));
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    this.#checkOpen();
    return this.#reader.get(family, key);
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    this.#checkOpen();
    return this.#reader.getMany(family, keys);
  }

  *range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    this.#checkOpen();
    const { entries, next } = this.#reader.step(family, from, to);
    if (next === undefined) {
      yield* entries;
      return;
    }
    // Nothing has been written since that step.
    using pinned = this.snapshot();
    yield* entries;
    yield* pinned.range(family, next, to);
  }

  write(changes: readonly Change[], { isSynced }: { readonly isSynced: boolean }): void {
    this.#checkOpen();
    const { writer, directory } = this.#database;
    const rows = { ...this.#rows };
    try {
      writer.exec(`pragma synchronous = ${isSynced ? 'full' : 'normal'}; begin immediate`);
      for (const change of changes) rows[change.family] += this.#apply(change);
      for (const family of FAMILIES) if (rows[family] !== this.#rows[family]) this.#count.run(rows[family], family);
      if (isSynced) writer.exec("update counts set rows = rows + 1 where name = 'syncs'");
      this.#giveBack();
      writer.exec('commit');
      if (isSynced) writer.exec('pragma wal_checkpoint(passive)');
    } catch (error) {
      if (writer.isTransaction) writer.exec('rollback');
      throw problemOf(error, directory);
    }
    this.#rows = rows;
  }

  /** Returns how many rows there are more. */
  #apply({ family, key, value }: Change): number {
    const { update, insert, remove } = this.#writing[family];
    if (value === undefined) return -Number(remove.run(key).changes);
    const sum = sumOf(family, key, value);
    if (Number(update.run(sum, value, key).changes) > 0) return 0;
    insert.run(key, sum, value);
    return 1;
  }

  #giveBack(): void {
    const { writer } = this.#database;
    const free = numberOf(writer, 'pragma freelist_count');
    if (free <= FREE_PAGES_KEPT) return;
    if (free <= FREE_PAGES_KEPT + numberOf(writer, 'pragma page_count') * FREE_SHARE_KEPT) return;
    writer.exec(`pragma incremental_vacuum(${PAGES_GIVEN_BACK})`);
  }

  snapshot(): TableReader & Disposable {
    this.#checkOpen();
    const reader = this.#idle.pop() ?? new SqliteReader(this.#database.connect());
    reader.begin();
    const snapshot = new Snapshot(reader, () => {
      this.#snapshots.delete(snapshot);
      reader.end();
      if (this.#idle.length < IDLE_READERS_MAX) this.#idle.push(reader);
      else reader.close();
    });
    this.#snapshots.add(snapshot);
    return snapshot;
  }

  get bytes(): number {
    const { directory } = this.#database;
    let bytes = 0;
    for (const name of readdirSync(directory))
      bytes += statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0;
    return bytes;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const { writer, directory, unlock } = this.#database;
    try {
      for (const snapshot of this.#snapshots) snapshot[Symbol.dispose]();
      for (const reader of this.#idle.splice(0)) reader.close();
      writer.exec('pragma wal_checkpoint(truncate)');
    } catch (error) {
      throw problemOf(error, directory);
    } finally {
      writer.close();
      unlock();
    }
    return Promise.resolve();
  }

  #checkOpen(): void {
    assert(this.#closed === undefined, 'the tables are closed');
  }
}

class Snapshot implements TableReader, Disposable {
  readonly #reader: SqliteReader;
  readonly #release: () => void;
  #isDisposed = false;

  constructor(reader: SqliteReader, release: () => void) {
    this.#reader = reader;
    this.#release = release;
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    return this.#checked().get(family, key);
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    return this.#checked().getMany(family, keys);
  }

  *range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry> {
    for (let next: Uint8Array | undefined = from; next !== undefined;) {
      const step = this.#checked().step(family, next, to);
      yield* step.entries;
      next = step.next;
    }
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#release();
  }

  #checked(): SqliteReader {
    assert(!this.#isDisposed, 'the snapshot was disposed of, or its tables are closed');
    return this.#reader;
  }
}

/** Returns the rows of each table, or throws if its index leads to more or fewer than were written. */
function countedRows({ writer, directory }: OpenDatabase): Readonly<Record<Family, number>> {
  return byFamily((family) => {
    const written = numberOf(writer, `select rows from counts where name = '${family}'`);
    const found = numberOf(writer, `select count(*) from ${family} indexed by ${family}_key`);
    if (written === found) return found;
    throw damaged(directory, new Error(`${family} has ${found} rows, and ${written} were written`));
  });
}

function byFamily<T>(make: (family: Family) => T): Record<Family, T> {
  return Object.fromEntries(FAMILIES.map((family) => [family, make(family)])) as Record<Family, T>;
}
