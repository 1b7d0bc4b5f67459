/**
 * The way of units and requests to the database, behind the commit queue.
 *
 *     units ─► batches ─► committed, one transaction after the other ─► durable is told ─► upper layer
 *                                       frozen layer ─► tables (fold.ts)   requests are answered from layers and tables
 *
 * Commits have a connection of their own. Reads and folds have the other and take turns, one at a time: so the tables
 * do not change under a read. A batch is applied while the next one is on its way.
 */
import { ServerError } from '../api/plugin.ts';
import {
  answerOf,
  carried,
  CommitFigures,
  type Family,
  type StorageAnswers,
  type StoragePort,
  type StorageReceiver,
  type ToStorage,
} from '../api/storage.ts';
import type { Asked, OrderedRequest, PostgresPortOptions } from './asked.ts';
import { Signal } from './signal.ts';
import { asServerError, type Batch, type Database, NotOwner, OtherDatabase, type Session } from './database.ts';
import { EntryReader, tableBytes } from './entries.ts';
import { Fold } from './fold.ts';
import { Layer, SLICE_BYTES } from './layer.ts';
import { type Lease, type Starting, stopped } from './lease.ts';
import { OpenBackups } from './open-backups.ts';
import { recoverLog } from './recover-log.ts';
import { TableSize } from './table-size.ts';

/**
 * Bytes of units that are committed together, exceeded by the last unit at most: a database takes some tens of
 * milliseconds for them.
 */
const BATCH_BYTES = 8 * 2 ** 20;
/** A unit that has more is committed alone. */
const LARGE_BYTES = 2 ** 20;
/** Small units are copied, so that the queue need not make room for each of them. */
const COPIED_BYTES_MAX = 64 * 2 ** 10;
const NO_UNIT = new Uint8Array(0);
const FOLD_BYTES = 24 * 2 ** 20;
/** The time that changes of a family that is read ahead wait for more of them. */
const FOLD_SOON_MS = 1_000;
/** Commits wait for the tables where the upper layer has become so many times larger than it is to be. */
const TOO_LARGE_FACTOR = 3;
/**
 * Bytes of units that wait in memory for a database that is away: work that no client waits for goes on, and has to end
 * somewhere.
 */
const WAITING_BYTES_MAX = 512 * 2 ** 20;
/** Factor for a database that takes units, but more slowly than they come. */
const SLOW_FACTOR = 4;

export class PostgresPort implements StoragePort {
  readonly #options: PostgresPortOptions;
  readonly #database: Database;
  readonly #lease: Lease;
  #receiver: StorageReceiver | undefined;
  #isOver = false;
  #failure: ServerError | undefined;
  #starting: Starting | undefined;
  // Units that are handed over and not on their way.
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #handed = 0;
  #committed = 0;
  #applied = 0;
  /** Committed, and not applied, or not wholly. */
  readonly #unapplied: Batch[] = [];
  /** The upper layer has a part of a batch: it is not to be read, and not to be frozen. */
  #applying: Promise<void> | undefined;
  // Layers.
  #active = new Layer();
  #frozen: Layer | undefined;
  #fold: Fold | undefined;
  #isFoldWanted = false;
  #foldedSoon: Family | undefined;
  #soon: Disposable | undefined;
  readonly #asked: Asked[] = [];
  readonly #backups: OpenBackups;
  readonly #tables: TableSize;
  #closing: number | undefined;
  /** Units are committed, and told when the lease holds again. */
  #isTellingDue = false;
  readonly #figures = new CommitFigures();
  #logBytes = 0;
  #frozenLogBytes = 0;
  readonly #unitsBell = new Signal();
  readonly #workBell = new Signal();
  readonly #foldBell = new Signal();

  constructor(options: PostgresPortOptions) {
    this.#options = options;
    this.#database = options.database;
    this.#lease = options.lease;
    this.#backups = new OpenBackups(options);
    this.#tables = new TableSize(options.database, options.clock);
  }

  // ---- the queue's side

  /** Takes the context of the start, which hears of the progress until the storage is open. */
  startsWith(starting: Starting): void {
    this.#starting = starting;
  }

