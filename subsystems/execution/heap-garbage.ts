/**
 * Keeps the heaps few that nobody uses any more and that V8 has not collected yet.
 *
 * Heaps become garbage when canisters are removed or get new code, and when a message that grew its heap is undone, if the
 * pool of the thread does not take them (heap-pool.ts). V8
 * sees the bytes of them, not the 16 GiB of address space of each: thousands of small ones do not move it to collect, and
 * when the address space is used up, it is V8's own heap that cannot grow, which ends the thread. So they are counted:
 * heaps made so far, less those in use and in the pool. (Finalizers would tell exactly, but they run in the event loop, which an executor
 * never returns to.)
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** In all threads together; see heap-budget.ts for what is left beside live heaps. */
const GARBAGE_HEAPS_MAX = 400;

export interface HeapCounts {
  /** Heaps this thread has made so far. */
  made(): number;
  /** Heaps in use and in the pool; counted only now and then. */
  live(): number;
}

export class HeapGarbage {
  readonly #counts: HeapCounts;
  readonly #collect: () => void;
  readonly #garbageMax: number;
  #madeAtCollection = 0;
  #liveAtCollection = 0;
  /** Before so many are made it cannot be too many. */
  #nextCheck: number;

  constructor(counts: HeapCounts, threads: number, collect: () => void = collectNow) {
    this.#counts = counts;
    this.#collect = collect;
    this.#garbageMax = Math.max(16, Math.floor(GARBAGE_HEAPS_MAX / threads));
    this.#nextCheck = this.#garbageMax;
  }

  /** Called between tasks; collects when there is too much. */
  check(): void {
    const made = this.#counts.made();
    if (made < this.#nextCheck) return;
    const live = this.#counts.live();
    let garbage = Math.max(0, this.#liveAtCollection + made - this.#madeAtCollection - live);
    if (garbage >= this.#garbageMax) {
      this.#collect();
      this.#madeAtCollection = made;
      this.#liveAtCollection = live;
      garbage = 0;
    }
    this.#nextCheck = made + this.#garbageMax - garbage;
  }
}

let gc: (() => void) | undefined;

function collectNow(): void {
  if (gc === undefined) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('gc') as () => void;
  }
  gc();
}
