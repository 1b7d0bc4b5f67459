/**
 * The main thread's end of storage: collects what one turn of the event loop changes, seals it as a unit, hands units
 * and requests in one order to whoever commits them, and releases what waited for a unit when the unit is durable.
 *
 * Whatever stands behind the queue, a thread or a simulator's substitute, the queue alone decides what is in a unit,
 * in which order units and requests go, and when waiting callers are called. A port only carries: it may copy small
 * units, hand over large ones, and have no room for a while. None of that changes the order, so no size does.
 */
import { type ErrorKind, ServerError } from '../../kernel/index.ts';
import type { AheadReader, PackedRecords, StorageFigures, StorageSupports, StoredCanister } from './index.ts';
import type { OpenableStorage } from './openable-storage.ts';
import type {
  ArchiveAnswers,
  ArchiveMessage,
  ArchiveRequest,
  CarriedError,
  FromStorage,
  KeyPage,
  StorageAnswers,
  StorageRequest,
  ToStorage,
  UnitPieces,
} from './storage-wire.ts';
import type { Entry, Family } from './tables.ts';
import { SpillLine } from '../threads/index.ts';
import { Waiters } from './waiters.ts';
import { joinPieces, WriteBatch } from './write-batch.ts';

/** The way to the committer of units. Messages that it takes arrive in the order in which they were taken, or never. */
export interface StoragePort {
  /** Begins; `receiver` is told what comes back. The first of it is the message `opened` or `failed`. */
  open(receiver: StorageReceiver): void;
  /** Takes a copy of a unit. False: it is too large for that, or there is no room now; nothing was taken. */
  copy(unit: Uint8Array): boolean;
  /** Takes a message, a unit's bytes for good. False: there is no room now; nothing was taken. */
  send(message: ToStorage): boolean;
  /**
   * Takes a large unit for good, in pieces of whole operations: in this order they are the unit, and each owns its
   * buffer. Returns false if there is no room now; then nothing was taken. Without this method the queue copies such
   * a unit together, which takes the main thread some tens of milliseconds for megabytes, and gives it to `send`.
   */
  sendPieces?(pieces: readonly Uint8Array[]): boolean;
  /** Takes a request of the archive, as `send` does; only the server's own storage is asked. */
  sendArchive?(message: ArchiveMessage): boolean;
  /** Has everything arrive that was taken since the last time: called once for a burst. */
  publish(): void;
  /** A unit is to come soon, as a rule: a hint, and nothing that is counted on. */
  expect?(): void;
  /** Ends the way, and the committer at its other end. */
  end(): Promise<void>;
}

/**
 * Receiver of what comes back by a port. After each call there may be room again. Units are numbered in the order in
 * which they were taken, beginning behind `last` of the message `opened`. Requests see all units that were taken
 * before them.
 */
export interface StorageReceiver {
  /** Reports that all units up to that one are durable. */
  durable(last: number): void;
  receive(message: FromStorage): void;
}

export interface CommitQueueOptions {
  /**
   * The state can no longer be written: the process must end, and nothing must leave it. A plugin throws the error
   * where nobody catches it (`setImmediate(() => { throw error; })`): the server logs it and ends with code 1.
   */
  readonly onFailure: (error: ServerError) => void;
  /** Calls `seal` when everything that belongs to this turn of the event loop has happened. */
  readonly atTurnsEnd?: (seal: () => void) => void;
}

interface Asked {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
}

/** Messages on their way to the committer. */
type Outgoing = ToStorage | UnitPieces | ArchiveMessage;

/** Deletes what never was: a unit that says nothing, for those who wait for it. */
const NOTHING_KEY = Buffer.from('nothing');

