/**
 * The real state store in this thread, over a disk and tables that fail: what the storage thread does, when the simulation
 * says so. Units and requests wait in its inbox in the order they were handed over; what is durable, and what was asked for,
 * reach the main thread later, and not in each other's order.
 */
import { ServerError } from '../../../kernel/index.ts';
import type { Entry, Family, Storage, StorageFigures, StoredCanister } from '../../../subsystems/storage/index.ts';
import { WriteSet } from '../../../subsystems/storage/index.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import { Waiters } from '../../../subsystems/storage/waiters.ts';

type Message =
  | { readonly kind: 'unit'; readonly unit: Uint8Array }
  | { readonly kind: 'request'; readonly answer: (store: StateStore) => () => void };

export interface SimulatedStorageOptions {
  /** Sees a sealed unit, and may put several in its place: whoever does so plants a bug. */
  readonly onSeal?: (unit: Uint8Array) => readonly Uint8Array[];
  /** Tells of units as durable when they are handed over: a planted bug. */
  readonly isHasty?: boolean;
}

/** What never was is deleted: as the real one does. */
const NOTHING_KEY = Buffer.from('nothing');

export class SimulatedStorage implements Storage {
  readonly isKept = true;
  readonly unit = new WriteSet();
  current: number;
  durable: number;
  readonly #store: StateStore;
  readonly #options: SimulatedStorageOptions;
  readonly #waiters = new Waiters();
  readonly #writers: ((unit: WriteSet) => void)[] = [];
  readonly #inbox: Message[] = [];
  /** Asked for in a turn whose unit is not sealed yet. */
  readonly #asked: Message[] = [];
  /** Numbers of durable units that the main thread has not been told. */
  readonly #told: number[] = [];
  readonly #answers: (() => void)[] = [];
  #isSealDue = false;
  #hasMore = false;
  /** Of units handed over, more than sealed if a bug is planted. */
  #extra = 0;

  constructor(store: StateStore, options: SimulatedStorageOptions = {}) {
    this.#store = store;
    this.#options = options;
    this.durable = store.last;
    this.current = store.last + 1;
  }

  // ---- what the simulation decides

  get canSeal(): boolean {
    return this.#isSealDue;
  }

  /** The end of a turn of the main thread's event loop. */
  seal(): void {
    if (!this.#isSealDue) return;
    this.#isSealDue = false;
    const { unit } = this;
    for (const write of this.#writers) write(unit);
    if (unit.length === 0) unit.delete('meta', NOTHING_KEY);
    const sealed = unit.take();
    const units = this.#options.onSeal?.(sealed) ?? [sealed];
    for (const each of units) this.#inbox.push({ kind: 'unit', unit: each });
    this.#extra += units.length - 1;
    this.#inbox.push(...this.#asked.splice(0));
    if (this.#options.isHasty === true) this.#told.push(this.current);
    this.current++;
  }

  get canWork(): boolean {
    return this.#inbox.length > 0 || this.#hasMore;
  }

  /** One round of the storage thread: takes so many messages, commits, answers, brings a slice into the tables. */
  work(many: number): void {
    const messages = this.#inbox.splice(0, many);
    const units = messages.filter((message) => message.kind === 'unit').map(({ unit }) => unit);
    if (units.length > 0) {
      const last = this.#store.commit(units);
      if (this.#options.isHasty !== true) this.#told.push(Math.min(last - this.#extra, this.current - 1));
    }
    for (const message of messages) {
      if (message.kind === 'request') this.#answers.push(message.answer(this.#store));
    }
    this.#hasMore = this.#store.settle();
  }

  get canTell(): boolean {
    return this.#told.length > 0;
  }

  /** Lets go what waited for units that are durable now. */
  tell(): void {
    for (const last of this.#told.splice(0)) this.durable = Math.max(this.durable, last);
    this.#waiters.release(this.durable);
  }

  get canAnswer(): boolean {
    return this.#answers.length > 0;
  }

  /** Answers the oldest request. */
  answer(): void {
    this.#answers.shift()?.();
  }

  // ---- Storage

  get newest(): number {
    return this.#isSealDue ? this.current : this.current - 1;
  }

  touch(): void {
    this.#isSealDue = true;
  }

  beforeSeal(write: (unit: WriteSet) => void): void {
    this.#writers.push(write);
  }

  whenDurable(unit: number, callback: () => void): void {
    if (unit <= this.durable) callback();
    else this.#waiters.add(unit, callback);
  }

  settled(): Promise<void> {
    const { newest } = this;
    if (newest <= this.durable) return Promise.resolve();
    return new Promise((resolve) => this.whenDurable(newest, resolve));
  }

  range(family: Family, prefix: Uint8Array): Promise<readonly Entry[]> {
    return this.#ask((store) => store.range(family, prefix));
  }

  canister(id: Uint8Array): Promise<StoredCanister> {
    return this.#ask((store) => store.canister(id));
  }

  figures(): Promise<StorageFigures> {
    return this.#ask((store) => store.figures);
  }

  backup(): AsyncIterable<Uint8Array> {
    throw new Error('the simulation makes no backups');
  }

  #ask<T>(question: (store: StateStore) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const answer = (store: StateStore): (() => void) => {
        try {
          // What comes from another thread is a copy.
          const value = structuredClone(question(store));
          return () => resolve(value);
        } catch (error) {
          if (!(error instanceof ServerError)) throw error;
          return () => reject(error);
        }
      };
      (this.#isSealDue ? this.#asked : this.#inbox).push({ kind: 'request', answer });
    });
  }

  /** Brings everything into the tables and lets the directory go; everything has been handed over and is committed. */
  async close(): Promise<void> {
    this.seal();
    while (this.#inbox.length > 0) this.work(this.#inbox.length);
    this.#store.fold();
    await this.#store.close();
  }
}