  /** The lease is held. */
  open(receiver: StorageReceiver): void {
    this.#receiver = receiver;
    if (this.#failure === undefined) void this.#run();
    else this.#tellFailure(this.#failure);
  }

  /** Large ones are handed over. */
  copy(unit: Uint8Array): boolean {
    if (unit.length > COPIED_BYTES_MAX) return false;
    this.#add(unit.slice());
    return true;
  }

  send(message: ToStorage): boolean {
    if (message.kind === 'unit') this.#add(message.unit);
    else if (message.request.kind === 'figures') void this.#answer(message.call, Promise.resolve(this.#countFigures()));
    else if (message.request.kind === 'nextPiece')
      void this.#answer(message.call, this.#backups.next(message.request.backup));
    else this.#asked.push({ call: message.call, request: message.request, after: this.#handed });
    return true;
  }

  #add(unit: Uint8Array): void {
    // One that is larger by itself, or a burst that the database is about to take, is no reason to end.
    const { waitingBytesMax = WAITING_BYTES_MAX } = this.#options;
    const most = this.#database.isAway ? waitingBytesMax : waitingBytesMax * SLOW_FACTOR;
    const isTooMuch = this.#waitingBytes > most;
    this.#waiting.push(unit);
    this.#waitingBytes += unit.length;
    this.#handed++;
    if (isTooMuch)
      this.fail(
        new ServerError(
          'unavailable',
          'state-unwritable',
          `${most >> 20} MiB wait for the database, which does not take them: start svc again when the ` +
            `database takes them; all answered calls are stored`,
        ),
      );
  }

  /**
   * Does `work` when the tables have all units so far, and the log none of them; no read comes between. Rejects as
   * `work` does, and with what ends the port.
   */
  settled<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = (): Promise<void> => work().then(resolve, (error: unknown) => reject(asServerError(error)));
    const request = { kind: 'tables', run, refuse: reject } as const;
    this.#asked.push({ call: 0, request, after: this.#handed });
    if (this.#isOver) this.#stop();
    this.#workBell.ring();
    return promise;
  }

