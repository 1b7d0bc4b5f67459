/** The commit queue of a server with a state directory, which a thread of its own writes to. */
import { receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { ServerError } from '../../kernel/index.ts';
import type { BaseStream, TakeAnswer, UnitSource, UnitTaker } from '../archive/index.ts';
import { EarlyWake } from '../threads/index.ts';
import { CommitQueue, type StorageReceiver } from './commit-queue.ts';
import { FORMAT } from './format-steps.ts';
import type { TablesKind } from './open-tables.ts';
import { createStorageEnds, RingPort } from './ring-port.ts';
import type { ActorUnits, StoredImage } from './index.ts';
import { type FromStorageThread, OPEN, ROUSED_US, type StorageEnd, type StorageThreadOptions } from './storage-wire.ts';

interface ThreadedStorageOptions {
  readonly directory: string;
  /** Store of the tables; undefined: the one that the directory has, or that the platform takes. */
  readonly tables?: TablesKind | undefined;
  /** True if a commit waits for the disk. */
  readonly isSynced: boolean;
  /** Who takes each unit. */
  readonly takers?: readonly UnitTaker[];
  /** The state can no longer be written: the process must end, and nothing must leave it. */
  readonly onFailure: (error: ServerError) => void;
  /** Called with what an operator should know of the directory. */
  readonly onWarning: (message: string) => void;
  /** Called with a choice that an operator has not made. */
  readonly onNote?: (message: string) => void;
}

/** With V8's 48 MB the buffers of many thousand units and answers lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

export class ThreadedStorage extends CommitQueue {
  readonly #port: ThreadPort;
  readonly directory: string;
  readonly stateFormat: number = FORMAT;
  readonly #closings: (() => Promise<void>)[] = [];

  constructor(options: ThreadedStorageOptions) {
    const port = new ThreadPort(options);
    super(port, options);
    this.#port = port;
    this.directory = options.directory;
  }

  // ---- what others take

  get units(): UnitSource {
    return new TakenFrom(this, 'archive');
  }

  get actorUnits(): ActorUnits {
    return new TakenFrom(this, 'timeline');
  }

  takeFor(taker: UnitTaker, archived: number): Promise<TakeAnswer> {
    return this.askArchive({ kind: 'takeUnits', taker, archived });
  }

  async base(): Promise<BaseStream> {
    const backup = await this.openBackup();
    const place = await this.askArchive({ kind: 'placeOfBackup', backup });
    return { ...place, pieces: this.piecesOf(backup) };
  }

  image(id: Uint8Array): Promise<StoredImage> {
    return this.askArchive({ kind: 'image', id });
  }

  /** Has `waiting` called when a whole segment waits for that taker. */
  onWaitingFor(taker: UnitTaker, waiting: () => void): void {
    this.#port.unitsWait.set(taker, waiting);
  }

  onClosing(closing: () => Promise<void>): void {
    this.#closings.push(closing);
  }

  protected override beforeClose(): Promise<void> | undefined {
    if (this.#closings.length === 0) return undefined;
    return this.settled().then(async () => {
      await Promise.all(this.#closings.map((closing) => closing()));
    });
  }

  /** Starts the thread, which loads its code and touches nothing: `open` may follow, or `close`. */
  prepare(): void {
    this.#port.start();
  }
}

/** Units of a storage for one who takes them. */
class TakenFrom implements UnitSource, ActorUnits {
  readonly #storage: ThreadedStorage;
  readonly #taker: UnitTaker;

  constructor(storage: ThreadedStorage, taker: UnitTaker) {
    this.#storage = storage;
    this.#taker = taker;
  }

  get stateFormat(): number {
    return this.#storage.stateFormat;
  }

  get directory(): string {
    return this.#storage.directory;
  }

  get durable(): number {
    return this.#storage.durable;
  }

  take(archived: number): Promise<TakeAnswer> {
    return this.#storage.takeFor(this.#taker, archived);
  }

  base(): Promise<BaseStream> {
    return this.#storage.base();
  }

  image(id: Uint8Array): Promise<StoredImage> {
    return this.#storage.image(id);
  }

  module(hash: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#storage.get('module', hash);
  }

  onWaiting(waiting: () => void): void {
    this.#storage.onWaitingFor(this.#taker, waiting);
  }

  onClosing(closing: () => Promise<void>): void {
    this.#storage.onClosing(closing);
  }
}

class ThreadPort extends RingPort {
  readonly #far: StorageEnd;
  readonly #early: EarlyWake;
  readonly #options: Omit<ThreadedStorageOptions, 'onFailure'>;
  /** Callbacks for segments that wait. */
  readonly unitsWait = new Map<UnitTaker, () => void>();
  #worker: Worker | undefined;
  /** Reason why the thread has ended before there was a receiver to be told. */
  #ended: string | undefined;

  constructor(options: Omit<ThreadedStorageOptions, 'onFailure'>) {
    const { near, far } = createStorageEnds();
    super(near);
    this.#far = far;
    this.#early = new EarlyWake(this.inbox, ROUSED_US / 1000);
    this.#options = options;
  }

  /** Lets the thread open the directory; without `start` before, it is started now. */
  override open(receiver: StorageReceiver): void {
    super.open(receiver);
    const worker = this.start();
    worker.ref();
    this.port.on('message', (message: FromStorageThread) => this.#receive(message));
    this.outbox.listen(() => {
      this.tellDurable();
      return false;
    });
    const ended = this.#ended;
    if (ended !== undefined) setImmediate(() => this.#fail(ended));
    worker.postMessage(OPEN);
  }

  /** Starts the thread, once. It does not keep the process alive. */
  start(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const { directory, tables, isSynced, takers = [] } = this.#options;
    const workerData: StorageThreadOptions = { end: this.#far, directory, tables, isSynced, takers };
    const worker = new Worker(new URL('./storage-thread.ts', import.meta.url), {
      workerData,
      transferList: [this.#far.port],
      name: 'storage',
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB_MAX },
    });
    worker.unref();
    worker.on('error', (error) => this.#fail(String(error)));
    worker.on('exit', () => {
      // The thread may have sent messages that are not read yet.
      for (let said = receiveMessageOnPort(this.port); said !== undefined; said = receiveMessageOnPort(this.port)) {
        this.#receive(said.message as FromStorageThread);
      }
      this.#fail('the storage thread has ended');
    });
    this.#worker = worker;
    return worker;
  }

  expect(): void {
    this.#early.expect();
  }

  override publish(): void {
    this.#early.comes();
    super.publish();
  }

  #receive(message: FromStorageThread): void {
    if (message.kind === 'warning') {
      this.#options.onWarning(message.text);
      return;
    }
    if (message.kind === 'note') {
      this.#options.onNote?.(message.text);
      return;
    }
    if (message.kind === 'unitsWait') {
      this.unitsWait.get(message.taker)?.();
      return;
    }
    this.receiver?.receive(message);
    if (message.kind !== 'opened') return;
    // The listener keeps the process alive while it serves; a thread alone is no reason to.
    this.#worker?.unref();
    this.port.unref();
  }

  #fail(message: string): void {
    this.#ended ??= message;
    this.receiver?.receive({ kind: 'failed', error: { kind: 'unavailable', code: 'storage-failed', message } });
  }

  override async end(): Promise<void> {
    await this.#worker?.terminate();
    await super.end();
  }
}
