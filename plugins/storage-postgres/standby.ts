/**
 * Reads the entries of one family while another process owns the namespace, so that who needs them is ready when the
 * wait is over. A standby reads the tables alone, over a connection of its own, and writes nothing. Anything that goes
 * wrong is left to the start, which reads the same again.
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
  readonly namespace: string;
  readonly clock: Clock;
  readonly connect: () => Promise<Connection>;
}

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
        const entries = new EntryReader(await this.#connected(), this.#options.namespace, []);
        const startedMs = clock.nowMs();
        const keys = await this.#keys(entries);
        tookMs = clock.nowMs() - startedMs;
        await this.#handOver(entries, keys);
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

  async #keys(entries: EntryReader): Promise<readonly Uint8Array[]> {
    const keys: Uint8Array[] = [];
    for (let from: Uint8Array | undefined = NO_KEY; from !== undefined;) {
      const page = await entries.keys(this.#options.family, from);
      for (const key of page.keys) keys.push(key);
      from = page.next;
    }
    return keys;
  }

  async #handOver(entries: EntryReader, keys: readonly Uint8Array[]): Promise<void> {
    const { family, reader } = this.#options;
    for (const key of reader.wanted(keys)) {
      if (this.#isOver) return;
      const value = await entries.get(family, key);
      if (value !== undefined) await reader.take(key, value);
    }
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
