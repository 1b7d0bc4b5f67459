import { ServerError } from '../../kernel/index.ts';

/** The granule of stable memory: what is allocated, journalled, charged and stored as one. */
export const STABLE_GRANULE_BYTES = 4096;
const SLAB_SLOTS = 256;

/**
 * The memory behind every stable memory of one executor thread: slots of 4 KiB, cut from slabs of 1 MiB.
 *
 * One pool for all canisters keeps a page free of JavaScript objects of its own (a page is a number here), lets
 * what one canister gives back serve the next, and gives the thread one number that bounds it: `bytesMax`.
 */
export class StablePagePool {
  readonly #slotsMax: number;
  readonly #slabs: Uint8Array[] = [];
  readonly #free: number[] = [];
  #issued = 0;

  constructor(bytesMax: number) {
    this.#slotsMax = Math.floor(bytesMax / STABLE_GRANULE_BYTES);
  }

  /** Slots in use. */
  get used(): number {
    return this.#issued - this.#free.length;
  }

  /** How many slots can still be taken. */
  get left(): number {
    return this.#slotsMax - this.used;
  }

  /** A slot with undefined content, unless `isZeroed`. Throws ServerError `stable-memory-exhausted` when the thread has none left. */
  take(isZeroed: boolean): number {
    const free = this.#free.pop();
    if (free !== undefined) {
      if (isZeroed) {
        const start = StablePagePool.offsetOf(free);
        this.slabOf(free).fill(0, start, start + STABLE_GRANULE_BYTES);
      }
      return free;
    }
    if (this.#issued >= this.#slotsMax) throw exhausted(this.#slotsMax);
    if (this.#issued % SLAB_SLOTS === 0) this.#slabs.push(newSlab(this.#slotsMax));
    return this.#issued++;
  }

  give(slot: number): void {
    this.#free.push(slot);
  }

  /** The slab that holds `slot`; the slot begins at `offsetOf(slot)` in it. */
  slabOf(slot: number): Uint8Array {
    const slab = this.#slabs[slot >> 8];
    if (slab === undefined) throw new Error(`stable page slot ${slot} was never issued`);
    return slab;
  }

  static offsetOf(slot: number): number {
    return (slot & (SLAB_SLOTS - 1)) * STABLE_GRANULE_BYTES;
  }
}

function newSlab(slotsMax: number): Uint8Array {
  try {
    return new Uint8Array(SLAB_SLOTS * STABLE_GRANULE_BYTES);
  } catch (cause) {
    throw exhausted(slotsMax, cause);
  }
}

function exhausted(slotsMax: number, cause?: unknown): ServerError {
  const mebibytes = (slotsMax * STABLE_GRANULE_BYTES) / (1 << 20);
  return new ServerError(
    'unavailable',
    'stable-memory-exhausted',
    `stable memory: this executor holds at most ${mebibytes} MiB of written stable pages for all its canisters, and they are used up`,
    { cause },
  );
}
