/** Smaller ones are not worth it. */
const BYTES_MIN = 64 * 1024;

/** Whether an array is large and has all of its buffer: one that can be handed on instead of copied. */
export function isLarge({ buffer, length }: Uint8Array): boolean {
  return length >= BYTES_MIN && buffer.byteLength === length && buffer instanceof ArrayBuffer;
}

/**
 * Gives the memory of a large array back at once, if it has all of its buffer: V8 counts what is behind buffers for little, and
 * megabytes that have been copied on would wait long for their collection. Nobody may look at it any more.
 */
export function letGo(bytes: Uint8Array): void {
  if (isLarge(bytes)) (bytes.buffer as ArrayBuffer).transfer(0);
}
