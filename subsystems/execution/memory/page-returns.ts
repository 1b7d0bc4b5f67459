/**
 * Gives the pages of large memories back to the machine, some MiB at a time, once nobody uses the memory any more.
 *
 * V8 unmaps a memory in one go when it collects it, in the thread that had it: more than a second for 3 GiB on a busy
 * machine, while everybody on that executor waits. JavaScript has no way to give pages back, so `madvise` of the C
 * library does it, reached through `node:ffi`, which is experimental: where that is missing (Node 24, another system,
 * `--permission`), memories are left to the collector as they are.
 *
 * Executor thread; touches memories that no canister has.
 */

/** Gives back the pages of a part of a memory, which reads as zeros afterwards. */
type DiscardPages = (buffer: ArrayBufferLike, from: number, length: number) => void;

/** Memories with fewer bytes are left to the collector: unmapping one takes some milliseconds. */
const RETURNED_BYTES_MIN = 32 * 2 ** 20;
/** Bytes given back in one go: two milliseconds, or five on a busy machine. */
const PIECE_BYTES = 8 * 2 ** 20;

interface Returned {
  readonly buffer: ArrayBufferLike;
  readonly countedBytes: number;
  readonly done: () => void;
}

export class PageReturns {
  readonly #open: () => DiscardPages;
  #discard: DiscardPages | undefined;
  #isUnavailable = false;
  readonly #queue: Returned[] = [];
  /** Bytes of the first memory of the queue that have been given back. */
  #at = 0;

  /** `open` is called when the first large memory comes, and throws if pages cannot be given back. */
  constructor(open: () => DiscardPages = unavailable) {
    this.#open = open;
  }

  get hasWork(): boolean {
    return this.#queue.length > 0;
  }

  /** Bytes of the machine's memory that the waiting memories have, as they were counted when they came. */
  get countedBytes(): number {
    return this.#queue.reduce((sum, { countedBytes }) => sum + countedBytes, 0);
  }

  /**
   * Takes a memory that nothing may use any more, and calls `done` when its pages are given back. Returns false, and
   * does nothing, if the memory is too small or pages cannot be given back.
   */
  add(memory: WebAssembly.Memory, countedBytes: number, done: () => void): boolean {
    if (countedBytes < RETURNED_BYTES_MIN || !this.#canDiscard()) return false;
    this.#queue.push({ buffer: memory.buffer, countedBytes, done });
    return true;
  }

  /** Gives back one piece. */
  work(): void {
    const [first] = this.#queue;
    if (first === undefined) return;
    const { buffer, done } = first;
    const length = Math.min(PIECE_BYTES, buffer.byteLength - this.#at);
    this.#discard?.(buffer, this.#at, length);
    this.#at += length;
    if (this.#at < buffer.byteLength) return;
    this.#queue.shift();
    this.#at = 0;
    done();
  }

  /** Gives back all of them at once. */
  finish(): void {
    while (this.hasWork) this.work();
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
