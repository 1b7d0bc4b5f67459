/** Bytes below which a loop beats `set`, which needs a view object of the source. */
const LOOP_BYTES_MAX = 48;

/** Copies `length` bytes of `source` from `from` to `target` at `at`; the ranges must lie within both. */
export function copyBytes(source: Uint8Array, from: number, target: Uint8Array, at: number, length: number): void {
  if (length <= LOOP_BYTES_MAX) {
    for (let i = 0; i < length; i++) target[at + i] = source[from + i] ?? 0;
  } else {
    target.set(source.subarray(from, from + length), at);
  }
}

/** A copy of `length` bytes of `source` from `from`. */
export function sliceBytes(source: Uint8Array, from: number, length: number): Uint8Array {
  if (length > LOOP_BYTES_MAX) return source.slice(from, from + length);
  const copy = new Uint8Array(length);
  for (let i = 0; i < length; i++) copy[i] = source[from + i] ?? 0;
  return copy;
}
