import { PAGE_BYTES } from '../bytes/index.ts';

/** Bytes from which on mapping memory pays: it takes some microseconds. */
const MAPPED_BYTES_MIN = 2 ** 20;
/** Pages in a chunk of `StoredPages`, the last one excepted: 4 MiB. */
export const CHUNK_PAGES = 1024;

/**
 * Pages of one memory, as they go from thread to thread. Chunks have buffers of their own: a receiver of gigabytes
 * releases each chunk when it is done with it, and never has all of them twice.
 */
export interface StoredPages {
  /** Ascending. */
  readonly numbers: Uint32Array;
  /** The pages in the same order. */
  readonly chunks: readonly Uint8Array[];
}

/** Puts pages into chunks, as they come. */
export class PageCollector {
  readonly #numbers: number[] = [];
  readonly #chunks: Uint8Array[] = [];
  #waiting: Uint8Array[] = [];
  readonly #chunkDone: () => void;

  /** `chunkDone` is called after each whole chunk: the pages that were added are not needed any more. */
  constructor(chunkDone: () => void = () => undefined) {
    this.#chunkDone = chunkDone;
  }

  add(number: number, page: Uint8Array): void {
    this.#numbers.push(number);
    this.#waiting.push(page);
    if (this.#waiting.length < CHUNK_PAGES) return;
    this.#close();
    this.#chunkDone();
  }

  take(): StoredPages {
    if (this.#waiting.length > 0) this.#close();
    return { numbers: Uint32Array.from(this.#numbers), chunks: this.#chunks };
  }

  #close(): void {
    const chunk = newChunk(this.#waiting.length * PAGE_BYTES);
    for (const [at, page] of this.#waiting.entries()) chunk.set(page, at * PAGE_BYTES);
    this.#chunks.push(chunk);
    this.#waiting = [];
  }
}

/**
 * The C library keeps what is freed of buffers of a few megabytes for the thread that made them. A buffer that could be
 * resized is mapped by V8 itself, and the machine's again when it is let go.
 */
function newChunk(bytes: number): Uint8Array {
  return new Uint8Array(
    bytes < MAPPED_BYTES_MIN ? new ArrayBuffer(bytes) : new ArrayBuffer(bytes, { maxByteLength: bytes }),
  );
}

/** Buffers that can be handed over to another thread, or let go. */
export function buffersOf({ chunks }: StoredPages): ArrayBuffer[] {
  return chunks.map(({ buffer }) => buffer as ArrayBuffer);
}
