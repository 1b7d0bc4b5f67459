/** The size of the tables, counted now and then: nobody waits for the database to learn it. */
import type { Clock } from '../api/plugin.ts';
import type { Database } from './database.ts';
import { tableBytes } from './entries.ts';

/** Milliseconds between two questions for the size of the tables, at least. */
const PAUSE_MS = 30_000;

export class TableSize {
  /** Bytes as of the last answer. */
  bytes = 0;
  readonly #database: Database;
  readonly #clock: Clock;
  #askedMs = Number.NEGATIVE_INFINITY;
  #isAsking = false;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** Asks the database, unless it was asked a short time ago. */
  refresh(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#isAsking || nowMs - this.#askedMs <= PAUSE_MS) return;
    this.#isAsking = true;
    this.#askedMs = nowMs;
    void this.#ask().finally(() => (this.#isAsking = false));
  }

  /** Asks once, without a retry: the next look may succeed, and callers that write are told what is wrong. */
  async #ask(): Promise<void> {
    try {
      const { entries } = await this.#database.session();
      this.bytes = await tableBytes(entries, this.#database.namespace);
    } catch {
      // The size stays as it was.
    }
  }
}
