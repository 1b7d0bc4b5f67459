/**
 * The main thread's end of the storage thread: collects units, hands them over once a turn, and lets go what waited for
 * them when they are durable.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { type ErrorKind, ServerError } from '../../kernel/index.ts';
import { createRing, RingConsumer, RingProducer } from '../threads/index.ts';
import type { Storage, StorageFigures, StoredCanister } from './index.ts';
import {
  type CarriedError,
  DURABLE,
  type FromStorage,
  INLINE_BYTES_MAX,
  MESSAGE,
  RING_BYTES,
  type StorageAnswers,
  type StorageRequest,
  type StorageThreadOptions,
  type ToStorage,
  UNIT,
} from './storage-wire.ts';
import type { Entry, Family } from './tables.ts';
import { Waiters } from './waiters.ts';
import { WriteSet } from './write-set.ts';

export interface ThreadedStorageOptions {
  readonly directory: string;
  /** Whether a commit waits for the disk. */
  readonly isSynced: boolean;
  /** The state can no longer be written: the process must end, and nothing must leave it. */
  readonly onFailure: (error: ServerError) => void;
}

interface Asked {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
}

/** Deletes what never was: a unit that says nothing, for those who wait for it. */
const NOTHING_KEY = Buffer.from('nothing');
/** With V8's 48 MB the buffers of many thousand units and answers lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

export class ThreadedStorage implements Storage {
  readonly isKept = true;
  readonly unit = new WriteSet();
  current = 0;
  durable = 0;
  readonly #options: ThreadedStorageOptions;
  readonly #waiters = new Waiters();
  readonly #writers: ((unit: WriteSet) => void)[] = [];
  readonly #asked = new Map<number, Asked>();
  #calls = 0;
  #isSealDue = false;
  #worker: Worker | undefined;
  #port: MessagePort | undefined;
  #inbox: RingProducer | undefined;
  /** What did not fit into the ring, in order. */
  #spilled: ToStorage[] = [];
  #isClosed = false;
  #opening: PromiseWithResolvers<void> | undefined;

  constructor(options: ThreadedStorageOptions) {
    this.#options = options;
  }

  /** Starts the thread; resolves when the state is open. Rejects with the ServerError that says why it cannot be. */
  async open(): Promise<void> {
    const channel = new MessageChannel();
    const inbox = createRing(RING_BYTES);
    const outbox = createRing(64 * 1024);
    const { directory, isSynced } = this.#options;
    const workerData: StorageThreadOptions = { inbox, outbox, port: channel.port2, directory, isSynced };
    this.#inbox = new RingProducer(inbox);
    this.#port = channel.port1;
    const worker = new Worker(new URL('./storage-thread.ts', import.meta.url), {
      workerData,
      transferList: [channel.port2],
      name: 'storage',
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB_MAX },
    });
    this.#worker = worker;
    const opening = Promise.withResolvers<void>();
    this.#opening = opening;
    channel.port1.on('message', (message: FromStorage) => this.#receive(message));
    worker.on('error', (error) => this.#fail(new ServerError('unavailable', 'storage-failed', String(error))));
    worker.on('exit', () => {
      if (!this.#isClosed) this.#fail(new ServerError('unavailable', 'storage-failed', 'the storage thread has ended'));
    });
    const durable = new RingConsumer(outbox);
    const drain = (): void =>
      void durable.drain((type, at) => {
        if (type === DURABLE) this.durable = Number(durable.longs[at >> 3] ?? 0n);
      });
    durable.listen(() => {
      drain();
      this.#waiters.release(this.durable);
      if (this.#spilled.length > 0) this.#refill();
    });
    await opening.promise;
    // The listener keeps the process alive while it serves; a thread alone is no reason to.
    worker.unref();
    channel.port1.unref();
  }

  // ---- units

  touch(): void {
    if (this.#isSealDue) return;
    this.#isSealDue = true;
    setImmediate(this.#seal);
  }

  beforeSeal(write: (unit: WriteSet) => void): void {
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
    if (unit.length === 0) unit.delete('meta', NOTHING_KEY);
    this.current++;
    if (this.#spilled.length > 0 || !this.#writeInline(unit)) this.#post({ kind: 'unit', unit: unit.take() });
    else unit.reset();
    this.#inbox?.publish();
  };

  #writeInline(unit: WriteSet): boolean {
    const ring = this.#inbox;
    if (ring === undefined || unit.length > INLINE_BYTES_MAX) return false;
    const at = ring.reserve(UNIT, unit.length);
    if (at < 0) return false;
    ring.bytes.set(unit.view(), at);
    return true;
  }

  #post(message: ToStorage): void {
    if (this.#spilled.length > 0 || !this.#mark(message)) this.#spilled.push(message);
  }

  /** False when the ring is full now. */
  #mark(message: ToStorage): boolean {
    if (this.#inbox === undefined || this.#inbox.reserve(MESSAGE, 0) < 0) return false;
    const transferred = message.kind === 'unit' ? [message.unit.buffer as ArrayBuffer] : [];
    this.#port?.postMessage(message, transferred);
    return true;
  }

  #refill(): void {
    const spilled = this.#spilled;
    this.#spilled = [];
    for (const message of spilled) this.#post(message);
    this.#inbox?.publish();
  }

  // ---- requests

  range(family: Family, prefix: Uint8Array): Promise<readonly Entry[]> {
    return this.#ask({ kind: 'range', family, prefix });
  }

  canister(id: Uint8Array): Promise<StoredCanister> {
    return this.#ask({ kind: 'canister', id });
  }

  figures(): Promise<StorageFigures> {
    return this.#ask({ kind: 'figures' });
  }

  async *backup(): AsyncIterable<Uint8Array> {
    // What was answered before is in it.
    await this.settled();
    const backup = await this.#ask({ kind: 'openBackup' });
    try {
      for (;;) {
        const piece = await this.#ask({ kind: 'nextPiece', backup });
        if (piece === undefined) return;
        yield piece;
      }
    } finally {
      if (!this.#isClosed) await this.#ask({ kind: 'closeBackup', backup });
    }
  }

  #ask<R extends StorageRequest>(request: R): Promise<StorageAnswers[R['kind']]> {
    if (this.#isClosed) {
      return Promise.reject(new ServerError('unavailable', 'storage-failed', 'the state directory is closed'));
    }
    const call = ++this.#calls;
    return new Promise((resolve, reject) => {
      this.#asked.set(call, { resolve, reject });
      const post = (): void => {
        this.#post({ kind: 'request', call, request });
        this.#inbox?.publish();
      };
      // What this turn has changed comes first.
      if (this.#isSealDue) setImmediate(post);
      else post();
    });
  }

  #receive(message: FromStorage): void {
    switch (message.kind) {
      case 'opened':
        this.durable = message.last;
        this.current = message.last + 1;
        this.#opening?.resolve();
        this.#opening = undefined;
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
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const asked of this.#asked.values()) asked.reject(error);
    this.#asked.clear();
    if (this.#opening === undefined) this.#options.onFailure(error);
    else this.#opening.reject(error);
  }

  /** Writes what is left, brings everything into the tables and lets the directory go. */
  async close(): Promise<void> {
    if (this.#isClosed || this.#worker === undefined || this.#opening !== undefined) {
      await this.#worker?.terminate();
      return;
    }
    // Also what nobody was in a hurry about (`beforeSeal`).
    this.touch();
    this.#seal();
    const closed = this.#ask({ kind: 'close' });
    // The thread ends by itself then, maybe before its answer is read.
    this.#isClosed = true;
    await closed;
    await this.#worker.terminate();
  }
}

function errorOf({ kind, code, message }: CarriedError): ServerError {
  return new ServerError(kind as ErrorKind, code, message);
}
