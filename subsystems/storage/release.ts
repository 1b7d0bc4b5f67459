/** A smaller array is copied instead of handed on. */
const HANDED_ON_BYTES_MIN = 64 * 1024;
/** Giving a buffer back takes 0.3 µs, which the bytes of a smaller one are not worth. */
const RELEASED_BYTES_MIN = 1024;

/** Returns true if an array is large and has all of its buffer, so that it can be handed on instead of copied. */
export function isLarge(bytes: Uint8Array): boolean {
  return bytes.length >= HANDED_ON_BYTES_MIN && hasOwnBuffer(bytes);
}

/**
 * Gives the memory of an array back at once, if the array has all of its buffer: V8 lets 64 MiB of bytes behind buffers
 * wait for a collection, in each thread. The array must not be used any more.
 */
export function release(bytes: Uint8Array): void {
  if (bytes.length >= RELEASED_BYTES_MIN && hasOwnBuffer(bytes)) (bytes.buffer as ArrayBuffer).transfer(0);
}

function hasOwnBuffer({ buffer, length }: Uint8Array): boolean {
  return buffer.byteLength === length && buffer instanceof ArrayBuffer;
}
