/**
 * Brings a frozen layer into the tables, step by step; each step is a few statements that may be done again. At the end
 * the tables know which unit they have, and the log is forgotten up to it. If the fold is broken off anywhere, the log
 * has everything, and reads go through the layer meanwhile: it says what is there, however much of that the tables know
 * already.
 *
 * A database that has crashed, or another machine that took its place, may lack what it has answered last, if it is set
 * up so. In the middle of a fold that does no harm: all steps are done again by the next session. After the fold the
 * layer is gone, so the session that finds the tables without their last unit ends the process (database.ts), and the
 * log has that unit. Once the tables have said that they have everything, no earlier step is done again: a step that
 * clears would remove rows that no log can bring back.
 */
import { type Family, lastUnitChange, prefixEnd } from '../api/storage.ts';
import { byteaArray, int2Array, int4Array } from './arrays.ts';
import type { Value } from './connection.ts';
import { bufferOf, type Database, type Session } from './database.ts';
import { tableValues } from './entries.ts';
import { bytesOf, type Content, type Layer, Page } from './layer.ts';
import { CHUNK_ROWS, familyNumber, PIECE_BYTES, SQL } from './schema.ts';

/** Entries and bytes that one step writes at most; the bytes are about a mebibyte. */
const STEP_ENTRIES = 512;
const STEP_BYTES = 2 ** 20;

interface Written {
  readonly family: Family;
  readonly key: Buffer;
  /** Undefined if the entry is deleted. */
  readonly value: Uint8Array | undefined;
}

type Step = (session: Session) => Promise<boolean>;

export class Fold {
  readonly #database: Database;
  readonly #layer: Layer;
  readonly #last: number;
  /** The session that has done the steps up to now. */
  #session: Session | undefined;
  #steps: Iterator<Step>;
  /** Undefined when all steps are done. */
  #step: Step | undefined;

  /** `last`: the newest unit in the layer. */
  constructor(database: Database, layer: Layer, last: number) {
    this.#database = database;
    this.#layer = layer;
    this.#last = last;
    this.#steps = this.#all();
    this.#step = this.#next();
  }

  /** Does the next step. True: all are done. */
  async step(): Promise<boolean> {
    await this.#database.persist(async (session) => {
      this.#keepTo(session);
      if ((await this.#step?.(session)) === true) this.#step = this.#next();
    });
    return this.#step === undefined;
  }

