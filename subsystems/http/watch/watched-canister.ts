import { type Clock, ServerError } from '../../../kernel/index.ts';
import type { Canister, CanisterWatcher } from '../../canisters/index.ts';
import type { LiveQuery } from './live-query.ts';

/** Queries of one actor that are asked at once: who watches much of an actor must not be in its callers' way. */
const ASKING_MAX = 4;
/** Changes within so many milliseconds are one: an actor is asked at most 200 times a second. */
const GAP_MS = 5;

/** The live queries of one actor: after a change, each is asked again, a few at a time. */
export class WatchedCanister implements CanisterWatcher {
  readonly #clock: Clock;
  readonly #canister: Canister;
  readonly #queries = new Set<LiveQuery>();
  /** Queries that have to be asked, in order. */
  readonly #stale = new Set<LiveQuery>();
  readonly #asking = new Set<LiveQuery>();
  /** Queries that could not be asked: each is asked again once, unless a change has had it asked before. */
  readonly #retries = new Map<LiveQuery, Disposable>();
  #lookedMs = Number.NEGATIVE_INFINITY;
  /** Number of changes of the actor. */
  changes = 0;
  #look: Disposable | undefined;

  constructor(clock: Clock, canister: Canister) {
    this.#clock = clock;
    this.#canister = canister;
  }

  get size(): number {
    return this.#queries.size;
  }

  add(query: LiveQuery): void {
    this.#queries.add(query);
    this.#stale.add(query);
    this.#askSome();
  }

  remove(query: LiveQuery): void {
    this.#queries.delete(query);
    this.#stale.delete(query);
    this.#dropRetry(query);
  }

  changed(): void {
    this.changes++;
    if (this.#look !== undefined) return;
    const waitMs = Math.max(0, this.#lookedMs + GAP_MS - this.#clock.nowMs());
    this.#look = this.#clock.after(waitMs, () => {
      this.#look = undefined;
      this.#lookedMs = this.#clock.nowMs();
      for (const query of this.#queries) this.#stale.add(query);
      this.#askSome();
    });
  }

  codeChanged(): void {
    for (const query of this.#queries) query.codeChanged();
    this.changed();
  }

  openMethodsChanged(): void {
    for (const query of Array.from(this.#queries)) query.openMethodsChanged();
  }

  removed(): void {
    const gone = new ServerError('missing', 'actor-missing', `actor ${this.#canister.name} has been deleted`);
    for (const query of Array.from(this.#queries)) query.end(gone);
  }

  #askSome(): void {
    for (const query of this.#stale) {
      if (this.#asking.size >= ASKING_MAX) return;
      // A change while the query is asked counts when that has ended.
      if (!this.#asking.has(query)) void this.#ask(query);
    }
  }

  async #ask(query: LiveQuery): Promise<void> {
    this.#stale.delete(query);
    this.#dropRetry(query);
    this.#asking.add(query);
    const retryMs = await query.ask();
    this.#asking.delete(query);
    if (retryMs !== undefined && this.#queries.has(query)) {
      const retry = this.#clock.after(retryMs, () => this.#askAgain(query));
      this.#retries.set(query, retry);
    }
    this.#askSome();
  }

  #askAgain(query: LiveQuery): void {
    this.#retries.delete(query);
    this.#stale.add(query);
    this.#askSome();
  }

  #dropRetry(query: LiveQuery): void {
    this.#retries.get(query)?.[Symbol.dispose]();
    this.#retries.delete(query);
  }
}
