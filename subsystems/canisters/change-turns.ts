/**
 * Changes of one canister take turns, whoever makes them: an upgrade must not see the module of a half-finished one.
 * Main thread; keeps a promise for each canister that is being changed.
 */
export class ChangeTurns {
  /** The end of the change that came last, of each canister that is being changed. */
  readonly #last = new Map<object, Promise<void>>();

  /** Runs the change when all that came before have ended. One that waits for another of its canister never ends. */
  take<T>(canister: object, change: () => Promise<T>): Promise<T> {
    const result = (this.#last.get(canister) ?? Promise.resolve()).then(change);
    const end = (): void => {
      if (this.#last.get(canister) === ended) this.#last.delete(canister);
    };
    const ended = result.then(end, end);
    this.#last.set(canister, ended);
    return result;
  }

  /** Number of canisters that are being changed. */
  get size(): number {
    return this.#last.size;
  }
}