  /**
   * Begins again with another session, because a crash may have taken what the database has answered to the session
   * before. If the tables have everything, only the log is to be forgotten.
   */
  #keepTo(session: Session): void {
    // The fence would not tell: a database that goes back gives the same number again.
    if (this.#session !== undefined && this.#session !== session) {
      this.#steps = session.folded >= this.#last ? this.#end() : this.#all();
      this.#step = this.#next();
    }
    this.#session = session;
  }

  #next(): Step | undefined {
    const next = this.#steps.next();
    return next.done === true ? undefined : next.value;
  }

  *#all(): Generator<Step, void, void> {
    const layer = this.#layer;
    const last = this.#last;
    for (const [family, prefix] of layer.cleared()) yield (session) => this.#clear(session, family, prefix);
    let some: [Family, string, Content][] = [];
    let bytes = 0;
    for (const entry of layer.entries()) {
      some.push([...entry]);
      const [, , content] = entry;
      bytes += content instanceof Page ? content.bytes.length : (content?.length ?? 0);
      if (some.length < STEP_ENTRIES && bytes < STEP_BYTES) continue;
      const entries = some;
      yield (session) => this.#write(session, entries);
      some = [];
      bytes = 0;
    }
    const entries = some;
    yield (session) => this.#write(session, entries);
    yield async (session) => {
      const { family, key, value } = lastUnitChange(last);
      await this.#writePieces(session, [{ family, key: bufferOf(key), value }]);
      this.#database.hasFolded(last);
      return true;
    };
    // Only now: what the log has counts until the tables have it.
    yield* this.#end();
  }

  *#end(): Generator<Step, void, void> {
    yield async (session) => {
      await this.#statement(session, SQL.forgetLog, [this.#last]);
      return true;
    };
  }

  /** Deletes some thousands of rows. Returns true if there are no more. */
  async #clear(session: Session, family: Family, prefix: string): Promise<boolean> {
    const from = bytesOf(prefix);
    const to = prefixEnd(from);
    const bounds = [familyNumber(family), from];
    const [count] =
      to === undefined
        ? await this.#statement(session, SQL.clearFrom, bounds)
        : await this.#statement(session, SQL.clearBetween, [...bounds, bufferOf(to)]);
    return Number(count) < CHUNK_ROWS;
  }

  async #write(session: Session, entries: readonly [Family, string, Content][]): Promise<boolean> {
    if (entries.length === 0) return true;
    const below = await this.#below(session, entries);
    await this.#writePieces(
      session,
      entries.map(([family, key, content]) => ({
        family,
        key: bytesOf(key),
        value: content instanceof Page ? content.bytesOver(below.get(family)?.get(key)) : content,
      })),
    );
    return true;
  }

  /** The pages beneath those of which some bytes are known. */
  async #below(
    session: Session,
    entries: readonly [Family, string, Content][],
  ): Promise<ReadonlyMap<Family, ReadonlyMap<string, Uint8Array>>> {
    const found = new Map<Family, ReadonlyMap<string, Uint8Array>>();
    for (const family of ['heap', 'stable'] as const) {
      const keys = entries
        .filter(([of, , content]) => of === family && content instanceof Page && !content.isWhole)
        .map(([, key]) => bytesOf(key));
      if (keys.length > 0)
        found.set(family, await tableValues(session.entries, this.#database.namespace, family, keys));
    }
    return found;
  }

  async #writePieces(session: Session, entries: readonly Written[]): Promise<void> {
    await writePieces(entries, {
      remove: (values) => this.#statement(session, SQL.remove, values),
      write: (values) => this.#statement(session, SQL.write, values),
    });
  }

  #statement(
    session: Session,
    statement: (typeof SQL)[keyof typeof SQL],
    values: Value[],
  ): Promise<readonly (string | number | Buffer | null)[]> {
    return this.#database.write(session, session.entries, statement, values);
  }
}

/** Statements for pieces of entries; the values come after namespace and fence. */
interface PieceStatements {
  remove(values: Value[]): Promise<unknown>;
  write(values: Value[]): Promise<unknown>;
}

/** Makes rows of entries, some of which may be large: each statement has about a mebibyte. */
export async function writePieces(entries: readonly Written[], statements: PieceStatements): Promise<void> {
  // Pages have one piece, before and after.
  const shortened = entries.filter(
    ({ family, value }) => value === undefined || (family !== 'heap' && family !== 'stable'),
  );
  if (shortened.length > 0) {
    await statements.remove([
      int2Array(shortened.map(({ family }) => familyNumber(family))),
      byteaArray(shortened.map(({ key }) => key)),
      int4Array(shortened.map(({ value }) => (value === undefined ? 0 : piecesOf(value)))),
    ]);
  }
  let rows: [family: number, key: Buffer, piece: number, value: Uint8Array][] = [];
  let bytes = 0;
  const send = async (): Promise<void> => {
    if (rows.length === 0) return;
    await statements.write([
      int2Array(rows.map(([family]) => family)),
      byteaArray(rows.map(([, key]) => key)),
      int4Array(rows.map(([, , piece]) => piece)),
      byteaArray(rows.map(([, , , value]) => value)),
    ]);
    rows = [];
    bytes = 0;
  };
  for (const { family, key, value } of entries) {
    if (value === undefined) continue;
    for (let piece = 0; piece < piecesOf(value); piece++) {
      const part = value.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES);
      rows.push([familyNumber(family), key, piece, part]);
      bytes += part.length;
      if (bytes >= STEP_BYTES) await send();
    }
  }
  await send();
}

/** An empty value has one, too. */
function piecesOf(value: Uint8Array): number {
  return Math.max(1, Math.ceil(value.length / PIECE_BYTES));
}
