/**
 * Changes of a memory as page entries, the format that wasm writes for the heap (instrument/journal/delta.ts):
 *
 *     u32 page number · u16 runs · runs × (u16 offset · u16 length · the bytes as they are now)
 *
 * all little-endian and unaligned, pages of 4 KiB. Runs consist of changed 8-byte words and are at least two unchanged
 * words apart. A page may have two entries; as each says what is there now, they may be applied in any order.
 */
import { copyBytes } from './copy-bytes.ts';
import { PAGE_BYTES } from './page.ts';

/** Takes some page entries, at most 65,535 and 64 KiB. The bytes are a view: valid during the call, not to be kept. */
export type PageSink = (entries: number, bytes: Uint8Array) => void;

export const CHUNK_BYTES = 65_536;
export const ENTRY_HEADER_BYTES = 6;
export const RUN_HEADER_BYTES = 4;
/** A further run costs 4 bytes and leaves out at least 16. */
const ENTRY_BYTES_MAX = ENTRY_HEADER_BYTES + RUN_HEADER_BYTES + PAGE_BYTES;
export const WORD_BYTES = 8;

/** Collects page entries and hands them out when there are many; `end` hands out the rest. */
export class PageEntries {
  readonly #sink: PageSink;
  readonly #chunk: Uint8Array;
  readonly #view: DataView;
  #length = 0;
  #entries = 0;

  /** Makes a patch for at most `pagesMax` pages. */
  constructor(sink: PageSink, pagesMax: number) {
    this.#sink = sink;
    this.#chunk = new Uint8Array(Math.min(CHUNK_BYTES, pagesMax * ENTRY_BYTES_MAX));
    this.#view = new DataView(this.#chunk.buffer);
  }

  /** The page that begins at `content[at]`, in one run; nothing if it is all zeros, unless those are wanted. */
  addWhole(page: number, content: Uint8Array, at: number, withZeros = false): void {
    if (!withZeros && ZERO_PAGE.compare(content, at, at + PAGE_BYTES) === 0) return;
    const entry = this.#room();
    this.#length = this.#putRun(entry + ENTRY_HEADER_BYTES, content, at, 0, PAGE_BYTES);
    this.#finish(entry, page, 1);
  }

  /**
   * Adds the page that begins at `content[at]` and was zeros before: in one run from its first nonzero word to its
   * last, which is quicker than `addChanged`, unless most words between them seem to be zeros. Adds nothing if all
   * words are zeros.
   */
  addFilled(page: number, content: Uint8Array, at: number): void {
    const words = wordsOf(content, at);
    let first = 0;
    let end = words.length;
    while (first < end && isZero(words, first)) first += 2;
    while (end > first && isZero(words, end - 2)) end -= 2;
    if (first === end) return;
    if (seemsSparse(words, first, end)) {
      this.addChanged(page, undefined, 0, content, at);
      return;
    }
    const entry = this.#room();
    this.#length = this.#putRun(entry + ENTRY_HEADER_BYTES, content, at, first * 4, end * 4);
    this.#finish(entry, page, 1);
  }

  /**
   * Adds the differences between the page that begins at `before[beforeAt]`, zeros if undefined, and the one at
   * `after[afterAt]`.
   */
  addChanged(page: number, before: Uint8Array | undefined, beforeAt: number, after: Uint8Array, afterAt: number): void {
    const old = before === undefined ? ZEROS : wordsOf(before, beforeAt);
    const now = wordsOf(after, afterAt);
    const entry = this.#room();
    let end = entry + ENTRY_HEADER_BYTES;
    let runs = 0;
    let runStart = 0;
    let runEnd = -1;
    for (let half = 0; half < now.length; half += 2) {
      if (now[half] === old[half] && now[half + 1] === old[half + 1]) continue;
      const offset = half * 4;
      if (runEnd < 0 || offset - runEnd > WORD_BYTES) {
        if (runEnd >= 0) end = this.#putRun(end, after, afterAt, runStart, runEnd);
        runs++;
        runStart = offset;
      }
      runEnd = offset + WORD_BYTES;
    }
    if (runs === 0) return;
    this.#length = this.#putRun(end, after, afterAt, runStart, runEnd);
    this.#finish(entry, page, runs);
  }

  /** Hands out what is there. */
  end(): void {
    if (this.#entries > 0) this.#sink(this.#entries, this.#chunk.subarray(0, this.#length));
    this.#entries = 0;
    this.#length = 0;
  }

  /** Returns the place of the next entry; there is room for the largest. */
  #room(): number {
    if (this.#length > this.#chunk.length - ENTRY_BYTES_MAX) this.end();
    return this.#length;
  }

  #putRun(at: number, content: Uint8Array, page: number, start: number, end: number): number {
    this.#view.setUint16(at, start, true);
    this.#view.setUint16(at + 2, end - start, true);
    copyBytes(content, page + start, this.#chunk, at + RUN_HEADER_BYTES, end - start);
    return at + RUN_HEADER_BYTES + end - start;
  }

  #finish(entry: number, page: number, runs: number): void {
    this.#view.setUint32(entry, page, true);
    this.#view.setUint16(entry + 4, runs, true);
    this.#entries++;
  }
}

/** Takes one run of a page; `offset + bytes.length` ≤ PAGE_BYTES. The bytes are a view. */
type RunVisitor = (page: number, offset: number, bytes: Uint8Array) => void;

/**
 * Reads `entries` page entries from `bytes[at]` on, which may be anything, and calls `visit` for each run. Returns
 * where the entries end, or −1 where they are cut off or a run leaves its page; earlier runs have been visited by then.
 */
export function readPageEntries(bytes: Uint8Array, at: number, entries: number, visit: RunVisitor): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const { length } = bytes;
  let next = at;
  for (let entry = 0; entry < entries; entry++) {
    if (length - next < ENTRY_HEADER_BYTES) return -1;
    const page = view.getUint32(next, true);
    let runs = view.getUint16(next + 4, true);
    next += ENTRY_HEADER_BYTES;
    for (; runs > 0; runs--) {
      if (length - next < RUN_HEADER_BYTES) return -1;
      const offset = view.getUint16(next, true);
      const runBytes = view.getUint16(next + 2, true);
      next += RUN_HEADER_BYTES;
      if (offset + runBytes > PAGE_BYTES || length - next < runBytes) return -1;
      visit(page, offset, bytes.subarray(next, next + runBytes));
      next += runBytes;
    }
  }
  return next;
}

const ZEROS = new Int32Array(PAGE_BYTES / 4);
/** Compared by the C library: most of a heap that was just made is zeros. */
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

/** Halves between two words that are looked at, in no step with how objects lie. */
const SPARSE_STRIDE = 38;

/**
 * Returns true if more than half of some words from `first` up to `end` seem to be zeros, by a sample; both are even.
 */
function seemsSparse(words: Int32Array, first: number, end: number): boolean {
  let balance = 0;
  for (let half = first; half < end; half += SPARSE_STRIDE) balance += isZero(words, half) ? 1 : -1;
  return balance > 0;
}

/** Returns true if both halves of a word are zeros. */
function isZero(words: Int32Array, half: number): boolean {
  return words[half] === 0 && words[half + 1] === 0;
}

/** A page as 32-bit halves of words: comparing those makes neither BigInts nor NaNs. */
function wordsOf(content: Uint8Array, at: number): Int32Array {
  return new Int32Array(content.buffer, content.byteOffset + at, PAGE_BYTES / 4);
}
