/**
 * The other end of a commit queue: takes units and requests, commits all units it has taken with one flush, answers
 * the requests after them, and in between brings durable units into the tables, slice by slice. It has no loop, no
 * clock for its decisions and no directory of its own: the storage thread runs it, and so does a simulator.
 *
 * A commit that fails throws: what is on disk then is not known, and only a new start finds out.
 */
import type { MessagePort } from 'node:worker_threads';
import { assert, ServerError } from '../../kernel/index.ts';
import { receiveDue, RingConsumer, RingProducer } from '../threads/index.ts';
import { BackupReader } from './backup.ts';
import type { StoredCanister } from './index.ts';
import type { StateStore } from './state-store.ts';
import {
  carried,
  DURABLE,
  type FromStorage,
  MESSAGE,
  ROUSED_US,
  type StorageAnswers,
  type StorageEnd,
  type StorageRequest,
  type ToStorage,
  UNIT,
  type UnitPieces,
} from './storage-wire.ts';
import { buffersOf } from './stored-pages.ts';
import { bytesOf, type Unit } from './unit.ts';

/**
 * Bytes of units that one flush makes durable, exceeded by the last unit at most: a disk takes some tens of
 * milliseconds for them.
 */
const COMMIT_BYTES = 8 * 2 ** 20;

/** A request that is answered at once. */
type AnsweredRequest = Exclude<StorageRequest, { readonly kind: 'close' | 'openBackup' | 'canister' }>;

/** A canister that is read for who has asked for it. */
interface Reading {
  readonly call: number;
  readonly slices: Generator<undefined, StoredCanister>;
}

interface Asked<R extends StorageRequest = StorageRequest> {
  readonly call: number;
  readonly request: R;
}

export class CommitServer {
  readonly #inbox: RingConsumer;
  readonly #outbox: RingProducer;
  readonly #port: MessagePort;
  readonly #store: StateStore;
  /** Units of this round, and requests to be answered after them. */
  #units: Unit[] = [];
  #unitBytes = 0;
  readonly #requests: Asked[] = [];
  /** Canisters that are being read, a slice of one in each round. */
  readonly #readings: Reading[] = [];
  readonly #backups = new Map<number, BackupReader>();
  #backupsOpened = 0;
  /** The request to close. */
  #closing: number | undefined;

  constructor({ inbox, outbox, port }: StorageEnd, store: StateStore) {
    this.#inbox = new RingConsumer(inbox);
    this.#outbox = new RingProducer(outbox);
    this.#port = port;
    this.#store = store;
    this.#send({ kind: 'opened', last: store.last });
  }

  /** Something has arrived that was not taken. */
  get hasMore(): boolean {
    return this.#inbox.hasMore;
  }

  /** Blocks the thread until something arrives, or for less if it was roused for something that then does not come. */
  wait(): void {
    this.#inbox.wait();
    if (!this.#inbox.hasMore) this.#inbox.spin(ROUSED_US);
  }

  /**
   * Takes what has arrived, as far as one flush is to make it durable. After each message, `isEnough` may say that
   * the rest has to wait.
   */
  take(isEnough: () => boolean = () => false): void {
    this.#inbox.drain(this.#take, () => this.#unitBytes >= COMMIT_BYTES || isEnough());
  }

  readonly #take = (type: number, at: number, length: number): void => {
    if (type === UNIT) {
      this.#addUnit(this.#inbox.bytes.slice(at, at + length));
      return;
    }
    assert(type === MESSAGE, `a record of type ${type} for the storage thread`);
    const message = receiveDue(this.#port) as ToStorage | UnitPieces;
    if (message.kind === 'unit') this.#addUnit(message.unit);
    else if (message.kind === 'pieces') this.#addUnit(message.pieces);
    else this.#requests.push(message);
  };

  #addUnit(unit: Unit): void {
    this.#units.push(unit);
    this.#unitBytes += bytesOf(unit);
  }

