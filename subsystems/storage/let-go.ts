/** Smaller ones are not worth it. */
const BYTES_MIN = 64 * 1024;

/**
 * Gives the memory of a large array back at once, if it has all of its buffer: V8 counts what is behind buffers for little, and
 * megabytes that have been copied on would wait long for their collection. Nobody may look at it any more.
 */
export function letGo({ buffer, length }: Uint8Array): void {
  if (length < BYTES_MIN || buffer.byteLength !== length || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}
