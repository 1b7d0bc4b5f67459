/**
 * Memory that one heap has of the machine, as the budget counts it, with the pages concerned.
 *
 * A 64-bit Motoko actor has 1,296 pages of 4 KiB and uses 48. The machine provides a page when it is first written, so
 * small heaps count by the pages that were ever touched. That includes messages that were undone: their pages are zeros
 * again, and stay taken from the machine. Large heaps count with their whole size: nearly all of it is used, and marks
 * for 6 GiB would take as much as a small actor. The tally belongs to the memory, and goes with it to the pool and to
 * the next canister.
 *
 * Executor thread: belongs to one heap; touched with it, and takes from the budget that all threads share.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { ModuleLayout } from '../../instrument/abi/index.ts';
import type { MemoryBudget } from './memory-budget.ts';

/** Heaps up to this size have marks for their pages. */
export const SMALL_HEAP_BYTES_MAX = 16 * 2 ** 20;

/** Possible states of a page: never touched, so not provided yet; zeros; any content. */
export const PAGE = { UNTOUCHED: 0, ZEROS: 1, USED: 2 } as const;

/** Returns the pages that the data of a module touches at most. */
export function dataPagesOf({ data }: Pick<ModuleLayout, 'data'>): number {
  return data.reduce((sum, { bytes }) => sum + Math.ceil(bytes.length / PAGE_BYTES) + 1, 0);
}

/** Returns the pages that the budget counts for a new heap, of which so many pages are used. */
export function countedPagesOf(heapBytes: number, usedPages: number): number {
  return heapBytes > SMALL_HEAP_BYTES_MAX ? heapBytes / PAGE_BYTES : usedPages;
}

export class HeapTally {
  /** Size of the heap in pages of 4 KiB. */
  pages: number;
  /** State of each page, one of PAGE; undefined: the heap is large. */
  marks: Uint8Array | undefined;
  /** Pages that the budget counts for the heap. */
  counted = 0;
  /** The instance that gives the heap back: an upgrade may have put a second one on it. */
  owner: object | undefined = undefined;
  /** Pages marked since the count was last settled. */
  #fresh = 0;

  constructor(heapBytes: number) {
    this.pages = heapBytes / PAGE_BYTES;
    this.marks = heapBytes > SMALL_HEAP_BYTES_MAX ? undefined : new Uint8Array(this.pages);
  }

  /** Takes over the heap's new size. */
  growTo(heapBytes: number): void {
    const pages = heapBytes / PAGE_BYTES;
    if (pages === this.pages) return;
    this.pages = pages;
    const { marks } = this;
    if (marks === undefined) return;
    this.marks = heapBytes > SMALL_HEAP_BYTES_MAX ? undefined : new Uint8Array(pages);
    this.marks?.set(marks);
  }

  /** Marks pages from `first` up to `end` as used. */
  use(first: number, end: number): void {
    const { marks } = this;
    if (marks === undefined) return;
    for (let page = first; page < end; page++) {
      if (marks[page] === PAGE.UNTOUCHED) this.#fresh++;
      marks[page] = PAGE.USED;
    }
  }

  /** Marks a touched page, and the page behind it, into which a store may have spilled. */
  touch(page: number, as: typeof PAGE.ZEROS | typeof PAGE.USED): void {
    const { marks } = this;
    if (marks === undefined) return;
    for (let k = page; k <= page + 1; k++) {
      const before = marks[k];
      // Behind the end there is no page.
      if (before === undefined || before >= as) continue;
      if (before === PAGE.UNTOUCHED) this.#fresh++;
      marks[k] = as;
    }
  }

  /** Returns the pages that touching this one would add to the count. */
  costOf(page: number): number {
    const { marks } = this;
    if (marks === undefined) return 0;
    return (marks[page] === PAGE.UNTOUCHED ? 1 : 0) + (marks[page + 1] === PAGE.UNTOUCHED ? 1 : 0);
  }

  /** Pages that the whole heap would add to the count. */
  get uncounted(): number {
    return this.pages - this.counted;
  }

  /**
   * True if the budget already counts the pages of the heap: nearly all messages touch pages that were touched before.
   */
  get isSettled(): boolean {
    return this.#fresh === 0 && (this.marks !== undefined || this.counted === this.pages);
  }

  /** Updates the budget's count to the heap's pages; `taken` pages have been taken for the heap meanwhile. */
  settle(budget: MemoryBudget, taken: number): void {
    const count = this.marks === undefined ? this.pages : this.counted + this.#fresh;
    budget.add(count - this.counted - taken);
    this.counted = count;
    this.#fresh = 0;
  }
}
