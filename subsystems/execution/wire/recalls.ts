/**
 * Tells an executor thread which of the tasks of a canister that it has been given it is to give back.
 *
 * Shared memory, because a thread that executes reads no record before the message's end, and what is to be given back has been
 * sent already. The main thread writes a byte for each canister and, for each thread, how many of its canisters are recalled:
 * a thread looks at no more than that number as long as there is nothing.
 *
 * Both sides: the main thread writes, executor threads read, before they begin something and whenever a long message yields.
 */

/** `unbegun`: what it has not begun. `everything`: that, and the message that executes, which is undone as if it had never begun. */
export const RECALLS = ['nothing', 'unbegun', 'everything'] as const;
export type Recall = (typeof RECALLS)[number];

const UNBEGUN = RECALLS.indexOf('unbegun');
const EVERYTHING = RECALLS.indexOf('everything');

/** A count each 64 bytes: threads look at theirs before every message. */
const COUNT_STRIDE = 16;
/** Canisters of one process are numbered from 0 on and never again: with more than so many, two of them share a byte. */
const CANISTERS_MAX = 2 ** 22;

export class Recalls {
  readonly #counts: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(table: SharedArrayBuffer) {
    const countBytes = table.byteLength - CANISTERS_MAX;
    this.#counts = new Int32Array(table, 0, countBytes / Int32Array.BYTES_PER_ELEMENT);
    this.#bytes = new Uint8Array(table, countBytes);
  }

  /** A table for so many threads. Of its bytes nearly none is ever touched, so the machine has no memory behind them. */
  static table(lanes: number): SharedArrayBuffer {
    return new SharedArrayBuffer(lanes * COUNT_STRIDE * Int32Array.BYTES_PER_ELEMENT + CANISTERS_MAX);
  }

  // ---- the main thread's side

  set(lane: number, handle: number, recall: Recall): void {
    const value = RECALLS.indexOf(recall);
    const before = Atomics.exchange(this.#bytes, handle % CANISTERS_MAX, value);
    const by = Number(value !== 0) - Number(before !== 0);
    if (by !== 0) Atomics.add(this.#counts, lane * COUNT_STRIDE, by);
  }

  // ---- a thread's side

  isAny(lane: number): boolean {
    return Atomics.load(this.#counts, lane * COUNT_STRIDE) !== 0;
  }

  /** Tells whether the thread is to give back what has not begun. */
  isUnbegunWanted(handle: number): boolean {
    return this.#of(handle) >= UNBEGUN;
  }

  /** Tells whether the thread is to give back what executes, too. */
  isAllWanted(handle: number): boolean {
    return this.#of(handle) === EVERYTHING;
  }

  #of(handle: number): number {
    return Atomics.load(this.#bytes, handle % CANISTERS_MAX);
  }
}