export class CommitQueue implements OpenableStorage {
  readonly supports: StorageSupports = { heldUnits: true, readAhead: false };
  readonly isKept = true;
  readonly unit: WriteBatch = new WriteBatch();
  current = 0;
  durable = 0;
  readonly #port: StoragePort;
  readonly #onFailure: (error: ServerError) => void;
  readonly #atTurnsEnd: (seal: () => void) => void;
  readonly #waiters = new Waiters();
  readonly #writers: ((unit: WriteBatch) => void)[] = [];
  readonly #asked = new Map<number, Asked>();
  #calls = 0;
  #isSealDue = false;
  /** Number of holders that have not told yet all that belongs to the unit. */
  #holds = 0;
  /** Requests of a turn whose unit is not sealed yet: what the turn has changed comes first. */
  readonly #held: (ToStorage | ArchiveMessage)[] = [];
  readonly #outgoing = new SpillLine<Outgoing>((message) => this.#send(message));
  #state: 'new' | 'opening' | 'open' | 'closing' | 'closed' = 'new';
  readonly #opening = Promise.withResolvers<void>();

  constructor(port: StoragePort, { onFailure, atTurnsEnd = (seal) => void setImmediate(seal) }: CommitQueueOptions) {
    this.#port = port;
    this.#onFailure = onFailure;
    this.#atTurnsEnd = atTurnsEnd;
  }

