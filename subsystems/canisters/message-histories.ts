import type { Outcome } from '../ic/index.ts';
import { CanisterHistory, type EndedMessage, withoutParent } from './canister-history.ts';
import type { HistoryEntry } from './index.ts';
import { SharedBudget } from './shared-budget.ts';

/**
 * Bytes that all histories may take together: 50 entries of 10,000 canisters with short arguments take 55 MB. Beyond
 * this bound the oldest entries of quiet canisters go first.
 */
const HISTORIES_BYTES_MAX = 64 * 1024 * 1024;
/** Shorter strings are never parts of others. */
const PARTIAL_LENGTH_MIN = 13;
const METHOD_CHARACTERS_MAX = 256;
/** Names of methods that are kept apart from the targets of requests that they came in. */
const METHODS_MAX = 4096;

/** The newest messages of each canister (`--history`), by its handle. In memory only: a restart begins with none. */
export class MessageHistories {
  readonly #entriesMax: number;
  readonly #budget: SharedBudget;
  readonly #byHandle = new Map<number, CanisterHistory>();
  readonly #methods = new Map<string, string>();

  /** `entriesMax`: of one canister; 0: nothing is recorded. */
  constructor(entriesMax: number, bytesMax = HISTORIES_BYTES_MAX) {
    this.#entriesMax = entriesMax;
    this.#budget = new SharedBudget(bytesMax);
  }

  get isOn(): boolean {
    return this.#entriesMax > 0;
  }

  /** Bytes that all take together. */
  get bytes(): number {
    return this.#budget.bytes;
  }

  /** Enters a message. What nobody executed (`unavailable`) is not entered. */
  add(handle: number, ended: EndedMessage, outcome: Outcome, timeMs: number): void {
    if (!this.isOn || outcome.kind === 'unavailable') return;
    let history = this.#byHandle.get(handle);
    if (history === undefined) {
      history = new CanisterHistory(this.#entriesMax, this.#budget);
      this.#byHandle.set(handle, history);
    }
    history.add(ended, outcome, timeMs, this.#ownName(ended.method));
  }

  /** Returns the entries behind the one with the number `after`; all of them if that is 0. */
  entriesOf(handle: number, after = 0): Iterable<HistoryEntry> {
    return this.#byHandle.get(handle)?.entries(after) ?? [];
  }

  /** A canister sleeps: it may do so for long, and there may be very many. */
  compact(handle: number): void {
    this.#byHandle.get(handle)?.compact();
  }

  /** A canister is gone. */
  forget(handle: number): void {
    this.#byHandle.get(handle)?.end();
    this.#byHandle.delete(handle);
  }

  /** A name that was cut out of a target would keep all of that. */
  #ownName(method: string): string {
    if (method.length < PARTIAL_LENGTH_MIN) return method;
    const known = this.#methods.get(method);
    if (known !== undefined) return known;
    if (this.#methods.size >= METHODS_MAX) this.#methods.clear();
    const own = withoutParent(method, METHOD_CHARACTERS_MAX);
    if (own === method) this.#methods.set(own, own);
    return own;
  }
}
