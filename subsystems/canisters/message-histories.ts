import { TimeSlices } from '../../kernel/index.ts';
import type { Outcome } from '../ic/index.ts';
import { CanisterHistory, type EndedMessage, withoutParent } from './canister-history.ts';
import { CAUSED_MESSAGES_MAX, type HistoryEntry } from './index.ts';
import { SharedBudget } from './shared-budget.ts';

/**
 * Bytes that all histories may take together: 50 entries of 10,000 canisters with short arguments take 55 MB. Beyond
 * this bound the oldest entries of quiet canisters go first.
 */
const HISTORIES_BYTES_MAX = 64 * 1024 * 1024;
/** Shorter strings are never parts of others. */
const PARTIAL_LENGTH_MIN = 13;
const METHOD_CHARACTERS_MAX = 256;
/** Failures of all canisters together that are remembered. */
const FAILURES_MAX = 50;
/** Names of methods that are kept apart from the targets of requests that they came in. */
const METHODS_MAX = 4096;
/** Messages that are found before those with the greatest numbers are dropped. */
const FOUND_MAX = 4 * CAUSED_MESSAGES_MAX;

interface Found {
  readonly number: number;
  readonly handle: number;
  readonly seq: number;
}

/** The newest messages of each canister (`--history`), by its handle. In memory only: a restart begins with none. */
export class MessageHistories {
  readonly #entriesMax: number;
  readonly #budget: SharedBudget;
  readonly #byHandle = new Map<number, CanisterHistory>();
  readonly #methods = new Map<string, string>();
  /** Places of the latest failures, oldest first: the entries themselves are in the histories. */
  readonly #failures: { readonly handle: number; readonly seq: number }[] = [];

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
    const seq = history.add(ended, outcome, timeMs, this.#ownName(ended.method));
    if (outcome.kind === 'reply') return;
    this.#failures.push({ handle, seq });
    if (this.#failures.length > FAILURES_MAX) this.#failures.shift();
  }

  /** Yields the latest failures of all canisters, newest first, as far as the histories still have them. */
  *failures(): Iterable<{ readonly handle: number; readonly entry: HistoryEntry }> {
    for (const { handle, seq } of this.#failures.toReversed()) {
      const entry = this.#byHandle.get(handle)?.entryAt(seq);
      if (entry !== undefined) yield { handle, entry };
    }
  }

  /** Returns the entries behind the one with the number `after`; all of them if that is 0. */
  entriesOf(handle: number, after = 0): Iterable<HistoryEntry> {
    return this.#byHandle.get(handle)?.entries(after) ?? [];
  }

  /** Resolves with the number at the top of a message's tree; undefined: no history has the message. */
  async rootOf(number: number): Promise<number | undefined> {
    let root: number | undefined;
    await this.#eachHistory((history) => {
      history.traces((each, rootOfEach) => {
        if (each === number) root = rootOfEach;
      });
      return root === undefined;
    });
    return root;
  }

  /**
   * Resolves with the messages below a root, itself included, in order of their numbers, with the handles of their
   * canisters: the first CAUSED_MESSAGES_MAX. Causes have smaller numbers than what they cause, so nothing is cut off
   * from its cause that is still known.
   */
  async below(root: number): Promise<readonly { readonly handle: number; readonly entry: HistoryEntry }[]> {
    let found: Found[] = [];
    await this.#eachHistory((history, handle) => {
      history.traces((number, rootOfEach, seq) => {
        if (rootOfEach === root) found.push({ number, handle, seq });
      });
      if (found.length > FOUND_MAX) found = firstOf(found);
      return true;
    });
    return firstOf(found).flatMap(({ handle, seq }) => {
      const entry = this.#byHandle.get(handle)?.entryAt(seq);
      return entry === undefined ? [] : [{ handle, entry }];
    });
  }

  /** Looks at histories until `look` returns false, in slices: there may be very many. */
  async #eachHistory(look: (history: CanisterHistory, handle: number) => boolean): Promise<void> {
    const slices = new TimeSlices();
    for (const [handle, history] of this.#byHandle) {
      if (!look(history, handle)) return;
      if (slices.isOver) await slices.next();
    }
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

function firstOf(found: readonly Found[]): Found[] {
  return found.toSorted((one, other) => one.number - other.number).slice(0, CAUSED_MESSAGES_MAX);
}
