/** Calls of a canister that wait for their response at one callee at most: the replica's queue between two canisters. */
export const OPEN_CALLS_PER_CALLEE_MAX = 500;
/** And at all callees together: each holds a callback, a call context and a message. */
export const OPEN_CALLS_MAX = 50_000;

/**
 * How many calls of a canister are open, by callee. A callee with open calls has a slot, a small number that travels
 * with the callbacks, so that a response is counted without the callee's name.
 */
export class OpenCalls {
  /** By slot; slot 0 stands for "none". */
  readonly #counts: number[] = [0];
  readonly #callees: string[] = [''];
  readonly #free: number[] = [];
  readonly #slots = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** Counts one more; the callee's slot, or 0 when there may not be more. */
  raise(callee: Uint8Array): number {
    if (this.#total >= OPEN_CALLS_MAX) return 0;
    const key = Buffer.from(callee.buffer, callee.byteOffset, callee.length).toString('latin1');
    const slot = this.#slots.get(key) ?? this.#addSlot(key);
    const count = this.#counts[slot] ?? 0;
    if (count >= OPEN_CALLS_PER_CALLEE_MAX) return 0;
    this.#counts[slot] = count + 1;
    this.#total++;
    return slot;
  }

  /** One less; slots that are not in use (their calls were forgotten) are left alone. */
  lower(slot: number): void {
    const count = this.#counts[slot] ?? 0;
    if (count === 0) return;
    this.#total--;
    this.#counts[slot] = count - 1;
    if (count > 1) return;
    this.#slots.delete(this.#callees[slot] ?? '');
    this.#free.push(slot);
  }

  /** Forgets all of them: no response of theirs will come. */
  clear(): void {
    this.#counts.length = 1;
    this.#callees.length = 1;
    this.#free.length = 0;
    this.#slots.clear();
    this.#total = 0;
  }

  #addSlot(key: string): number {
    const slot = this.#free.pop() ?? this.#counts.length;
    this.#counts[slot] = 0;
    this.#callees[slot] = key;
    this.#slots.set(key, slot);
    return slot;
  }
}