  /** Commits and answers what was taken, and does a slice of what can wait. True: there is more to do. */
  round(): boolean {
    if (this.#units.length > 0) this.#commit();
    const reading = this.#readings.shift();
    if (reading !== undefined) this.#read(reading);
    for (const { call, request } of this.#requests.splice(0)) {
      if (request.kind === 'close') {
        this.#closing = call;
        for (let left = this.#readings.shift(); left !== undefined; left = this.#readings.shift()) this.#read(left);
        return false;
      }
      if (request.kind === 'openBackup') this.#openBackup(call);
      else if (request.kind === 'canister') this.#read({ call, slices: this.#store.readingCanister(request.id) });
      else this.#answer({ call, request });
    }
    return this.#store.settle() || this.#readings.length > 0;
  }

  #commit(): void {
    const startedMs = performance.now();
    const last = this.#store.commit(this.#units);
    this.#store.commitTook(performance.now() - startedMs);
    this.#units = [];
    this.#unitBytes = 0;
    const outbox = this.#outbox;
    let at = outbox.reserve(DURABLE, 8);
    while (at < 0) {
      outbox.waitForRoom();
      at = outbox.reserve(DURABLE, 8);
    }
    outbox.longs[at >> 3] = BigInt(last);
    outbox.publish();
  }

  /** Reads a slice. A small canister is one; of a large one commits and other reads come between them. */
  #read(reading: Reading): void {
    const { call, slices } = reading;
    try {
      const slice = slices.next();
      if (slice.done !== true) {
        this.#readings.push(reading);
        return;
      }
      const { memory, records } = slice.value;
      const buffers = [...buffersOf(memory.heap), ...buffersOf(memory.stable), records.bytes.buffer as ArrayBuffer];
      this.#send({ kind: 'answer', call, answer: slice.value }, buffers);
    } catch (error) {
      this.#refuse(call, error);
    }
  }

  #answer({ call, request }: Asked<AnsweredRequest>): void {
    try {
      const result = this.#answerTo(request);
      const transferred: ArrayBuffer[] = [];
      if (request.kind === 'values') transferred.push((result as StorageAnswers['values']).bytes.buffer as ArrayBuffer);
      if (request.kind === 'nextPiece' && result instanceof Uint8Array) transferred.push(result.buffer as ArrayBuffer);
      this.#send({ kind: 'answer', call, answer: result }, transferred);
    } catch (error) {
      this.#refuse(call, error);
    }
  }

  #refuse(call: number, error: unknown): void {
    if (!(error instanceof ServerError)) throw error;
    this.#send({ kind: 'refusal', call, error: carried(error) });
  }

  #answerTo(request: AnsweredRequest): unknown {
    switch (request.kind) {
      case 'range':
        return this.#store.range(request.family, request.prefix);
      case 'keys':
        return this.#store.keys(request.family, request.from);
      case 'get':
        return this.#store.get(request.family, request.key);
      case 'values':
        return this.#store.values(request.family, request.prefix);
      case 'figures':
        return this.#store.figures;
      case 'nextPiece': {
        const piece = this.#backups.get(request.backup)?.next();
        if (piece === undefined) this.#closeBackup(request.backup);
        return piece;
      }
      case 'closeBackup':
        this.#closeBackup(request.backup);
    }
    return undefined;
  }

  /** Answered when everything committed so far is in the tables. */
  #openBackup(call: number): void {
    this.#store.takeSnapshot((snapshot) => {
      this.#backups.set(++this.#backupsOpened, new BackupReader(snapshot));
      this.#send({ kind: 'answer', call, answer: this.#backupsOpened });
    });
  }

  #closeBackup(backup: number): void {
    this.#backups.get(backup)?.close();
    this.#backups.delete(backup);
  }

  /** The last round has come to the request to close: `close` is due. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Brings everything into the tables, closes the store, lets go by `release` what is beneath it, and answers that. */
  async close(release: () => Promise<void>): Promise<void> {
    assert(this.#closing !== undefined, 'nobody has asked to close');
    this.#store.fold();
    for (const backup of this.#backups.values()) backup.close();
    await this.#store.close();
    await release();
    this.#send({ kind: 'answer', call: this.#closing, answer: undefined });
  }

  #send(message: FromStorage, transferred: ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transferred);
  }
}
