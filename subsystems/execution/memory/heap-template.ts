/**
 * Pages of a heap that other heaps of the same module nearly share: sleeping canisters are kept as differences from
 * them.
 * Executor thread; read by whatever is packed with it.
 */
import { numberAt } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { release } from '../../storage/index.ts';
import { PAGE } from './heap-tally.ts';

const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

/** Template of a heap. Never changed once it is made, and let go of when nothing is packed with it any more. */
export class HeapTemplate {
  /** The template's pages of 4 KiB that are not all zeros, one behind the other. */
  readonly bytes: Uint8Array;
  /** Numbers of these pages, ascending. */
  readonly numbers: Uint32Array;
  /** Number of the page behind the last of them. */
  readonly pages: number;
  readonly #buffer: Buffer;
  /** Slot of each page in `bytes`; -1: the page is all zeros. */
  readonly #slots: Int32Array;

  /** Copies the pages with these numbers, ascending, from a heap. */
  constructor(heap: Uint8Array, numbers: readonly number[]) {
    this.numbers = Uint32Array.from(numbers);
    this.pages = (numbers.at(-1) ?? -1) + 1;
    this.bytes = new Uint8Array(numbers.length * PAGE_BYTES);
    this.#buffer = Buffer.from(this.bytes.buffer);
    this.#slots = new Int32Array(this.pages).fill(-1);
    for (const [slot, page] of numbers.entries()) {
      this.bytes.set(heap.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES), slot * PAGE_BYTES);
      this.#slots[page] = slot;
    }
  }

  /** Size of the template in bytes. */
  get size(): number {
    return this.bytes.length + this.numbers.byteLength + this.#slots.byteLength;
  }

  /** Gives its memory back at once: nobody may read it afterwards. */
  letGo(): void {
    release(this.bytes);
  }

  /** Returns a page's slot in `bytes`; -1: the page is all zeros. */
  slotOf(page: number): number {
    return page < this.pages ? numberAt(this.#slots, page, 'page of a template') : -1;
  }

  /** Returns true if the page in this slot, zeros if the slot is -1, equals the one at `heap[at]`. */
  isSame(slot: number, heap: Uint8Array, at: number): boolean {
    if (slot < 0) return ZERO_PAGE.compare(heap, at, at + PAGE_BYTES) === 0;
    const from = slot * PAGE_BYTES;
    return this.#buffer.compare(heap, at, at + PAGE_BYTES, from, from + PAGE_BYTES) === 0;
  }

  /** Calls `place` for each run of neighbours: number of the first page, and the bytes. */
  runs(place: (first: number, bytes: Uint8Array) => void): void {
    const { numbers, bytes } = this;
    for (let at = 0; at < numbers.length;) {
      const first = numberAt(numbers, at, 'page of a template');
      let end = at + 1;
      while (numbers[end] === first + end - at) end++;
      place(first, bytes.subarray(at * PAGE_BYTES, end * PAGE_BYTES));
      at = end;
    }
  }
}

/** The templates of one thread: each is kept as long as something is packed with it. */
export class HeapTemplates {
  readonly #current = new Map<InstrumentedCode, HeapTemplate>();
  readonly #users = new Map<HeapTemplate, number>();
  /** Bytes of the templates in use. */
  bytes = 0;

  /** Returns the template with which heaps of this module are packed now. */
  of(code: InstrumentedCode): HeapTemplate | undefined {
    return this.#current.get(code);
  }

  /**
   * Makes a template. Heaps of the module are packed with it from now on, unless several are packed with a smaller one:
   * otherwise heaps of unlike size would replace each other's templates.
   */
  make(code: InstrumentedCode, heap: Uint8Array, marks: Uint8Array): HeapTemplate {
    return this.#make(code, heap, pagesThatAreNotZeros(heap, marks));
  }

  /**
   * Makes a template for a heap that differs in `changedBytes` bytes from the module's current template. Undefined: the
   * heap stays with the current template, because one of its own would take more than the differences, and would not
   * replace the current one.
   */
  makeIfBetter(
    code: InstrumentedCode,
    heap: Uint8Array,
    marks: Uint8Array,
    changedBytes: number,
  ): HeapTemplate | undefined {
    const numbers = pagesThatAreNotZeros(heap, marks);
    const isSmaller = numbers.length * PAGE_BYTES < changedBytes;
    return isSmaller || this.#isBetter(numbers.length, code) ? this.#make(code, heap, numbers) : undefined;
  }

  #make(code: InstrumentedCode, heap: Uint8Array, numbers: readonly number[]): HeapTemplate {
    const template = new HeapTemplate(heap, numbers);
    if (this.#isBetter(numbers.length, code)) this.#current.set(code, template);
    return template;
  }

  /** Returns true if a template of `pages` pages should replace the module's current one. */
  #isBetter(pages: number, code: InstrumentedCode): boolean {
    const current = this.#current.get(code);
    if (current === undefined || pages <= current.numbers.length) return true;
    return (this.#users.get(current) ?? 0) <= 1;
  }

  hold(template: HeapTemplate): void {
    const users = this.#users.get(template) ?? 0;
    if (users === 0) this.bytes += template.size;
    this.#users.set(template, users + 1);
  }

  release(template: HeapTemplate): void {
    const users = this.#users.get(template) ?? 0;
    if (users > 1) {
      this.#users.set(template, users - 1);
      return;
    }
    this.#users.delete(template);
    this.bytes -= template.size;
    for (const [code, current] of this.#current) if (current === template) this.#current.delete(code);
    template.letGo();
  }
}

function pagesThatAreNotZeros(heap: Uint8Array, marks: Uint8Array): readonly number[] {
  const numbers: number[] = [];
  for (let page = marks.indexOf(PAGE.USED); page >= 0; page = marks.indexOf(PAGE.USED, page + 1))
    if (ZERO_PAGE.compare(heap, page * PAGE_BYTES, (page + 1) * PAGE_BYTES) !== 0) numbers.push(page);
  return numbers;
}
