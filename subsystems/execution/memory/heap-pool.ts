/**
 * Heaps that nobody uses any more, zeroed, for the next canister.
 *
 * A heap costs V8 a reservation of 8 or 16 GiB of address space, and when it is garbage, its share of a full collection,
 * which is what stops an executor longest. So a thread keeps some for when canisters wake, are installed, or have to be
 * put on a smaller heap again. Only pages that were used are zeroed: the others are not the machine's yet, and stay so. A
 * memory never gets smaller, so it serves a heap of its size or a larger one, and only one with the same maximum.
 *
 * The instance on it goes along. Between messages it differs from a new one in heap and mutable globals only (tables
 * cannot change, and after `data.drop` there is a fresh one), so a canister of the same module may go on with it.
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
import type { Ic0Imports, InstrumentedCode } from '../wire/instrumented-code.ts';

/**
 * Larger heaps are not kept: what they cost is their content, and nobody knows what of them has to be zeroed. Zeroing one of
 * this size takes about a millisecond.
 */
const SPARE_HEAP_BYTES_MAX = SMALL_HEAP_BYTES_MAX;
/** In all threads together: they take address space as live ones do (heap-budget.ts). */
const SPARE_HEAPS_MAX = 256;
/** In each thread, and in all of them as part of what all actors may have. */
const SPARE_BYTES_MAX = 256 * 2 ** 20;
const SPARE_SHARE = 1 / 8;

/** How a memory was made; whole 64 KiB pages. */
export interface HeapShape {
  readonly pointerWidth: PointerWidth;
  readonly pages: number;
  readonly pagesMax: number;
}

/** An instance, and what it was made of. */
export interface BoundInstance {
  readonly code: InstrumentedCode;
  readonly imports: Ic0Imports;
  readonly control: ControlMemory;
  readonly wasm: InstrumentedExports;
}

export interface SpareHeap extends HeapShape {
  readonly memory: WebAssembly.Memory;
  readonly tally: HeapTally;
  /** Undefined: none that could be used again. */
  readonly bound: BoundInstance | undefined;
}

export interface HeapPoolLimits {
  readonly heapsMax: number;
  /** Of all heaps together, by their sizes: what they may hold of the machine's memory at worst. */
  readonly bytesMax: number;
}

export class HeapPool {
  readonly #limits: HeapPoolLimits;
  /** Those given back last are at the end. */
  #spares: SpareHeap[] = [];
  #bytes = 0;
  #countedPages = 0;
  #droppedBytes = 0;

  constructor(limits: HeapPoolLimits) {
    this.#limits = limits;
  }

  /** Heaps that are kept now. */
  get count(): number {
    return this.#spares.length;
  }

  /** Sum of their sizes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What all of them have of the machine's memory. */
  get countedBytes(): number {
    return this.#countedPages * PAGE_BYTES;
  }

  /** What those have of the machine's memory that have been left to the collector so far, together. */
  get droppedBytes(): number {
    return this.#droppedBytes;
  }

  /** Says that a memory is left to the collector for which the budget counts so many pages of 4 KiB. */
  dropped(countedPages: number): void {
    this.#droppedBytes += countedPages * PAGE_BYTES;
  }

  /** Leaves all of them to the collector. */
  clear(): void {
    for (const { tally } of this.#spares.splice(0)) this.dropped(tally.counted);
    this.#bytes = 0;
    this.#countedPages = 0;
  }

  /**
   * A heap of zeros of that shape, best one with an instance of `code`; undefined: there is none.
   * Throws RangeError when a smaller one cannot be grown.
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

  /** Takes a heap back; its tally says what may be something else than zeros. */
  give(spare: SpareHeap): void {
    const bytes = spare.pages * WASM_PAGE_BYTES;
    const { heapsMax, bytesMax } = this.#limits;
    const { marks } = spare.tally;
    if (marks === undefined || bytes > bytesMax || heapsMax === 0) {
      this.dropped(spare.tally.counted);
      return;
    }
    zero(new Uint8Array(spare.memory.buffer), marks);
    this.#spares.push(spare);
    this.#bytes += bytes;
    this.#countedPages += spare.tally.counted;
    for (let oldest = this.#spares[0]; oldest !== undefined; oldest = this.#spares[0]) {
      if (this.#spares.length <= heapsMax && this.#bytes <= bytesMax) return;
      this.#remove(oldest);
      this.dropped(oldest.tally.counted);
    }
  }

  /** Lets go of a module. */
  forget(code: InstrumentedCode): void {
    this.#spares = this.#spares.map((spare) => (spare.bound?.code === code ? { ...spare, bound: undefined } : spare));
  }

  /** Lets go of a control memory that is not used any more: what it has grown to would stay as long as a heap with it. */
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

/** Bounds for one of `threads` threads, of what all actors may have together. */
export function heapPoolLimits(threads: number, memoryBytesMax = Number.POSITIVE_INFINITY): HeapPoolLimits {
  return {
    heapsMax: Math.min(64, Math.max(8, Math.floor(SPARE_HEAPS_MAX / threads))),
    bytesMax: Math.min(SPARE_BYTES_MAX, (SPARE_SHARE * memoryBytesMax) / threads),
  };
}

/** An instance of the module is worth more than the right size. */
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
