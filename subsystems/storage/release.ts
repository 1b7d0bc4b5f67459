/** Smaller ones are not worth it. */
const BYTES_MIN = 64 * 1024;

/** Returns true if an array is large and has all of its buffer, so that it can be handed on instead of copied. */
export function isLarge({ buffer, length }: Uint8Array): boolean {
  return length >= BYTES_MIN && buffer.byteLength === length && buffer instanceof ArrayBuffer;
}

/**
 * Gives the memory of a large array back at once, if the array has all of its buffer: V8 counts the memory behind
 * buffers for little, so megabytes that have been copied on would wait long for their collection. The array must not
 * be used any more.
 */
export function release(bytes: Uint8Array): void {
  if (isLarge(bytes)) (bytes.buffer as ArrayBuffer).transfer(0);
}
