/**
 * Tells an executor thread which tasks of a canister, of those it has been given, it has to give back.
 *
 * Shared memory, because a thread that executes reads no record before the message's end, and the tasks to give back
 * have been sent already. The main thread writes a byte for each canister and, for each thread, the number of its
 * canisters that are recalled: as long as that is 0, a thread reads nothing else.
 *
 * Both sides: the main thread writes; executor threads read, before they begin work and whenever a long message yields.
 */

/**
 * `unbegun`: tasks that the thread has not begun. `everything`: these, and the message that executes, which is undone
 * as if it had never begun.
 */
const RECALLS = ['nothing', 'unbegun', 'everything'] as const;
export type Recall = (typeof RECALLS)[number];

const UNBEGUN = RECALLS.indexOf('unbegun');
const EVERYTHING = RECALLS.indexOf('everything');

/** One count in each 64 bytes: threads read theirs before every message. */
const COUNT_STRIDE = 16;
/** Canisters of one process are numbered from 0 on and never again: beyond this many, two of them share a byte. */
const CANISTERS_MAX = 2 ** 22;

export class Recalls {
  readonly #counts: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(table: SharedArrayBuffer) {
    const countBytes = table.byteLength - CANISTERS_MAX;
    this.#counts = new Int32Array(table, 0, countBytes / Int32Array.BYTES_PER_ELEMENT);
    this.#bytes = new Uint8Array(table, countBytes);
  }

  /**
   * Makes a table for this many threads. Hardly any of its bytes is ever touched, so the machine provides no memory for
   * them.
   */
  static table(lanes: number): SharedArrayBuffer {
    return new SharedArrayBuffer(lanes * COUNT_STRIDE * Int32Array.BYTES_PER_ELEMENT + CANISTERS_MAX);
  }

  // ---- the main thread's side

  set(executorIndex: number, handle: number, recall: Recall): void {
    const value = RECALLS.indexOf(recall);
    const before = Atomics.exchange(this.#bytes, handle % CANISTERS_MAX, value);
    const by = Number(value !== 0) - Number(before !== 0);
    if (by !== 0) Atomics.add(this.#counts, executorIndex * COUNT_STRIDE, by);
  }

  // ---- a thread's side

  isAny(executorIndex: number): boolean {
    return Atomics.load(this.#counts, executorIndex * COUNT_STRIDE) !== 0;
  }

  /** Returns true if the thread has to give back work that has not begun. */
  isUnbegunWanted(handle: number): boolean {
    return this.#of(handle) >= UNBEGUN;
  }

  /** Returns true if the thread has to give back the work that executes, too. */
  isAllWanted(handle: number): boolean {
    return this.#of(handle) === EVERYTHING;
  }

  #of(handle: number): number {
    return Atomics.load(this.#bytes, handle % CANISTERS_MAX);
  }
}