  publish(): void {
    this.#unitsBell.ring();
    if (this.#asked.length > 0) this.#workBell.ring();
  }

  async end(): Promise<void> {
    this.#stop();
    this.#backups.closeAll();
    await this.#database.end();
    await this.#lease.end();
  }

  abandon(): void {
    this.#stop();
    this.#backups.closeAll();
    this.#database.abandon();
    this.#lease.abandon();
  }

  /** Has this family folded soon: a process that waits for the namespace reads it ahead, and sees the tables alone. */
  foldsSoon(family: Family): void {
    this.#foldedSoon = family;
  }

  #foldSoon(): void {
    if (this.#foldedSoon === undefined || this.#soon !== undefined || !this.#active.touches(this.#foldedSoon)) return;
    this.#soon = this.#options.clock.after(FOLD_SOON_MS, () => {
      this.#soon = undefined;
      this.#isFoldWanted = true;
      this.#workBell.ring();
    });
  }

  #stop(): void {
    this.#isOver = true;
    this.#soon?.[Symbol.dispose]();
    for (const { request } of this.#asked) if (request.kind === 'tables') request.refuse(stopped());
    for (const bell of [this.#unitsBell, this.#workBell, this.#foldBell]) bell.ring();
  }

  /** Ends the port with an error: nothing more comes. */
  fail(error: ServerError): void {
    if (this.#isOver) return;
    this.#stop();
    this.#failure = error;
    this.#tellFailure(error);
  }

  /** Reports the failure. There may be no receiver yet: the namespace can be lost before the storage is opened. */
  #tellFailure(error: ServerError): void {
    this.#receiver?.receive({ kind: 'failed', error: carried(error) });
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      // The lease says who it is.
      if (error instanceof NotOwner) await this.#lease.lost();
      else this.fail(asServerError(error));
    }
  }

  async #run(): Promise<void> {
    await this.#guarded(async () => {
      await this.#recover();
      void this.#guarded(() => this.#work());
      await this.#commitAll();
    });
  }

  async #recover(): Promise<void> {
    const starting = this.#starting;
    const stop = (): void => this.#database.abandon();
    starting?.signal.addEventListener('abort', stop);
    try {
      if (starting?.signal.aborted === true) throw stopped();
      await this.#recoverWith(starting);
    } finally {
      starting?.signal.removeEventListener('abort', stop);
    }
  }

  async #recoverWith(starting: Starting | undefined): Promise<void> {
    const database = this.#database;
    const tell = (bytes: number): void =>
      starting?.readiness.waiting(`reading the state from the database: ${bytes} bytes of its log`);
    const recovered = await database.persist(async (session) => {
      const layer = new Layer();
      const apply = (units: Uint8Array): Promise<void> => layer.applyInTurns([units]);
      await recoverLog(session.entries, database.namespace, session, apply, tell);
      return { layer, last: session.last, tableBytes: await tableBytes(session.entries, database.namespace) };
    }, starting);
    this.#active = recovered.layer;
    this.#logBytes = recovered.layer.bytes;
    this.#tables.bytes = recovered.tableBytes;
    this.#handed = this.#committed = this.#applied = recovered.last;
    this.#foldSoon();
    this.#receiver?.receive({ kind: 'opened', last: recovered.last });
  }

  // ---- units

  async #commitAll(): Promise<void> {
    for (;;) {
      if (this.#isOver) return;
      const batch = this.#takeBatch();
      if (batch === undefined) {
        const applying = this.#apply();
        if (this.#closing !== undefined) {
          await applying;
          return this.#close(this.#closing);
        }
        await this.#unitsBell.heard();
        continue;
      }
      while (this.#active.bytes > TOO_LARGE_FACTOR * this.#foldBytes && !this.#isOver) {
        this.#workBell.ring();
        await this.#foldBell.heard();
      }
      // So what waits for that is never more than two batches.
      if (this.#unapplied.length > 1) await this.#apply();
      const startedMs = performance.now();
      const committing = this.#database.commit(batch);
      // Meanwhile, and whatever becomes of it.
      committing.catch(() => undefined);
      void this.#apply();
      await committing;
      this.#figures.committed(batch.units);
      this.#figures.took(performance.now() - startedMs);
      this.#unapplied.push(batch);
      this.#committed = batch.last;
      this.#tell();
    }
  }

  #takeBatch(): Batch | undefined {
    if (this.#waiting.length === 0) return undefined;
    let count = 0;
    let bytes = 0;
    for (; count < this.#waiting.length && bytes < BATCH_BYTES; count++) {
      const { length } = this.#waiting[count] ?? NO_UNIT;
      // Units before a large one do not wait for it.
      if (count > 0 && length > LARGE_BYTES) break;
      bytes += length;
    }
    const units = count === this.#waiting.length ? this.#waiting : this.#waiting.slice(0, count);
    this.#waiting = count === this.#waiting.length ? [] : this.#waiting.slice(count);
    this.#waitingBytes -= bytes;
    const first = this.#handed - this.#waiting.length - count + 1;
    return { first, last: first + count - 1, bytes, units };
  }

  /**
   * Reports units as durable. Answers that leave because of that may have been read before, so this waits for the
   * lease, too.
   */
  #tell(): void {
    if (this.#lease.holds) this.#receiver?.durable(this.#committed);
    else if (!this.#isTellingDue) {
      this.#isTellingDue = true;
      this.#lease.whenHeld(() => {
        this.#isTellingDue = false;
        this.#tell();
      });
    }
  }

  /** Applies what is committed. Undefined: it is done; large batches take some turns of the event loop. */
  #apply(): Promise<void> | undefined {
    if (this.#applying !== undefined) return this.#applying;
    for (let batch = this.#unapplied[0]; batch !== undefined; batch = this.#unapplied[0]) {
      if (batch.bytes > SLICE_BYTES) return (this.#applying = this.#applyInTurns(batch));
      for (const unit of batch.units) this.#active.apply(unit);
      this.#isApplied(batch);
    }
    return undefined;
  }

  #applyInTurns(batch: Batch): Promise<void> {
    return this.#guarded(async () => {
      try {
        await this.#active.applyInTurns(batch.units);
      } finally {
        this.#applying = undefined;
      }
      this.#isApplied(batch);
      await this.#apply();
    });
  }

  #isApplied(batch: Batch): void {
    this.#unapplied.shift();
    this.#logBytes += batch.bytes;
    this.#applied = batch.last;
    this.#foldSoon();
    if (this.#asked.length > 0 || this.#active.bytes > this.#foldBytes) this.#workBell.ring();
  }

  get #foldBytes(): number {
    return this.#options.foldBytes ?? FOLD_BYTES;
  }

  // ---- requests and folds, in turn

  async #work(): Promise<void> {
    while (!this.#isOver) {
      const isBusy = await this.#answerNext();
      if (this.#isOver) return;
      if (!(await this.#foldNext()) && !isBusy) await this.#workBell.heard();
    }
  }

  /** Answers the next request. Returns false if there is nothing to be answered now. */
  async #answerNext(): Promise<boolean> {
    const [asked] = this.#asked;
    if (asked === undefined) return false;
    if (asked.after > this.#committed) return false;
    if (asked.after > this.#applied) await this.#apply();
    if (this.#isOver) return false;
    this.#asked.shift();
    const { call, request } = asked;
    if (request.kind === 'tables') {
      await this.#foldAll();
      if (this.#isOver) request.refuse(stopped());
      else await request.run();
      return true;
    }
    if (request.kind === 'close') {
      this.#closing = call;
      this.#unitsBell.ring();
      return true;
    }
    await this.#answer(call, this.#answerTo(request));
    return true;
  }

  async #answer(call: number, work: Promise<unknown>): Promise<void> {
    await this.#guarded(async () => {
      try {
        const answer = await work;
        if (!this.#isOver) this.#receiver?.receive({ kind: 'answer', call, answer });
      } catch (error) {
        if (!(error instanceof ServerError) || error instanceof OtherDatabase) throw error;
        if (!this.#isOver) this.#receiver?.receive({ kind: 'refusal', call, error: carried(error) });
      }
    });
  }

  #answerTo(request: OrderedRequest): Promise<unknown> {
    switch (request.kind) {
      case 'openBackup':
        return this.#openBackup();
      case 'closeBackup':
        this.#backups.close(request.backup);
        return Promise.resolve();
      default:
        return this.#read(async (reader) => answerOf(reader, request));
    }
  }

  #read<T>(read: (reader: EntryReader) => Promise<T>): Promise<T> {
    return this.#database.persist(async (session) => {
      // A reader looks at the layers before it waits for anything: then they have whole units.
      while (this.#applying !== undefined) await this.#applying;
      return await read(this.#readerOf(session));
    });
  }

  #readerOf({ entries }: Session): EntryReader {
    const layers = this.#frozen === undefined ? [this.#active] : [this.#frozen, this.#active];
    return new EntryReader(entries, this.#database.namespace, layers);
  }

  #countFigures(): StorageAnswers['figures'] {
    this.#tables.refresh();
    const logBytes = this.#logBytes + this.#frozenLogBytes;
    return { stateBytes: this.#tables.bytes + logBytes, logBytes, ...this.#figures.figures };
  }

  // ---- folds

  /** A step; false: there is nothing to fold. */
  async #foldNext(): Promise<boolean> {
    if (this.#fold === undefined) {
      if (this.#active.bytes <= this.#foldBytes && !this.#isFoldWanted) return false;
      await this.#apply();
      while (this.#applying !== undefined) await this.#applying;
      this.#isFoldWanted = false;
      this.#frozen = this.#active;
      this.#active = new Layer();
      this.#frozenLogBytes = this.#logBytes;
      this.#logBytes = 0;
      this.#fold = new Fold(this.#database, this.#frozen, this.#applied);
    }
    if (await this.#fold.step()) {
      this.#fold = undefined;
      this.#frozen = undefined;
      this.#frozenLogBytes = 0;
      this.#foldBell.ring();
    }
    return true;
  }

  // ---- backups

  /** Everything is brought into the tables first: all that is read then is theirs. */
  async #openBackup(): Promise<number> {
    await this.#foldAll();
    return this.#backups.open();
  }

  async #foldAll(): Promise<void> {
    while (this.#fold !== undefined && !this.#isOver) await this.#foldNext();
    this.#isFoldWanted = true;
    do await this.#foldNext();
    while (this.#fold !== undefined && !this.#isOver);
  }

  // ---- the end

  /** Everything is committed: the next owner may go on at once. */
  async #close(call: number): Promise<void> {
    this.#stop();
    this.#backups.closeAll();
    await this.#database.end();
    try {
      await this.#lease.release();
    } catch (error) {
      this.#options.log.warn(
        `the namespace could not be handed over (${this.#database.wordsOf(error)}): its lease ends by itself`,
      );
    }
    this.#receiver?.receive({ kind: 'answer', call, answer: undefined });
  }
}
