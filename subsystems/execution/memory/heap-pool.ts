/**
 * Heaps that nobody uses any more, zeroed, for the next canister.
 *
 * A heap costs V8 a reservation of 8 or 16 GiB of address space. When the heap is garbage, it costs its share of a full
 * collection, which stops an executor longer than anything else. So a thread keeps some heaps for canisters that wake,
 * are installed, or have to be put on a smaller heap again. Only pages that were used are zeroed: the machine has not
 * provided the others yet, and need not. A memory never gets smaller, so it serves a heap of its size or a larger one,
 * and only one with the same maximum.
 *
 * The instance on a heap goes along. Between messages it differs from a new one in heap and mutable globals only
 * (tables cannot change, and after `data.drop` a fresh instance is made), so a canister of the same module may use it.
 *
 * A heap may come here only if nothing can run on it or read it any more: see `Instance.release`.
 *
 * Executor thread: one for each; touches heaps that no canister has.
 */
import type { InstrumentedExports } from '../../instrument/abi/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { ControlMemory } from './control-memory.ts';
import { type HeapTally, PAGE, SMALL_HEAP_BYTES_MAX } from './heap-tally.ts';
import type { PointerWidth } from './heap-budget.ts';
import { PageReturns } from './page-returns.ts';
import type { Ic0Imports, InstrumentedCode } from '../wire/instrumented-code.ts';

/**
 * Larger heaps are not kept: their cost is their content, and there is no record of the pages to zero. Zeroing a heap
 * of this size takes about a millisecond.
 */
const SPARE_HEAP_BYTES_MAX = SMALL_HEAP_BYTES_MAX;
/** Most spare heaps in all threads together: they take address space as live ones do (heap-budget.ts). */
const SPARE_HEAPS_MAX = 256;
/** Most bytes in each thread, and the share of all actors' memory that spare heaps of all threads may have. */
const SPARE_BYTES_MAX = 256 * 2 ** 20;
const SPARE_SHARE = 1 / 8;

/** Parameters of a memory, in 64 KiB pages. */
export interface HeapShape {
  readonly pointerWidth: PointerWidth;
  readonly pages: number;
  readonly pagesMax: number;
}

/** An instance, and the parts that it was made of. */
export interface BoundInstance {
  readonly code: InstrumentedCode;
  readonly imports: Ic0Imports;
  readonly control: ControlMemory;
  readonly wasm: InstrumentedExports;
}

export interface SpareHeap extends HeapShape {
  readonly memory: WebAssembly.Memory;
  readonly tally: HeapTally;
  /** Undefined: there is no instance that could be used again. */
  readonly bound: BoundInstance | undefined;
}

export interface HeapPoolLimits {
  readonly heapsMax: number;
  /** Bytes of all heaps together, by their sizes: the most of the machine's memory that they may hold. */
  readonly bytesMax: number;
}

export class HeapPool {
  readonly #limits: HeapPoolLimits;
  /** Heaps on their way back to the machine. */
  readonly returns: PageReturns;
  /** Spare heaps; the last ones given back are at the end. */
  #spares: SpareHeap[] = [];
  #bytes = 0;
  #countedPages = 0;
  #droppedBytes = 0;
  readonly #freed: (pages: number) => void;

  /** `freed` is called with pages that the budget counted and the machine has back. */
  constructor(limits: HeapPoolLimits, returns = new PageReturns(), freed: (pages: number) => void = () => undefined) {
    this.#limits = limits;
    this.returns = returns;
    this.#freed = freed;
  }

  /** Number of heaps that are kept now. */
  get count(): number {
    return this.#spares.length;
  }

  /** Sum of the kept heaps' sizes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of the machine's memory that all kept heaps have, and those that are being given back. */
  get countedBytes(): number {
    return this.#countedPages * PAGE_BYTES + this.returns.countedBytes;
  }

  /** Bytes of the machine's memory, in total, of heaps that were left to the collector so far. */
  get droppedBytes(): number {
    return this.#droppedBytes;
  }

  /** Notes that a memory is left to the collector for which the budget counts `countedPages` pages of 4 KiB. */
  dropped(countedPages: number): void {
    this.#droppedBytes += countedPages * PAGE_BYTES;
  }

  /**
   * Gives the pages of a memory back, a large one's in pieces; where that cannot be done, the memory is left to the
   * collector.
   */
  leave(memory: WebAssembly.Memory, countedPages: number): void {
    const freed = (bytes: number): void => this.#freed(bytes / PAGE_BYTES);
    if (!this.returns.add(memory, countedPages * PAGE_BYTES, freed)) this.dropped(countedPages);
  }

