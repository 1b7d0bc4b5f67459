/**
 * Reads the entries of one family while other processes own the namespace, or all of its shards, so that who needs them
 * is ready when the wait is over. A standby reads the tables alone, over a connection of its own, and writes nothing.
 * Anything that goes wrong is left to the start, which reads the same again.
 */
import { type AheadReader, type Clock, sleep } from '../api/plugin.ts';
import type { Family } from '../api/storage.ts';
import type { Connection } from './connection.ts';
import { EntryReader } from './entries.ts';

/** Milliseconds between two looks, or so many times what the keys took: very many take a while. */
const LOOK_MS = 1_000;
const LOOK_GAP = 10;
const NO_KEY = new Uint8Array(0);

export interface StandbyOptions {
  readonly family: Family;
  readonly reader: AheadReader;
  /** Namespaces of which this process may become the owner. */
  readonly namespaces: readonly string[];
  readonly clock: Clock;
  readonly connect: () => Promise<Connection>;
}

interface Place {
  readonly key: Uint8Array;
  readonly entries: EntryReader;
}

const textOf = (key: Uint8Array): string => Buffer.from(key).toString('latin1');

export class Standby implements Disposable {
  readonly #options: StandbyOptions;
  #connection: Connection | undefined;
  #isReading = false;
  #isOver = false;

  constructor(options: StandbyOptions) {
    this.#options = options;
  }

  /** Begins, or goes on. */
  read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    void this.#read();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#drop();
  }

  async #read(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#isOver) {
      let tookMs = 0;
      try {
        const connection = await this.#connected();
        const readers = this.#options.namespaces.map((namespace) => new EntryReader(connection, namespace, []));
        const startedMs = clock.nowMs();
        const places = await this.#places(readers);
        tookMs = clock.nowMs() - startedMs;
        await this.#handOver(places);
      } catch {
        // The lease tells whether the database is there.
        this.#drop();
      }
      await sleep(clock, Math.max(LOOK_MS, LOOK_GAP * tookMs));
    }
    this.#drop();
  }

  async #connected(): Promise<Connection> {
    if (this.#connection?.isBroken === true) this.#drop();
    return (this.#connection ??= await this.#options.connect());
  }

  /** Returns each key with the reader of a namespace that has it; what is under one key is the same in all. */
  async #places(readers: readonly EntryReader[]): Promise<ReadonlyMap<string, Place>> {
    const places = new Map<string, Place>();
    for (const entries of readers) {
      for (let from: Uint8Array | undefined = NO_KEY; from !== undefined;) {
        const page = await entries.keys(this.#options.family, from);
        for (const key of page.keys) places.set(textOf(key), { key, entries });
        from = page.next;
      }
    }
    return places;
  }

  async #handOver(places: ReadonlyMap<string, Place>): Promise<void> {
    const { family, reader } = this.#options;
    const keys = [...places.values()].map(({ key }) => key);
    for (const key of reader.wanted(keys)) {
      if (this.#isOver) return;
      const value = await places.get(textOf(key))?.entries.get(family, key);
      if (value !== undefined) await reader.take(key, value);
    }
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
