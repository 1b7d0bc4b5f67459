/**
 * Reads tables in SQLite over one connection, as they are, or as they were when its transaction began.
 *
 * SQLite's pages carry no checksums, so each row has one of its key and one of key and value, in one number. They are
 * compared whenever a row is read. Where a key is not found, or a range begins or ends, the rows on both sides are
 * compared by their keys: a key that was changed on the disk lies beside the place where the search for it ends.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { NO_BYTES } from '../bytes/index.ts';
import { damaged, hex, successorOf } from './tables-problems.ts';
import { FAMILIES, type Entry, type Family } from './tables.ts';

/** Rows that one step of a range reads at most; the first row is always read. */
const STEP_ROWS = 1024;
const STEP_BYTES = 2 ** 20;
/** A sum has 53 bits, as many as a number of JavaScript: 21 of the key alone, 32 of key and value. */
const KEY_SUM_MASK = 2 ** 21 - 1;
const KEY_SUM_UNIT = 2 ** 32;

interface Step {
  readonly entries: readonly Entry[];
  /** Key at which the next step begins; undefined after the last one. */
  readonly next: Uint8Array | undefined;
}

type Row = readonly [key: Uint8Array, sum: number, value: Uint8Array];

interface Statements {
  readonly one: StatementSync;
  readonly from: StatementSync;
  readonly before: StatementSync;
  readonly after: StatementSync;
}

/** Returns the checksum that a row has. */
export function sumOf(family: Family, key: Uint8Array, value: Uint8Array): number {
  const ofKey = keySumOf(family, key);
  return (ofKey & KEY_SUM_MASK) * KEY_SUM_UNIT + crcOf(value, ofKey);
}

/** A row of another family, or under another key, has another sum. */
function keySumOf(family: Family, key: Uint8Array): number {
  return crcOf(key, FAMILIES.indexOf(family) + 1);
}

/** Node 24.0 makes empty arrays without memory of rows, for which zlib answers 0. */
function crcOf(bytes: Uint8Array, seed: number): number {
  return bytes.length === 0 ? seed : crc32(bytes, seed);
}

export class SqliteReader {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<Family, Statements>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  get(family: Family, key: Uint8Array): Uint8Array | undefined {
    const { one } = this.#statementsOf(family);
    const row = guarded(family, key, () => one.get(key)) as unknown as readonly [number, Uint8Array] | undefined;
    if (row === undefined) {
      this.#checkBefore(family, key);
      this.#checkAfter(family, key);
      return undefined;
    }
    const [sum, value] = row;
    if (sumOf(family, key, value) !== sum) throw mismatch(family, key);
    return value;
  }

  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    return keys.map((key) => this.get(family, key));
  }

  /** Begins a transaction: until its end, the tables are read as they are now. */
  begin(): void {
    // The first read decides what a transaction sees.
    this.#database.exec('begin; select rows from counts limit 1');
  }

  end(): void {
    this.#database.exec('rollback');
  }

  close(): void {
    this.#database.close();
  }

  /** Returns some entries from a key on. Those before damage are returned; the next step begins there, and throws. */
  step(family: Family, from: Uint8Array, to: Uint8Array | undefined): Step {
    const entries: Entry[] = [];
    if (to !== undefined && Buffer.compare(from, to) >= 0) return { entries, next: undefined };
    this.#checkBefore(family, from);
    let last = from;
    try {
      let bytes = 0;
      for (const row of this.#statementsOf(family).from.iterate(from)) {
        const [key, sum, value] = row as unknown as Row;
        // The end is looked for here: SQLite would end at a damaged key, too.
        if (to !== undefined && Buffer.compare(key, to) >= 0) {
          checkKey(family, key, sum);
          return { entries, next: undefined };
        }
        if (sumOf(family, key, value) !== sum) throw mismatch(family, key);
        entries.push([key, value]);
        bytes += key.length + value.length;
        last = key;
        if (entries.length === STEP_ROWS || bytes >= STEP_BYTES) return { entries, next: successorOf(key) };
      }
      return { entries, next: undefined };
    } catch (error) {
      if (entries.length > 0) return { entries, next: successorOf(last) };
      throw toldWithPlace(family, from, error);
    }
  }

  #checkBefore(family: Family, key: Uint8Array): void {
    if (key.length > 0) this.#checkBeside(family, key, this.#statementsOf(family).before);
  }

  #checkAfter(family: Family, key: Uint8Array): void {
    this.#checkBeside(family, key, this.#statementsOf(family).after);
  }

  #checkBeside(family: Family, key: Uint8Array, statement: StatementSync): void {
    const row = guarded(family, key, () => statement.get(key)) as unknown as readonly [Uint8Array, number] | undefined;
    if (row !== undefined) checkKey(family, row[0], row[1]);
  }

  #statementsOf(family: Family): Statements {
    const known = this.#statements.get(family);
    if (known !== undefined) return known;
    const made = guarded(family, NO_BYTES, () => {
      const prepare = (sql: string): StatementSync => {
        const statement = this.#database.prepare(sql);
        statement.setReturnArrays(true);
        return statement;
      };
      // Some versions of Node bind an empty array as NULL. The key comes from the index, which is what is compared.
      return {
        one: prepare(`select sum, value from ${family} where key = coalesce(?, x'')`),
        from: prepare(`select key, sum, value from ${family} where key >= coalesce(?, x'') order by key`),
        before: prepare(`select key, sum from ${family} where key < ? order by key desc limit 1`),
        after: prepare(`select key, sum from ${family} where key > coalesce(?, x'') order by key limit 1`),
      };
    });
    this.#statements.set(family, made);
    return made;
  }
}

function checkKey(family: Family, key: Uint8Array, sum: number): void {
  if ((keySumOf(family, key) & KEY_SUM_MASK) !== Math.floor(sum / KEY_SUM_UNIT)) throw mismatch(family, key);
}

/** Reads, and names the place of damage that SQLite itself meets. */
function guarded<T>(family: Family, key: Uint8Array, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw toldWithPlace(family, key, error);
  }
}

/** Errors of SQLite have a code; others are told with their place already, or are bugs. */
function toldWithPlace(family: Family, key: Uint8Array, error: unknown): unknown {
  const isOfSqlite = error instanceof Error && 'errcode' in error;
  return isOfSqlite ? damaged(`${family}, key ${hex(key)} or the one after it`, error) : error;
}

function mismatch(family: Family, key: Uint8Array): Error {
  return damaged(`${family}, key ${hex(key)}`, new Error('checksum mismatch'));
}
