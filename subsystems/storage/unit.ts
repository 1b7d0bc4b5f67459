/**
 * A unit's operations: all of them in one array, or pieces of whole operations, in their order. Large units come in
 * pieces, which are never copied together; in the step log there is no difference.
 */
export type Unit = Uint8Array | readonly Uint8Array[];

export function piecesOf(unit: Unit): readonly Uint8Array[] {
  return unit instanceof Uint8Array ? [unit] : unit;
}

export function bytesOf(unit: Unit): number {
  if (unit instanceof Uint8Array) return unit.length;
  let bytes = 0;
  for (const { length } of unit) bytes += length;
  return bytes;
}

/** Views of the bytes from `from` to `to`, as if the pieces were one array. */
export function slicesOf(unit: Unit, from: number, to: number): readonly Uint8Array[] {
  const slices: Uint8Array[] = [];
  let at = 0;
  for (const piece of piecesOf(unit)) {
    const [start, end] = [Math.max(from - at, 0), Math.min(to - at, piece.length)];
    if (start < end) slices.push(piece.subarray(start, end));
    at += piece.length;
  }
  return slices;
}
