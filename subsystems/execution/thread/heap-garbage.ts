/**
 * Bounds the number of heaps that nobody uses any more and that V8 has not collected yet.
 *
 * Heaps become garbage when canisters are removed or get new code, and when a message that grew its heap is undone,
 * unless the pool of the thread takes them (heap-pool.ts). V8 sees neither the 16 GiB of address space of each heap nor
 * the bytes in it: thousands of small heaps, or a few of gigabytes, do not make it collect. When the address space is
 * used up, V8's own heap cannot grow, which ends the thread. So this class counts: heaps made so far, less those in use
 * and in the pool; and the bytes of heaps that the pool did not take.
 *
 * At a quarter of either bound, a collection begins in the background (full-collection.ts). If the collection has not
 * ended when the bound is reached, the thread stops for one. The thread also stops for one when memory is wanted that
 * garbage holds.
 *
 * Executor thread: counts, and asks V8 for collections. Touches no heap.
 */
import { FullCollection } from './full-collection.ts';

/** The most garbage heaps in all threads together; heap-budget.ts says what is left beside live heaps. */
const GARBAGE_HEAPS_MAX = 800;
/**
 * The most bytes of heaps that the pools did not take, in all threads together; and their share of all actors' memory.
 */
const GARBAGE_BYTES_MAX = 4 * 2 ** 30;
const GARBAGE_SHARE = 1 / 8;
/** Share of either bound from which on garbage is collected in the background. */
const BEGIN_SHARE = 1 / 4;
/** Number of tasks between two looks at a collection that is under way. */
const TASKS_PER_LOOK = 4096;

export interface HeapCounts {
  /** Heaps this thread has made so far. */
  made(): number;
  /** Heaps in use and in the pool; counted only now and then. */
  live(): number;
  /** Bytes of heaps that have been dropped so far. */
  droppedBytes(): number;
  /** Called with the number of dropped bytes that the machine has back. */
  collected?(bytes: number): void;
}

type Collection = Pick<FullCollection, 'begin' | 'hasEnded' | 'atOnce'>;

interface Count {
  readonly made: number;
  readonly live: number;
  readonly droppedBytes: number;
}

export class HeapGarbage {
  readonly #counts: HeapCounts;
  readonly #collection: Collection;
  readonly #heapsMax: number;
  readonly #bytesMax: number;
  /** Counts at the beginning of the last collection that has ended. */
  #collected: Count = { made: 0, live: 0, droppedBytes: 0 };
  /** Counts at the beginning of the collection that is under way in the background. */
  #begun: Count | undefined;
  /** Numbers of heaps made and of bytes dropped below which there is nothing to do. */
  #madeNext = 0;
  #droppedBytesNext = 0;
  #tasksToLook = 0;

  constructor(
    counts: HeapCounts,
    threads: number,
    collection: Collection = new FullCollection(),
    memoryBytesMax = Number.POSITIVE_INFINITY,
  ) {
    this.#counts = counts;
    this.#collection = collection;
    this.#heapsMax = Math.max(16, Math.floor(GARBAGE_HEAPS_MAX / threads));
    this.#bytesMax = Math.min(GARBAGE_BYTES_MAX, memoryBytesMax * GARBAGE_SHARE) / threads;
    this.#waitFor(this.#collected);
  }

  /** Starts or finishes collections so that garbage stays within its bounds. Called between tasks. */
  check(): void {
    const made = this.#counts.made();
    const droppedBytes = this.#counts.droppedBytes();
    const isDue = made >= this.#madeNext || droppedBytes >= this.#droppedBytesNext;
    if (!isDue && (this.#begun === undefined || --this.#tasksToLook > 0)) return;
    const now = { made, live: this.#counts.live(), droppedBytes };
    if (this.#begun !== undefined && this.#collection.hasEnded()) this.#hasCollected(this.#begun);
    const share = this.#shareOf(now);
    if (share >= 1) {
      this.#collection.atOnce();
      this.#hasCollected(now);
    } else if (share >= BEGIN_SHARE && this.#begun === undefined) {
      this.#collection.begin();
      this.#begun = now;
    }
    this.#tasksToLook = TASKS_PER_LOOK;
    this.#waitFor(now);
  }

  /** Bytes of garbage that have not been collected. */
  get bytes(): number {
    return this.#counts.droppedBytes() - this.#collected.droppedBytes;
  }

  /** Collects all present garbage. */
  collect(): void {
    this.#collection.atOnce();
    this.#hasCollected({
      made: this.#counts.made(),
      live: this.#counts.live(),
      droppedBytes: this.#counts.droppedBytes(),
    });
  }

  /** Notes the end of a collection that began with the counts `begin`. */
  #hasCollected(begin: Count): void {
    const { droppedBytes } = this.#collected;
    this.#collected = begin;
    this.#begun = undefined;
    this.#counts.collected?.(begin.droppedBytes - droppedBytes);
  }

  /** Returns the most garbage that there can be, as a share of its bound. */
  #shareOf({ made, live, droppedBytes }: Count): number {
    const heaps = Math.max(0, this.#collected.live + made - this.#collected.made - live);
    const bytes = droppedBytes - this.#collected.droppedBytes;
    return Math.max(heaps / this.#heapsMax, bytes / this.#bytesMax);
  }

  /**
   * Sets the counts of the next look: a sixteenth of the bound later, or, while there is hardly any garbage, where a
   * collection would begin.
   */
  #waitFor(now: Count): void {
    const missing = Math.max(1 / 16, BEGIN_SHARE - this.#shareOf(now));
    this.#madeNext = now.made + Math.ceil(missing * this.#heapsMax);
    this.#droppedBytesNext = now.droppedBytes + missing * this.#bytesMax;
  }
}
