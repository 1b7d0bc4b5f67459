/**
 * The connections with which the owner of a namespace writes: they are made again when they break, and nothing is
 * written twice.
 */
import { assert, type Clock, type Logger, messageOf, ServerError, sleep } from '../api/plugin.ts';
import { LAST_UNIT_KEY, lastUnitOf } from '../api/storage.ts';
import { byteaArray } from './arrays.ts';
import { Connection, type ConnectionOptions, type Statement, type Value } from './connection.ts';
import { placeOf } from './connection-url.ts';
import { ConnectionLost, damaged, isDamage, isFromDatabase, isTransient, wordsOf } from './database-errors.ts';
import type { Lease, Starting } from './lease.ts';
import { NO_ANSWER } from './outage.ts';
import { familyNumber, PIECE_BYTES, SQL } from './schema.ts';

/** Units that are committed together. */
export interface Batch {
  readonly first: number;
  readonly last: number;
  readonly bytes: number;
  /** Units, one after the other. */
  readonly units: readonly Uint8Array[];
}

/**
 * Two connections under one fence. When either breaks, both are given up, and the next session has a new fence: the
 * database then refuses statements of the old one that are on their way or waiting.
 */
export interface Session {
  /** Units. */
  readonly commits: Connection;
  /** Entries: read and written. */
  readonly entries: Connection;
  readonly fence: string;
  /** The newest unit in the database. */
  last: number;
  /** The newest unit that the tables had when it began. */
  readonly folded: number;
}

interface DatabaseOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  readonly lease: Lease;
  readonly leaseMs: number;
}

const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 1_000;
/** Milliseconds without an answer to what is written, after which the log says so. */
const LATE_MS = 5_000;

/** Somebody else owns the namespace; the lease tells it. */
export class NotOwner extends Error {
  override readonly name = 'NotOwner';
}

/** The database is not the one of before. Whatever of it was seen or changed, this process cannot go on with it. */
export class OtherDatabase extends ServerError {}

export class Database {
  readonly #options: DatabaseOptions;
  readonly #connectionOptions: ConnectionOptions;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  /** Number of works that have failed and are to be done again; `#awaySinceMs` is the time of the first. */
  #waiting = 0;
  #awaySinceMs = 0;
  #isEnded = false;
  /** The newest unit that this process knows to be in the database, and in the tables. */
  #last = 0;
  #folded = 0;

  constructor(options: DatabaseOptions) {
    const { url, clock, leaseMs } = options;
    this.#options = options;
    this.#connectionOptions = { url, clock, idleTransactionMs: leaseMs };
  }

  /** The namespace of the rows of the shard that this process owns. */
  get namespace(): string {
    return this.#options.lease.shard.namespace;
  }

