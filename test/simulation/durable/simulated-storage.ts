/**
 * The shipped commit queue, port of rings and commit server in one thread, over a state store whose disk and tables
 * fail. The simulation decides when a turn ends, when the server has a round, and when the main thread gets its
 * results.
 */
import { receiveMessageOnPort } from 'node:worker_threads';
import { ServerError } from '../../../kernel/index.ts';
import { CommitQueue } from '../../../subsystems/storage/commit-queue.ts';
import { CommitServer } from '../../../subsystems/storage/commit-server.ts';
import { createStorageEnds, RingPort } from '../../../subsystems/storage/ring-port.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import { carried, type FromStorage, type StorageEnd } from '../../../subsystems/storage/storage-wire.ts';
import { type Mistake, PlantedPort } from './planted-port.ts';

export interface SimulatedStorageOptions {
  /** A power of two; as shipped unless said otherwise. */
  readonly ringBytes?: number;
  /** A planted bug between the queue and its port. */
  readonly mistake?: Mistake;
}

export class SimulatedStorage extends CommitQueue {
  readonly #turn: { seal: (() => void) | undefined };
  readonly #port: SimulatedPort;
  readonly #planted: PlantedPort | undefined;
  readonly #far: StorageEnd;
  readonly #server: CommitServer;
  #hasMore = false;
  /** The storage thread has ended with an error; the main thread may not know yet. */
  #isDead = false;

  constructor(store: StateStore, { mistake, ringBytes }: SimulatedStorageOptions = {}) {
    const { near, far } = createStorageEnds(ringBytes);
    const port = new SimulatedPort(near);
    const planted = mistake === undefined ? undefined : new PlantedPort(port, mistake);
    const turn: { seal: (() => void) | undefined } = { seal: undefined };
    const onFailure = (error: Error): never => {
      throw error;
    };
    super(planted ?? port, { onFailure, atTurnsEnd: (seal) => void (turn.seal = seal) });
    this.#turn = turn;
    this.#port = port;
    this.#planted = planted;
    this.#far = far;
    this.#server = new CommitServer(far, store);
    void this.open();
  }

  // ---- decisions of the simulation

  get canSeal(): boolean {
    return this.#turn.seal !== undefined;
  }

  /** Ends a turn of the main thread's event loop. */
  seal(): void {
    const { seal } = this.#turn;
    this.#turn.seal = undefined;
    seal?.();
  }

  get canWork(): boolean {
    const hasMore = this.#server.hasMore || this.#hasMore || this.#server.isWaitingForDisk;
    return !this.#isDead && (hasMore || this.#planted?.hasWaiting === true);
  }

  /**
   * Runs one round of the storage thread: takes up to `many` messages, commits, answers, brings a slice into the
   * tables.
   */
  work(many: number): void {
    this.#planted?.arrive();
    try {
      let left = many;
      if (left > 0) this.#server.take(() => --left <= 0);
      this.#hasMore = this.#server.round();
    } catch (error) {
      this.#die(error);
    }
    this.#port.fetch();
  }

  /** Ends the storage thread with its error; a crash ends everything at once. */
  #die(error: unknown): void {
    if (!(error instanceof ServerError)) throw error;
    this.#isDead = true;
    this.#far.port.postMessage({ kind: 'failed', error: carried(error) } satisfies FromStorage);
  }

  get canTell(): boolean {
    return this.#port.hasDurable;
  }

  /** Releases the answers that waited for units which are durable now. */
  tell(): void {
    this.#port.tellDurable();
  }

  get canAnswer(): boolean {
    return this.#port.answers.length > 0;
  }

  /** Answers the oldest request. */
  answer(): void {
    this.#port.answer();
  }

  /** Brings everything into the tables at once and releases the directory. */
  override async close(): Promise<void> {
    const closed = super.close();
    while (!this.#isDead && !this.#server.isClosing) {
      this.work(Number.POSITIVE_INFINITY);
      // The round may have made room for the rest.
      this.tell();
    }
    if (!this.#isDead) await this.#server.close(() => Promise.resolve()).catch((error: unknown) => this.#die(error));
    this.#port.fetch();
    while (this.canAnswer) this.answer();
    await closed;
  }

  /** Ends the port: the process is gone. */
  abandon(): void {
    void this.#port.end();
  }
}

/** Lets the main thread have answers one by one. */
class SimulatedPort extends RingPort {
  readonly answers: FromStorage[] = [];

  override open(receiver: Parameters<RingPort['open']>[0]): void {
    super.open(receiver);
    this.fetch();
    this.answer();
  }

  /** Takes over the server's messages. */
  fetch(): void {
    for (let said = receiveMessageOnPort(this.port); said !== undefined; said = receiveMessageOnPort(this.port)) {
      this.answers.push(said.message as FromStorage);
    }
  }

  answer(): void {
    const said = this.answers.shift();
    if (said !== undefined) this.receiver?.receive(said);
  }
}
