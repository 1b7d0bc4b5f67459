/**
 * Gives the pages of memories back to the machine once nobody uses them any more: small memories at once, large ones
 * some MiB at a time.
 *
 * V8 unmaps a memory when it collects it, in the thread that had it, and in one go: more than a second for 3 GiB on a
 * busy machine, while everybody on that executor waits. Small memories would need a collection, of some 50 ms, before
 * anybody else could have their pages. JavaScript has no way to give pages back, so `madvise` of the C library does it,
 * reached through `node:ffi`, which is experimental: where that is missing (Node 24, another system, `--permission`),
 * memories are left to the collector as they are.
 *
 * Executor thread; touches memories that no canister has.
 */

/** Gives back the pages of a part of a memory, which reads as zeros afterwards. */
type DiscardPages = (buffer: ArrayBufferLike, from: number, length: number) => void;

/** Bytes given back in one go: two milliseconds, or five on a busy machine. Untouched pages take no time. */
const PIECE_BYTES = 8 * 2 ** 20;
/**
 * Memories that wait while smaller ones may wait, too. Each keeps 8 or 16 GiB of address space, and messages can leave
 * more of them than there are pauses: beyond so many, one of up to PROMPT_BYTES_MAX goes at once.
 */
const WAITING_MAX = 16;
const PROMPT_BYTES_MAX = 4 * PIECE_BYTES;

interface Returned {
  readonly buffer: ArrayBufferLike;
  /** Bytes that are counted for the memory, less those that have been given back. */
  countedBytes: number;
  readonly freed: (bytes: number) => void;
}

export class PageReturns {
  readonly #open: () => DiscardPages;
  #discard: DiscardPages | undefined;
  #isUnavailable = false;
  readonly #queue: Returned[] = [];
  /** Bytes of the first memory of the queue that have been given back. */
  #at = 0;
  /** Memories that have waited so far, and those of them that have been given back: the first ones that came. */
  #queued = 0;
  #returned = 0;

  /** `open` is called when the first memory comes, and throws if pages cannot be given back. */
  constructor(open: () => DiscardPages = unavailable) {
    this.#open = open;
  }

  get hasWork(): boolean {
    return this.#queue.length > 0;
  }

  /** Number of memories that wait. */
  get count(): number {
    return this.#queue.length;
  }

  /** Returns a function that tells if all memories are back that wait now. */
  all(): () => boolean {
    const last = this.#queued;
    return () => this.#returned >= last;
  }

  /** Bytes that are counted for the waiting memories, less those that have been given back. */
  get countedBytes(): number {
    return this.#queue.reduce((sum, { countedBytes }) => sum + countedBytes, 0);
  }

  /**
   * Takes a memory that nothing may use any more, and calls `freed` with the bytes of each piece that is given back, of
   * the `countedBytes` that are counted for the memory: at once if they are one piece, or if many memories wait.
   * Returns false, and does nothing, if pages cannot be given back.
   */
  add({ buffer }: WebAssembly.Memory, countedBytes: number, freed: (bytes: number) => void): boolean {
    if (!this.#canDiscard()) return false;
    const promptMax = this.#queue.length < WAITING_MAX ? PIECE_BYTES : PROMPT_BYTES_MAX;
    if (countedBytes > promptMax) {
      this.#queue.push({ buffer, countedBytes, freed });
      this.#queued++;
    } else {
      this.#discard?.(buffer, 0, buffer.byteLength);
      freed(countedBytes);
    }
    return true;
  }

  /** Gives back one piece; returns false if there is none. */
  work(): boolean {
    const [first] = this.#queue;
    if (first === undefined) return false;
    const { buffer } = first;
    const length = Math.min(PIECE_BYTES, buffer.byteLength - this.#at);
    this.#discard?.(buffer, this.#at, length);
    this.#at += length;
    const isLast = this.#at >= buffer.byteLength;
    const freedBytes = isLast ? first.countedBytes : Math.min(length, first.countedBytes);
    first.countedBytes -= freedBytes;
    if (isLast) {
      this.#queue.shift();
      this.#returned++;
      this.#at = 0;
    }
    first.freed(freedBytes);
    return true;
  }

  #canDiscard(): boolean {
    if (this.#isUnavailable) return false;
    try {
      this.#discard ??= this.#open();
    } catch {
      this.#isUnavailable = true;
    }
    return !this.#isUnavailable;
  }
}

function unavailable(): never {
  throw new Error('nobody gives pages back here');
}

/** The part of `node:ffi` that is used. A library of null is the process itself. */
interface ForeignFunctions {
  dlopen(
    library: null,
    signatures: {
      readonly madvise: { readonly arguments: readonly ['uint64', 'uint64', 'int32']; readonly return: 'int32' };
    },
  ): { readonly functions: { madvise(address: bigint, length: bigint, advice: number): number } };
  getRawPointer(buffer: ArrayBufferLike): bigint;
}

/** Advice to take the pages of private memory back at once. */
const MADV_DONTNEED = 4;

/** Returns the function of the system. Throws if it cannot be reached, which is no bug. */
export function openDiscard(): DiscardPages {
  // The same advice keeps the content on other systems.
  if (process.platform !== 'linux') throw new Error(`madvise of ${process.platform} means something else`);
  const emitWarning = process.emitWarning.bind(process);
  // Node would warn that the module is experimental, and an operator can do nothing about it.
  process.emitWarning = () => undefined;
  try {
    const ffi = process.getBuiltinModule('node:ffi') as unknown as ForeignFunctions | undefined;
    if (ffi === undefined) throw new Error(`Node ${process.versions.node} has no node:ffi`);
    const { functions } = ffi.dlopen(null, {
      madvise: { arguments: ['uint64', 'uint64', 'int32'], return: 'int32' },
    });
    return (buffer, from, length) =>
      // A refusal leaves the pages to the collector.
      void functions.madvise(ffi.getRawPointer(buffer) + BigInt(from), BigInt(length), MADV_DONTNEED);
  } finally {
    process.emitWarning = emitWarning;
  }
}