  /** Opens a connection for a caller that reads for long. */
  connect(): Promise<Connection> {
    return Connection.open({ ...this.#connectionOptions, idleTransactionMs: 0, readsPages: true });
  }

  /**
   * Does `work` again until the database has answered, so `work` must be such that it may be done twice. Rejects with
   * NotOwner, with the ServerError that says why it will never succeed, or with the error of a bug.
   */
  async persist<T>(work: (session: Session) => Promise<T>, starting?: Starting): Promise<T> {
    let failures = 0;
    try {
      for (;;) {
        let session: Session | undefined;
        try {
          session = await this.#current();
          return await work(session);
        } catch (error) {
          if (error instanceof NotOwner || error instanceof ServerError) throw error;
          if (this.#isEnded) throw ended();
          if (isDamage(error)) throw damaged(error, this.#options.url);
          if (!isTransient(error)) throw isFromDatabase(error) ? this.#refused(error) : error;
          if (session !== undefined) this.#giveUpBroken(session);
          if (failures === 0) this.#isAway(error);
          starting?.readiness.waiting(`the database ${NO_ANSWER}`);
          await sleep(this.#options.clock, Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(9, failures++)));
        }
      }
    } finally {
      if (failures > 0) this.#isBack();
    }
  }

  /** Returns the session for work that cannot be done again. */
  session(): Promise<Session> {
    return this.#current();
  }

  /**
   * Ends a session after work that its units do not show, such as a restore: the next session sees what is there now.
   */
  async leave(session: Session): Promise<void> {
    if (this.#session === session) this.#session = undefined;
    await Promise.all([session.commits.end(), session.entries.end()]);
  }

  wordsOf(error: unknown): string {
    return wordsOf(error, this.#options.url);
  }

  #current(): Promise<Session> {
    if (this.#isEnded) return Promise.reject(ended());
    const session = this.#session;
    if (session !== undefined && !session.commits.isBroken && !session.entries.isBroken)
      return Promise.resolve(session);
    if (session !== undefined) this.#giveUpBroken(session);
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  #giveUpBroken(session: Session): void {
    if (!session.commits.isBroken && !session.entries.isBroken) return;
    session.commits.destroy();
    session.entries.destroy();
    if (this.#session === session) this.#session = undefined;
  }

  async #open(): Promise<Session> {
    const made: Connection[] = [];
    try {
      for (const readsPages of [false, true])
        made.push(await Connection.open({ ...this.#connectionOptions, readsPages }));
      const [commits, entries] = made;
      assert(commits !== undefined && entries !== undefined, 'two connections');
      const { namespace } = this;
      // Rows that this transaction sees were committed before it, and have reached every replica that its own commit
      // waits for.
      const { fence, last, folded } = await commits.transaction(async () => {
        const { rows } = await commits.query(SQL.nextFence, [namespace, this.#options.lease.owner]);
        if (rows[0] === undefined) throw new NotOwner();
        const newest = await commits.query(SQL.lastUnit, [namespace]);
        const inTables = await foldedUnit(commits, namespace);
        const inLog = Number(newest.rows[0]?.[0] ?? 0);
        return { fence: String(rows[0][0]), last: Math.max(inLog, inTables), folded: inTables };
      });
      this.#mustHaveStayed(last, folded);
      // Nobody would end it.
      if (this.#isEnded) throw ended();
      return (this.#session = { commits, entries, fence, last, folded });
    } catch (error) {
      for (const connection of made) connection.destroy();
      throw error;
    }
  }

  /**
   * Throws if the database has lost what it has answered: a crash, or another machine that is the first now, may have
   * taken the last transactions.
   */
  #mustHaveStayed(last: number, folded: number): void {
    if (last < this.#last) throw this.#wentBack(`unit ${last} as the newest`, `unit ${this.#last} was committed`);
    if (folded < this.#folded)
      throw this.#wentBack(`the tables up to unit ${folded}`, `unit ${this.#folded} was brought into them`);
    this.#last = last;
    this.#folded = folded;
  }

  /** The tables have all units up to that one, and say so. */
  hasFolded(last: number): void {
    this.#folded = last;
  }

  /** A write, by a statement that answers a row if the fence was right. The row. */
  async write(
    session: Session,
    connection: Connection,
    statement: Statement,
    values: Value[],
  ): Promise<readonly (string | number | Buffer | null)[]> {
    const { rows } = await connection.query(statement, [this.namespace, session.fence, ...values]);
    return rows[0] ?? this.#fenced(session);
  }

  /** The fence is another: ours of another session, or another owner's, which the next session finds out. */
  #fenced(session: Session): never {
    session.commits.destroy();
    session.entries.destroy();
    throw new ConnectionLost(new Error('the fence has moved'));
  }

  /** Resolves when the units are committed. */
  async commit(batch: Batch): Promise<void> {
    const { clock, log, url } = this.#options;
    const sentMs = clock.nowMs();
    let isLate = false;
    // A lock, or a connection that hangs: nothing fails before the statement counts as lost.
    using _late = clock.after(LATE_MS, () => {
      if (this.isAway || this.#isEnded) return;
      isLate = true;
      log.warn(`${placeOf(url)} has not answered what is written for ${LATE_MS / 1000} s: requests wait until it does`);
    });
    await this.persist((session) => this.#commitIn(session, batch));
    if (isLate) log.info(`${placeOf(url)} has answered it after ${((clock.nowMs() - sentMs) / 1000).toFixed(1)} s`);
  }

  async #commitIn(session: Session, batch: Batch): Promise<void> {
    // The batch was committed, and the answer was lost.
    if (session.last === batch.last) return;
    if (session.last !== batch.first - 1)
      throw this.#wentBack(`unit ${session.last} as the newest`, `unit ${batch.first - 1} was committed last`);
    if (batch.bytes <= PIECE_BYTES) await this.#commitSmall(session, batch);
    else await this.#commitLarge(session, batch);
    session.last = batch.last;
    this.#last = batch.last;
  }

  /**
   * Returns the error for a database that has changed although nobody else writes there: rows were taken away or added,
   * or the database is as it was some time ago.
   */
  #wentBack(found: string, expected: string): OtherDatabase {
    return new OtherDatabase(
      'unavailable',
      'state-corrupt',
      `${placeOf(this.#options.url)} has ${found} of namespace '${this.namespace}', and ${expected}: the ` +
        `database is not the one of before; started again, svc goes on with the state that this one holds`,
    );
  }

  async #commitSmall(session: Session, { first, last, units }: Batch): Promise<void> {
    const values = [this.namespace, session.fence, first, last, joined(units)];
    const { count } = await session.commits.query(SQL.commit, values);
    if (count !== 1) this.#fenced(session);
  }

  async #commitLarge(session: Session, { first, last, units }: Batch): Promise<void> {
    const { commits } = session;
    await commits.transaction(async () => {
      let piece = 0;
      for (const bytes of piecesOf(units))
        await commits.query(SQL.piece, [this.namespace, first, piece++, last, bytes]);
      // Last, so that nobody waits for this lock for long.
      const { rows } = await commits.query(SQL.own, [this.namespace, session.fence]);
      if (rows.length === 0) this.#fenced(session);
    });
  }

  // ---- coming and going

  /** Something waits for the database. */
  get isAway(): boolean {
    return this.#waiting > 0;
  }

  #isAway(error: unknown): void {
    if (this.#waiting++ > 0) return;
    const { clock, log, url } = this.#options;
    this.#awaySinceMs = clock.nowMs();
    log.warn(`${placeOf(url)} does not take what is written (${wordsOf(error, url)}): requests wait until it does`);
  }

  /** Notes that one work has succeeded or has given up. Reads may have an answer while nothing can be written. */
  #isBack(): void {
    if (--this.#waiting > 0 || this.#isEnded) return;
    const { clock, log, url } = this.#options;
    log.info(`${placeOf(url)} is back after ${((clock.nowMs() - this.#awaySinceMs) / 1000).toFixed(1)} s`);
  }

  #refused(error: unknown): ServerError {
    const { url } = this.#options;
    return new ServerError(
      'unavailable',
      'state-unwritable',
      `${placeOf(url)} refuses a write: ${wordsOf(error, url)}`,
      { cause: error },
    );
  }

  abandon(): void {
    this.#isEnded = true;
    this.#session?.commits.destroy();
    this.#session?.entries.destroy();
  }

  async end(): Promise<void> {
    this.#isEnded = true;
    const session = this.#session;
    this.#session = undefined;
    if (session !== undefined) await Promise.all([session.commits.end(), session.entries.end()]);
  }
}

/** Units one after the other, in pieces that each fit into a row. */
function* piecesOf(units: readonly Uint8Array[]): Generator<Buffer, void, void> {
  let parts: Uint8Array[] = [];
  let room = PIECE_BYTES;
  for (const unit of units) {
    for (let at = 0; at < unit.length;) {
      const part = unit.subarray(at, at + room);
      parts.push(part);
      at += part.length;
      room -= part.length;
      if (room > 0) continue;
      yield joined(parts);
      parts = [];
      room = PIECE_BYTES;
    }
  }
  if (parts.length > 0) yield joined(parts);
}

/** Joins parts; a single part is not copied. */
function joined(parts: readonly Uint8Array[]): Buffer {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? bufferOf(only) : Buffer.concat(parts);
}

/** The newest unit that the tables have. */
async function foldedUnit(connection: Connection, namespace: string): Promise<number> {
  const { rows } = await connection.query(SQL.readKeys, [namespace, familyNumber('meta'), byteaArray([LAST_UNIT_KEY])]);
  if (rows.length === 0) return 0;
  const [, , value] = rows[0] ?? [];
  if (rows.length > 1 || !(value instanceof Buffer) || value.length !== 8)
    throw new ServerError('unavailable', 'state-corrupt', 'svc_entries has no number under meta/U, the newest unit');
  return lastUnitOf(value);
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

function ended(): ServerError {
  return new ServerError('unavailable', 'storage-failed', 'the storage is closed');
}

export function asServerError(error: unknown): ServerError {
  if (error instanceof ServerError) return error;
  return new ServerError('unavailable', 'storage-failed', `the storage failed: ${messageOf(error)}`, { cause: error });
}
