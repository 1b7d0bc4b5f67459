import { PAGE_BYTES } from '../bytes/index.ts';
import type { CanisterImage } from '../execution/index.ts';
import type { PastPages } from '../timeline/index.ts';

const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

/** Pages that follow each other. */
interface Run {
  readonly from: number;
  readonly to: number;
  readonly bytes: Buffer;
}

/** Reads the pages of a memory in order. Nothing is allocated for a page: a memory may have a hundred thousand. */
export class PageReader {
  readonly #runs: readonly Run[];
  #run = 0;
  #bytes: Buffer = ZERO_PAGE;
  #at = 0;

  private constructor(runs: readonly Run[]) {
    this.#runs = runs.filter(({ from, to }) => from < to).toSorted((a, b) => a.from - b.from);
  }

  static ofPieces(pieces: CanisterImage['stable']): PageReader {
    return new PageReader(
      pieces.map(({ offset, bytes }) => {
        const from = offset / PAGE_BYTES;
        const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
        return { from, to: from + bytes.length / PAGE_BYTES, bytes: all };
      }),
    );
  }

  /** Numbers are in order. */
  static ofPages({ numbers, bytes }: PastPages): PageReader {
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const runs: Run[] = [];
    let begun = 0;
    for (const [at, number] of numbers.entries()) {
      if (numbers[at + 1] === number + 1) continue;
      const from = number + 1 - (at + 1 - begun);
      runs.push({ from, to: number + 1, bytes: all.subarray(begun * PAGE_BYTES, (at + 1) * PAGE_BYTES) });
      begun = at + 1;
    }
    return new PageReader(runs);
  }

  /** Returns the first page from a number on, which must not be less than in a call before; Infinity: there is none. */
  nextFrom(number: number): number {
    for (; ; this.#run++) {
      const run = this.#runs[this.#run];
      if (run === undefined) return Infinity;
      if (number < run.to) return Math.max(number, run.from);
    }
  }

  /** Goes to a page; false: it is not there, and holds zeros. Numbers grow, as for `nextFrom`. */
  seek(number: number): boolean {
    const isThere = this.nextFrom(number) === number;
    const run = isThere ? this.#runs[this.#run] : undefined;
    this.#bytes = run?.bytes ?? ZERO_PAGE;
    this.#at = run === undefined ? 0 : (number - run.from) * PAGE_BYTES;
    return isThere;
  }

  /** The page. */
  get page(): Buffer {
    return this.#bytes.subarray(this.#at, this.#at + PAGE_BYTES);
  }

  equals(other: PageReader): boolean {
    const [from, otherFrom] = [this.#at, other.#at];
    return this.#bytes.compare(other.#bytes, otherFrom, otherFrom + PAGE_BYTES, from, from + PAGE_BYTES) === 0;
  }

  /** Returns the number of bytes that are others. */
  differing(other: PageReader): number {
    const [page, otherPage] = [this.page, other.page];
    let count = 0;
    for (let at = 0; at < PAGE_BYTES; at++) if (page[at] !== otherPage[at]) count++;
    return count;
  }
}
