/**
 * Bound on the number of live heaps in this process.
 *
 * V8 sets address space aside for each WebAssembly memory, whatever its size and maximum: 16 GiB for a 64-bit one, 8
 * GiB for a 32-bit one (measured, V8 14.6: 8,170 and 16,360 of them use up the 128 TiB of a process, with Motoko's
 * actors in executors 7,530). Beyond that, usually V8's own heap cannot grow, which ends the thread, or the heap of a
 * message that trapped cannot be made anew. So new heaps are refused well before. The rest stays free for journals,
 * spare heaps, memories that wait for their collection, and actors whose code is being replaced, which have two heaps
 * meanwhile.
 *
 * Main thread: counts on behalf of all executors, and touches no heap.
 */

const ADDRESS_GIB = { 32: 8, 64: 16 } as const;
/** Room for 6,000 heaps of 64 bits, or 12,000 of 32. */
export const HEAP_ADDRESS_GIB_MAX = 6_000 * ADDRESS_GIB[64];
/** Room for this many replacements of heaps under way at once. */
const REPLACEMENT_GIB = 64 * ADDRESS_GIB[64];

export type PointerWidth = keyof typeof ADDRESS_GIB;

export class HeapBudget {
  readonly #addressGibMax: number;
  readonly #counts = { 32: 0, 64: 0 };

  constructor(addressGibMax: number = HEAP_ADDRESS_GIB_MAX) {
    this.#addressGibMax = addressGibMax;
  }

  /** Number of heaps that are live or about to be. */
  get count(): number {
    return this.#counts[32] + this.#counts[64];
  }

  /**
   * Takes the place of one more heap, for a while beside the one that it replaces. Returns the reason for a refusal, or
   * undefined.
   */
  take(width: PointerWidth, isReplacement: boolean): string | undefined {
    const gib = ADDRESS_GIB[32] * this.#counts[32] + ADDRESS_GIB[64] * this.#counts[64];
    const gibMax = this.#addressGibMax + (isReplacement ? REPLACEMENT_GIB : 0);
    if (gib + ADDRESS_GIB[width] > gibMax) return this.#refusal(isReplacement);
    this.#counts[width]++;
    return undefined;
  }

  free(width: PointerWidth): void {
    this.#counts[width]--;
  }

  #refusal(isReplacement: boolean): string {
    const bound = (width: PointerWidth): string =>
      `${Math.floor(this.#addressGibMax / ADDRESS_GIB[width])} with ${width}-bit memory`;
    const advice = isReplacement
      ? 'too many actors get new code at once: try again in a moment'
      : 'delete actors that are not needed, or host some of them in another server process';
    return `${this.count} actors are live, which is as many as the address space of one process allows (${bound(64)}, or ${bound(32)}): ${advice}`;
  }
}
