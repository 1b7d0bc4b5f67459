/** The commit queue of a server with a state directory, which a thread of its own writes to. */
import { receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { ServerError } from '../../kernel/index.ts';
import type { BaseStream, TakeAnswer, UnitSource } from '../archive/index.ts';
import { EarlyWake } from '../threads/index.ts';
import { CommitQueue, type StorageReceiver } from './commit-queue.ts';
import { FORMAT } from './format-steps.ts';
import type { TablesKind } from './open-tables.ts';
import { createStorageEnds, RingPort } from './ring-port.ts';
import { type FromStorageThread, OPEN, ROUSED_US, type StorageEnd, type StorageThreadOptions } from './storage-wire.ts';

interface ThreadedStorageOptions {
  readonly directory: string;
  /** Store of the tables; undefined: the one that the directory has, or that the platform takes. */
  readonly tables?: TablesKind | undefined;
  /** True if a commit waits for the disk. */
  readonly isSynced: boolean;
  /** True if there is an archive, which takes each unit. */
  readonly isArchived?: boolean;
  /** The state can no longer be written: the process must end, and nothing must leave it. */
  readonly onFailure: (error: ServerError) => void;
  /** Called with what an operator should know of the directory. */
  readonly onWarning: (message: string) => void;
  /** Called with a choice that an operator has not made. */
  readonly onNote?: (message: string) => void;
}

/** With V8's 48 MB the buffers of many thousand units and answers lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

export class ThreadedStorage extends CommitQueue implements UnitSource {
  readonly #port: ThreadPort;
  readonly directory: string;
  readonly stateFormat: number = FORMAT;
  #closing: (() => Promise<void>) | undefined;

  constructor(options: ThreadedStorageOptions) {
    const port = new ThreadPort(options);
    super(port, options);
    this.#port = port;
    this.directory = options.directory;
  }

  // ---- what the archive takes

  get units(): UnitSource {
    return this;
  }

  take(archived: number): Promise<TakeAnswer> {
    return this.askArchive({ kind: 'takeUnits', archived });
  }

  async base(): Promise<BaseStream> {
    const backup = await this.openBackup();
    const place = await this.askArchive({ kind: 'placeOfBackup', backup });
    return { ...place, pieces: this.piecesOf(backup) };
  }

  onWaiting(waiting: () => void): void {
    this.#port.onUnitsWait = waiting;
  }

  onClosing(closing: () => Promise<void>): void {
    this.#closing = closing;
  }

  protected override beforeClose(): Promise<void> | undefined {
    const closing = this.#closing;
    return closing && this.settled().then(closing);
  }

  /** Starts the thread, which loads its code and touches nothing: `open` may follow, or `close`. */
  prepare(): void {
    this.#port.start();
  }
}

class ThreadPort extends RingPort {
  readonly #far: StorageEnd;
  readonly #early: EarlyWake;
  readonly #options: Omit<ThreadedStorageOptions, 'onFailure'>;
  /** Hears that a segment of the archive waits. */
  onUnitsWait: (() => void) | undefined;
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
    const { directory, tables, isSynced, isArchived = false } = this.#options;
    const workerData: StorageThreadOptions = { end: this.#far, directory, tables, isSynced, isArchived };
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
      this.onUnitsWait?.();
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