  open(): Promise<void> {
    this.#state = 'opening';
    this.#port.open({
      durable: (last) => {
        this.durable = last;
        this.#waiters.release(last);
        this.#refill();
      },
      receive: (message) => {
        this.#receive(message);
        this.#refill();
      },
    });
    return this.#opening.promise;
  }

  // ---- units

  expectUnit(): void {
    this.#port.expect?.();
  }

  markDirty(): void {
    if (this.#isSealDue) return;
    this.#isSealDue = true;
    this.#atTurnsEnd(this.#seal);
  }

  holdUnit(): () => void {
    this.markDirty();
    this.#holds++;
    return () => void this.#holds--;
  }

  /** A queue has its state for itself. */
  readAhead(_family: Family, _reader: AheadReader): void {}

  onSeal(write: (unit: WriteBatch) => void): void {
    this.#writers.push(write);
  }

  whenDurable(unit: number, callback: () => void): void {
    if (unit <= this.durable) callback();
    else this.#waiters.add(unit, callback);
  }

  get newest(): number {
    return this.#isSealDue ? this.current : this.current - 1;
  }

  settled(): Promise<void> {
    const { newest } = this;
    if (newest <= this.durable) return Promise.resolve();
    return new Promise((resolve) => this.whenDurable(newest, resolve));
  }

  readonly #seal = (): void => {
    if (!this.#isSealDue) return;
    this.#isSealDue = false;
    const { unit } = this;
    for (const write of this.#writers) write(unit);
    // Changes of this turn are in the unit now, so that no turn has all of them to write.
    if (this.#holds > 0) {
      this.markDirty();
      return;
    }
    if (unit.length === 0) unit.delete('meta', NOTHING_KEY);
    this.current++;
    const small = this.#outgoing.isEmpty ? unit.view() : undefined;
    if (small !== undefined && this.#port.copy(small)) unit.reset();
    else this.#outgoing.send(this.#carried(unit.takePieces()));
    if (this.#held.length > 0) for (const request of this.#held.splice(0)) this.#outgoing.send(request);
    this.#port.publish();
  };

  #send(message: Outgoing): boolean {
    if (message.kind === 'pieces') return this.#port.sendPieces?.(message.pieces) === true;
    if (message.kind === 'archive') return this.#port.sendArchive?.(message) === true;
    return this.#port.send(message);
  }

  #carried(pieces: readonly Uint8Array[]): ToStorage | UnitPieces {
    const isInPieces = pieces.length > 1 && this.#port.sendPieces !== undefined;
    return isInPieces ? { kind: 'pieces', pieces } : { kind: 'unit', unit: joinPieces(pieces) };
  }

  #refill(): void {
    if (this.#outgoing.refill()) this.#port.publish();
  }

  // ---- requests

  range(family: Family, prefix: Uint8Array): Promise<readonly Entry[]> {
    return this.#ask({ kind: 'range', family, prefix });
  }

  async *keys(family: Family): AsyncIterable<readonly Uint8Array[]> {
    for (let from: Uint8Array | undefined = new Uint8Array(0); from !== undefined;) {
      const { keys, next }: KeyPage = await this.#ask({ kind: 'keys', family, from });
      yield keys;
      from = next;
    }
  }

  get(family: Family, key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#ask({ kind: 'get', family, key });
  }

  values(family: Family, prefix: Uint8Array): Promise<PackedRecords> {
    return this.#ask({ kind: 'values', family, prefix });
  }

  canister(id: Uint8Array): Promise<StoredCanister> {
    return this.#ask({ kind: 'canister', id });
  }

  figures(): Promise<StorageFigures> {
    return this.#ask({ kind: 'figures' });
  }

  async *backup(): AsyncIterable<Uint8Array> {
    yield* this.piecesOf(await this.openBackup());
  }

  protected async openBackup(): Promise<number> {
    // Changes that were answered before are in the backup.
    await this.settled();
    return this.#ask({ kind: 'openBackup' });
  }

  protected async *piecesOf(backup: number): AsyncIterable<Uint8Array> {
    try {
      for (;;) {
        const piece = await this.#ask({ kind: 'nextPiece', backup });
        if (piece === undefined) return;
        yield piece;
      }
    } finally {
      if (this.#state === 'open') await this.#ask({ kind: 'closeBackup', backup });
    }
  }

  #ask<R extends StorageRequest>(request: R): Promise<StorageAnswers[R['kind']]> {
    return this.#askBy((call) => ({ kind: 'request', call, request }));
  }

  /** Asks a port that has `sendArchive`. */
  protected askArchive<R extends ArchiveRequest>(request: R): Promise<ArchiveAnswers[R['kind']]> {
    return this.#askBy((call) => ({ kind: 'archive', call, request }));
  }

  #askBy<T>(messageOf: (call: number) => ToStorage | ArchiveMessage): Promise<T> {
    if (this.#state === 'closing' || this.#state === 'closed') {
      return Promise.reject(new ServerError('unavailable', 'storage-failed', 'the state directory is closed'));
    }
    const call = ++this.#calls;
    return new Promise((resolve, reject) => {
      this.#asked.set(call, { resolve, reject });
      const message = messageOf(call);
      if (this.#isSealDue) {
        this.#held.push(message);
        return;
      }
      this.#outgoing.send(message);
      this.#port.publish();
    });
  }

  #receive(message: FromStorage): void {
    switch (message.kind) {
      case 'opened':
        this.durable = message.last;
        this.current = message.last + 1;
        this.#state = 'open';
        this.#opening.resolve();
        return;
      case 'failed':
        this.#fail(errorOf(message.error));
        return;
      case 'answer':
      case 'refusal': {
        const asked = this.#asked.get(message.call);
        this.#asked.delete(message.call);
        if (message.kind === 'answer') asked?.resolve(message.answer as never);
        else asked?.reject(errorOf(message.error));
      }
    }
  }

  #fail(error: ServerError): void {
    const before = this.#state;
    this.#state = 'closed';
    // Before anybody goes on because of it.
    if (before === 'open') this.#onFailure(error);
    else if (before === 'opening') this.#opening.reject(error);
    for (const asked of this.#asked.values()) asked.reject(error);
    this.#asked.clear();
  }

  /** Returns what is to end when the last unit was handed over, while the storage still answers. */
  protected beforeClose(): Promise<void> | undefined {
    return undefined;
  }

  async close(): Promise<void> {
    if (this.#state === 'open') {
      // Also what nobody was in a hurry about (`onSeal`).
      this.markDirty();
      this.#seal();
      const last = this.beforeClose();
      if (last !== undefined) await last;
      const closed = this.#ask({ kind: 'close' });
      this.#state = 'closing';
      try {
        await closed;
      } finally {
        this.#state = 'closed';
        await this.#port.end();
      }
    } else if (this.#state !== 'closing') await this.#port.end();
  }
}

function errorOf({ kind, code, message }: CarriedError): ServerError {
  return new ServerError(kind as ErrorKind, code, message);
}
