/**
 * Few bytes of a page that have changed, over a page below that need not be read for that. A message changes some
 * dozens of bytes of a page: kept so, fifty times as many changed pages wait for the tables in the same memory, and
 * each is read and written once for all of them.
 *
 *     run: u16 offset · u16 length · bytes     little-endian; all runs of a page are one behind the other in an arena
 */
import { copyBytes, NO_BYTES } from '../bytes/index.ts';

/** Bytes of a page's runs with their headers. A page whose runs would take more is kept whole. */
const RUNS_BYTES_MAX = 1024;
/** Bytes that a page's runs get at first; they double when they need more. */
const FIRST_BYTES = 64;
const HEADER_BYTES = 4;
/** Bytes of a piece of the arena: so few that a layer with few pages takes little. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Memory for the runs of a layer's pages: pieces of a few large buffers, which V8 need not look after one by one.
 * Nothing is given back before all of it is.
 */
export class RunArena {
  #chunk = new Uint8Array(0);
  #used = 0;
  /** Bytes that were taken, including pieces that pages have grown out of. */
  bytes = 0;

  /** A piece of so many bytes, at most 1,024; zeros. */
  take(bytes: number): { readonly chunk: Uint8Array; readonly at: number } {
    if (this.#used + bytes > this.#chunk.length) {
      this.#chunk = new Uint8Array(CHUNK_BYTES);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += bytes;
    this.bytes += bytes;
    return { chunk: this.#chunk, at };
  }
}

/** The runs of one page. Every run has the newest bytes of where it lies, so their order does not matter. */
export class PageRuns {
  #chunk: Uint8Array = NO_BYTES;
  #at = 0;
  #length = 0;
  #room = 0;

  /** Adds a run. False: that would be too much, and the page is to be kept whole: `putOn` it, then the run. */
  add(offset: number, bytes: Uint8Array, arena: RunArena): boolean {
    if (this.#overwrite(offset, bytes)) return true;
    const length = this.#length + HEADER_BYTES + bytes.length;
    if (length > RUNS_BYTES_MAX) return false;
    if (length > this.#room) this.#grow(length, arena);
    const chunk = this.#chunk;
    const at = this.#at + this.#length;
    chunk[at] = offset;
    chunk[at + 1] = offset >>> 8;
    chunk[at + 2] = bytes.length;
    chunk[at + 3] = bytes.length >>> 8;
    copyBytes(bytes, 0, chunk, at + HEADER_BYTES, bytes.length);
    this.#length = length;
    return true;
  }

  /** Puts the runs on the page below. */
  putOn(page: Uint8Array): void {
    const end = this.#at + this.#length;
    for (let at = this.#at; at < end;) {
      const length = u16(this.#chunk, at + 2);
      copyBytes(this.#chunk, at + HEADER_BYTES, page, u16(this.#chunk, at), length);
      at += HEADER_BYTES + length;
    }
  }

  /** Gives runs that are there the bytes that they share with a new one. True: one of them has all of these. */
  #overwrite(offset: number, bytes: Uint8Array): boolean {
    let isWithin = false;
    const chunk = this.#chunk;
    const end = this.#at + this.#length;
    for (let at = this.#at; at < end;) {
      const from = u16(chunk, at);
      const to = from + u16(chunk, at + 2);
      at += HEADER_BYTES;
      const first = Math.max(from, offset);
      const last = Math.min(to, offset + bytes.length);
      if (first < last) copyBytes(bytes, first - offset, chunk, at + first - from, last - first);
      isWithin ||= last - first === bytes.length;
      at += to - from;
    }
    return isWithin;
  }

  #grow(length: number, arena: RunArena): void {
    let room = Math.max(this.#room, FIRST_BYTES);
    while (room < length) room *= 2;
    const { chunk, at } = arena.take(room);
    chunk.set(this.#chunk.subarray(this.#at, this.#at + this.#length), at);
    this.#chunk = chunk;
    this.#at = at;
    this.#room = room;
  }
}

function u16(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
}