  /** Gives all spare heaps back. */
  clear(): void {
    for (const { memory, tally } of this.#spares.splice(0)) this.leave(memory, tally.counted);
    this.#bytes = 0;
    this.#countedPages = 0;
  }

  /**
   * Returns a heap of zeros of that shape, preferably one with an instance of `code`; undefined: there is none. Throws
   * RangeError if a smaller one cannot be grown.
   */
  take(shape: HeapShape, code: InstrumentedCode): SpareHeap | undefined {
    if (shape.pages * WASM_PAGE_BYTES > SPARE_HEAP_BYTES_MAX) return undefined;
    let best: SpareHeap | undefined;
    for (const spare of this.#spares) {
      if (spare.pointerWidth !== shape.pointerWidth || spare.pagesMax !== shape.pagesMax) continue;
      if (spare.pages > shape.pages) continue;
      if (best === undefined || rank(spare, code) >= rank(best, code)) best = spare;
    }
    if (best === undefined) return undefined;
    this.#remove(best);
    const missing = shape.pages - best.pages;
    if (missing === 0) return best;
    const grow = best.memory.grow.bind(best.memory) as (delta: number | bigint) => unknown;
    try {
      grow(shape.pointerWidth === 64 ? BigInt(missing) : missing);
    } catch (error) {
      this.give(best);
      throw error;
    }
    best.tally.growTo(shape.pages * WASM_PAGE_BYTES);
    return { ...best, pages: shape.pages };
  }

  /** Takes a heap back; its tally says which pages may hold something other than zeros. */
  give(spare: SpareHeap): void {
    const bytes = spare.pages * WASM_PAGE_BYTES;
    const { heapsMax, bytesMax } = this.#limits;
    const { marks } = spare.tally;
    if (marks === undefined || bytes > bytesMax || heapsMax === 0) {
      this.leave(spare.memory, spare.tally.counted);
      return;
    }
    zero(new Uint8Array(spare.memory.buffer), marks);
    this.#spares.push(spare);
    this.#bytes += bytes;
    this.#countedPages += spare.tally.counted;
    for (let oldest = this.#spares[0]; oldest !== undefined; oldest = this.#spares[0]) {
      if (this.#spares.length <= heapsMax && this.#bytes <= bytesMax) return;
      this.#remove(oldest);
      this.leave(oldest.memory, oldest.tally.counted);
    }
  }

  /** Lets go of a module. */
  forget(code: InstrumentedCode): void {
    this.#spares = this.#spares.map((spare) => (spare.bound?.code === code ? { ...spare, bound: undefined } : spare));
  }

  /** Lets go of a control memory that is not used any more: a heap that refers to it would keep its journal alive. */
  forgetControl(control: ControlMemory): void {
    this.#spares = this.#spares.map((spare) =>
      spare.bound?.control === control ? { ...spare, bound: undefined } : spare,
    );
  }

  #remove(spare: SpareHeap): void {
    this.#spares.splice(this.#spares.indexOf(spare), 1);
    this.#bytes -= spare.pages * WASM_PAGE_BYTES;
    this.#countedPages -= spare.tally.counted;
  }
}

/** Returns the bounds for one of `threads` threads, as its part of the memory of all actors. */
export function heapPoolLimits(threads: number, memoryBytesMax = Number.POSITIVE_INFINITY): HeapPoolLimits {
  return {
    heapsMax: Math.min(64, Math.max(8, Math.floor(SPARE_HEAPS_MAX / threads))),
    bytesMax: Math.min(SPARE_BYTES_MAX, (SPARE_SHARE * memoryBytesMax) / threads),
  };
}

/** Ranks spare heaps: an instance of the module is worth more than the right size. */
function rank({ bound, pages }: SpareHeap, code: InstrumentedCode): number {
  return bound?.code === code ? pages + 2 ** 32 : pages;
}

function zero(heap: Uint8Array, marks: Uint8Array): void {
  for (let page = marks.indexOf(PAGE.USED); page >= 0; page = marks.indexOf(PAGE.USED, page)) {
    const first = page;
    while (marks[page] === PAGE.USED) page++;
    heap.fill(0, first * PAGE_BYTES, page * PAGE_BYTES);
    marks.fill(PAGE.ZEROS, first, page);
  }
}
