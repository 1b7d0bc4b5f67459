/** The commit queue of a server with a state directory, which a thread of its own writes to. */
import { receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { ServerError } from '../../kernel/index.ts';
import { CommitQueue, type StorageReceiver } from './commit-queue.ts';
import { createStorageEnds, RingPort } from './ring-port.ts';
import type { FromStorage, StorageEnd, StorageThreadOptions } from './storage-wire.ts';

export interface ThreadedStorageOptions {
  readonly directory: string;
  /** Whether a commit waits for the disk. */
  readonly isSynced: boolean;
  /** The state can no longer be written: the process must end, and nothing must leave it. */
  readonly onFailure: (error: ServerError) => void;
}

/** With V8's 48 MB the buffers of many thousand units and answers lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

export class ThreadedStorage extends CommitQueue {
  constructor({ directory, isSynced, onFailure }: ThreadedStorageOptions) {
    super(new ThreadPort(directory, isSynced), { onFailure });
  }
}

class ThreadPort extends RingPort {
  readonly #far: StorageEnd;
  readonly #directory: string;
  readonly #isSynced: boolean;
  #worker: Worker | undefined;

  constructor(directory: string, isSynced: boolean) {
    const { near, far } = createStorageEnds();
    super(near);
    this.#far = far;
    this.#directory = directory;
    this.#isSynced = isSynced;
  }

  /** Starts the thread. */
  override open(receiver: StorageReceiver): void {
    super.open(receiver);
    const workerData: StorageThreadOptions = { end: this.#far, directory: this.#directory, isSynced: this.#isSynced };
    const worker = new Worker(new URL('./storage-thread.ts', import.meta.url), {
      workerData,
      transferList: [this.#far.port],
      name: 'storage',
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB_MAX },
    });
    this.#worker = worker;
    this.port.on('message', (message: FromStorage) => this.#receive(message));
    worker.on('error', (error) => this.#fail(String(error)));
    worker.on('exit', () => {
      // It may have said something that is not read yet.
      for (let said = receiveMessageOnPort(this.port); said !== undefined; said = receiveMessageOnPort(this.port)) {
        this.#receive(said.message as FromStorage);
      }
      this.#fail('the storage thread has ended');
    });
    this.outbox.listen(() => this.tellDurable());
  }

  #receive(message: FromStorage): void {
    this.receiver?.receive(message);
    if (message.kind !== 'opened') return;
    // The listener keeps the process alive while it serves; a thread alone is no reason to.
    this.#worker?.unref();
    this.port.unref();
  }

  #fail(message: string): void {
    this.receiver?.receive({ kind: 'failed', error: { kind: 'unavailable', code: 'storage-failed', message } });
  }

  override async end(): Promise<void> {
    await this.#worker?.terminate();
    await super.end();
  }
}
