/**
 * Changes of one canister take turns, whoever makes them: an upgrade must not see the module of a half-finished one.
 * Main thread; keeps a promise for each canister that is being changed.
 */

/** The changes of one canister. */
interface Turns {
  /** The end of the change that came last. */
  last: Promise<void>;
  /** Aborted when the canister is about to be deleted, with all changes that have come so far. */
  deletion: AbortController;
}

export class ChangeTurns {
  readonly #turns = new Map<object, Turns>();

  /**
   * Runs the change when all that came before have ended. One that waits for another of its canister never ends.
   * `deletion` is aborted by `cut`: a change that takes long then ends with the signal's reason.
   */
  take<T>(canister: object, change: (deletion: AbortSignal) => Promise<T>): Promise<T> {
    const turns = this.#turns.get(canister) ?? { last: Promise.resolve(), deletion: new AbortController() };
    this.#turns.set(canister, turns);
    const { signal } = turns.deletion;
    const result = turns.last.then(() => {
      signal.throwIfAborted();
      return change(signal);
    });
    const end = (): void => {
      if (turns.last === ended) this.#turns.delete(canister);
    };
    const ended = result.then(end, end);
    turns.last = ended;
    return result;
  }

  /** Ends the change that is under way and those that wait, with this reason; changes that come later are not ended. */
  cut(canister: object, reason: Error): void {
    const turns = this.#turns.get(canister);
    if (turns === undefined) return;
    turns.deletion.abort(reason);
    turns.deletion = new AbortController();
  }

  /** Number of canisters that are being changed. */
  get size(): number {
    return this.#turns.size;
  }
}
