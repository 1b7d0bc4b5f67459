/**
 * The other end of a commit queue: takes units and requests, commits all units it has taken with one flush, answers
 * the requests after them, and in between brings durable units into the tables, slice by slice. It has no loop, no
 * clock for its decisions and no directory of its own: the storage thread runs it, and so does a simulator.
 *
 * A commit that fails throws: what is on disk then is not known, and only a new start finds out.
 */
import type { MessagePort } from 'node:worker_threads';
import { assert } from '../../kernel/index.ts';
import { receiveDue, RingConsumer, RingProducer } from '../threads/index.ts';
import { RequestServer } from './request-server.ts';
import type { StateStore } from './state-store.ts';
import type { UnitFeeds } from './unit-feed.ts';
import {
  type ArchiveMessage,
  type ArchiveRequest,
  DURABLE,
  type FromStorage,
  MESSAGE,
  ROUSED_US,
  type StorageEnd,
  type StorageRequest,
  type ToStorage,
  UNIT,
  type UnitPieces,
} from './storage-wire.ts';
import { bytesOf, type Unit } from './unit.ts';

/**
 * Bytes of units that one flush makes durable, exceeded by the last unit at most: a disk takes some tens of
 * milliseconds for them.
 */
const COMMIT_BYTES = 8 * 2 ** 20;

/** Milliseconds between two looks at what is written out. */
const DISK_LOOK_MS = 2;

interface Asked {
  readonly call: number;
  readonly request: StorageRequest | ArchiveRequest;
}

export class CommitServer {
  readonly #inbox: RingConsumer;
  readonly #outbox: RingProducer;
  readonly #port: MessagePort;
  readonly #store: StateStore;
  /** Units of this round, and requests to be answered after them. */
  #units: Unit[] = [];
  #unitBytes = 0;
  readonly #asked: Asked[] = [];
  readonly #requests: RequestServer;
  /** The request to close. */
  #closing: number | undefined;

  /** `feeds`: units for those who take them. */
  constructor({ inbox, outbox, port }: StorageEnd, store: StateStore, feeds?: UnitFeeds) {
    this.#inbox = new RingConsumer(inbox);
    this.#outbox = new RingProducer(outbox);
    this.#port = port;
    this.#store = store;
    this.#requests = new RequestServer(store, (message, given) => this.#send(message, given), feeds);
    this.#send({ kind: 'opened', last: store.last });
  }

  /** Something has arrived that was not taken. */
  get hasMore(): boolean {
    return this.#inbox.hasMore;
  }

  /** True while something is written out, which is told in a turn of the thread's event loop. */
  get isWaitingForDisk(): boolean {
    return this.#store.isWaitingForDisk;
  }

  /** Blocks the thread until something arrives, or for less if it was roused for something that then does not come. */
  wait(): void {
    if (this.isWaitingForDisk) {
      this.#inbox.waitFor(DISK_LOOK_MS);
      return;
    }
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
    const message = receiveDue(this.#port) as ToStorage | UnitPieces | ArchiveMessage;
    if (message.kind === 'unit') this.#addUnit(message.unit);
    else if (message.kind === 'pieces') this.#addUnit(message.pieces);
    else this.#asked.push(message);
  };

  #addUnit(unit: Unit): void {
    this.#units.push(unit);
    this.#unitBytes += bytesOf(unit);
  }

  /** Commits and answers what was taken, and does a slice of what can wait. True: there is more to do. */
  round(): boolean {
    if (this.#units.length > 0) this.#commit();
    this.#requests.readOn();
    for (const { call, request } of this.#asked.splice(0)) {
      if (request.kind === 'close') {
        this.#closing = call;
        while (this.#requests.isReading) this.#requests.readOn();
        return false;
      }
      this.#requests.answer(call, request);
    }
    return this.#store.settle() || this.#requests.isReading;
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

  /** The last round has come to the request to close: `close` is due. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Brings everything into the tables, closes the store, lets go by `release` what is beneath it, and answers that. */
  async close(release: () => Promise<void>): Promise<void> {
    assert(this.#closing !== undefined, 'nobody has asked to close');
    this.#store.fold();
    this.#requests.closeBackups();
    await this.#store.close();
    await release();
    this.#send({ kind: 'answer', call: this.#closing, answer: undefined });
  }

  #send(message: FromStorage, transferred: ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transferred);
  }
}
