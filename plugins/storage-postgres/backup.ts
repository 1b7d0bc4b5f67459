/**
 * A backup on its way out: one transaction that sees the tables as they were when it began, and that reads ahead of the
 * caller that writes the file.
 */
import { BackupReader, type Entry, FAMILIES, type Family, type TableReader } from '../api/storage.ts';
import { assert } from '../api/plugin.ts';
import type { Connection } from './connection.ts';
import { NotOwner } from './database.ts';
import { type TableEntry, tableEntries } from './entries.ts';
import { SQL } from './schema.ts';

/**
 * Bytes of entries that a piece of the file has at most. So many are read before the piece is made, or all that are
 * left.
 */
const AHEAD_BYTES = 2 ** 20;

export class Backup {
  readonly #connection: Connection;
  readonly #tables: ReadAhead;
  readonly #reader: BackupReader;

  /**
   * Begins a backup. The tables are to have everything; the backup does not have what is written to them after this has
   * resolved. Rejects with NotOwner if another process owned the namespace at that moment: it may have been in the
   * middle of a fold.
   */
  static async begin(connection: Connection, namespace: string, owner: string): Promise<Backup> {
    try {
      await connection.run('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      // The first statement says which moment it is.
      const { rows } = await connection.query(SQL.isOwner, [namespace, owner]);
      if (rows.length === 0) throw new NotOwner();
      return new Backup(connection, namespace);
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  private constructor(connection: Connection, namespace: string) {
    this.#connection = connection;
    this.#tables = new ReadAhead(connection, namespace);
    this.#reader = new BackupReader(this.#tables);
  }

  /** Returns the next piece, or undefined after the last one. */
  async next(): Promise<Uint8Array | undefined> {
    await this.#tables.fill(AHEAD_BYTES);
    return this.#reader.next();
  }

  close(): void {
    this.#reader.close();
    this.#connection.destroy();
  }
}

/** All entries in the order of families and keys, for a reader that walks over them once and cannot wait. */
class ReadAhead implements TableReader, Disposable {
  readonly #source: AsyncGenerator<readonly [Family, readonly TableEntry[]], void, void>;
  readonly #ahead = new Map<Family, TableEntry[]>();
  #bytes = 0;
  #isAll = false;

  constructor(connection: Connection, namespace: string) {
    this.#source = allEntries(connection, namespace);
  }

  async fill(bytes: number): Promise<void> {
    while (!this.#isAll && this.#bytes < bytes) {
      const next = await this.#source.next();
      if (next.done === true) {
        this.#isAll = true;
        return;
      }
      const [family, entries] = next.value;
      const ahead = this.#ahead.get(family);
      if (ahead === undefined) this.#ahead.set(family, [...entries]);
      else ahead.push(...entries);
      for (const [key, value] of entries) this.#bytes += key.length + value.length;
    }
  }

  /** Yields the entries from the first key of the family to its last, once. */
  *range(family: Family): Generator<Entry, void, void> {
    for (;;) {
      const ahead = this.#ahead.get(family);
      if (ahead === undefined) break;
      this.#ahead.delete(family);
      for (const [key, value] of ahead) {
        this.#bytes -= key.length + value.length;
        yield [key, value];
      }
    }
    const isOver =
      this.#isAll || [...this.#ahead.keys()].some((other) => FAMILIES.indexOf(other) > FAMILIES.indexOf(family));
    assert(isOver, 'a backup is read ahead of the one who writes it');
  }

  get(): undefined {
    return undefined;
  }

  getMany(): undefined[] {
    return [];
  }

  [Symbol.dispose](): void {
    void this.#source.return();
  }
}

async function* allEntries(
  connection: Connection,
  namespace: string,
): AsyncGenerator<readonly [Family, readonly TableEntry[]], void, void> {
  for (const family of FAMILIES) {
    for await (const entries of tableEntries(connection, namespace, family, Buffer.alloc(0), undefined))
      yield [family, entries];
  }
}
