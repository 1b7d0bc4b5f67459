/**
 * Keeps the heaps few that nobody uses any more and that V8 has not collected yet.
 *
 * Heaps become garbage when canisters are removed or get new code, and when a message that grew its heap is undone, if the
 * pool of the thread does not take them (heap-pool.ts). V8 sees neither the 16 GiB of address space of each nor the bytes
 * in it: thousands of small ones, or a few of gigabytes, do not move it to collect, and when the address space is used up,
 * it is V8's own heap that cannot grow, which ends the thread. So they are counted: heaps made so far, less those in use
 * and in the pool; and the bytes of those that the pool did not take.
 *
 * At a quarter of what there may be, a collection begins in the background (full-collection.ts). If that has not ended when
 * there is as much as there may be, the thread stops for one. It also does when memory is wanted that garbage has.
 *
 * Executor thread: counts, and asks V8 for collections. Touches no heap.
 */
import { FullCollection } from './full-collection.ts';

/** In all threads together; see heap-budget.ts for what is left beside live heaps. */
const GARBAGE_HEAPS_MAX = 800;
/** The same for the bytes of heaps that the pools did not take; and as part of what all actors may have. */
const GARBAGE_BYTES_MAX = 4 * 2 ** 30;
const GARBAGE_SHARE = 1 / 8;
/** From this share of either on, it is collected in the background. */
const BEGIN_SHARE = 1 / 4;
/** While that is under way, it is asked about it each time so many tasks have been done. */
const TASKS_PER_LOOK = 4096;

export interface HeapCounts {
  /** Heaps this thread has made so far. */
  made(): number;
  /** Heaps in use and in the pool; counted only now and then. */
  live(): number;
  /** Bytes of heaps that have been dropped so far. */
  droppedBytes(): number;
  /** So many of them are the machine's again. */
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
  /** When the last collection that has ended began. */
  #collected: Count = { made: 0, live: 0, droppedBytes: 0 };
  /** When the one under way in the background began. */
  #begun: Count | undefined;
  /** Before so many are made, or so many bytes dropped, there is nothing to do. */
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

  /** Called between tasks; sees to it that there is not too much. */
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

  /** Collects what there is now. */
  collect(): void {
    this.#collection.atOnce();
    this.#hasCollected({
      made: this.#counts.made(),
      live: this.#counts.live(),
      droppedBytes: this.#counts.droppedBytes(),
    });
  }

  /** A collection has ended that began then. */
  #hasCollected(begin: Count): void {
    const { droppedBytes } = this.#collected;
    this.#collected = begin;
    this.#begun = undefined;
    this.#counts.collected?.(begin.droppedBytes - droppedBytes);
  }

  /** How much garbage there is at most, as a share of what there may be. */
  #shareOf({ made, live, droppedBytes }: Count): number {
    const heaps = Math.max(0, this.#collected.live + made - this.#collected.made - live);
    const bytes = droppedBytes - this.#collected.droppedBytes;
    return Math.max(heaps / this.#heapsMax, bytes / this.#bytesMax);
  }

  /** Looks again when a sixteenth of the bound more has been made, or, if there is next to nothing, what makes a beginning. */
  #waitFor(now: Count): void {
    const missing = Math.max(1 / 16, BEGIN_SHARE - this.#shareOf(now));
    this.#madeNext = now.made + Math.ceil(missing * this.#heapsMax);
    this.#droppedBytesNext = now.droppedBytes + missing * this.#bytesMax;
  }
}
