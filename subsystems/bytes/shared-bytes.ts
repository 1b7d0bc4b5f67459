/** Bytes that several threads see: to hand them to another thread copies nothing, however many they are. */

/** Zeros, which take no memory before they are written to. Throws RangeError where there is no room for them. */
export function sharedBytes(length: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(length));
}

/** Returns a copy of `length` bytes of `source` from `from`. Throws as `sharedBytes` does. */
export function sharedSlice(source: Uint8Array, from: number, length: number): Uint8Array {
  const copy = sharedBytes(length);
  copy.set(source.subarray(from, from + length));
  return copy;
}

export function isShared({ buffer }: Uint8Array): boolean {
  return buffer instanceof SharedArrayBuffer;
}

const SLAB_BYTES = 1 << 20;

/**
 * Many small stretches of shared bytes, cut from larger ones: each buffer of its own takes a page, and a while to hand
 * over.
 */
export class SharedSlabs {
  #slab: Uint8Array = new Uint8Array(0);
  #used = 0;

  /** Zeros. Throws as `sharedBytes` does. */
  take(length: number): Uint8Array {
    if (length > SLAB_BYTES / 2) return sharedBytes(length);
    if (this.#used + length > this.#slab.length) {
      this.#slab = sharedBytes(SLAB_BYTES);
      this.#used = 0;
    }
    const from = this.#used;
    this.#used += length;
    return this.#slab.subarray(from, from + length);
  }
}
