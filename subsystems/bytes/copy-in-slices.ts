import { TimeSlices } from '../../kernel/index.ts';

/** Under a millisecond, with the memory that is touched for the first time. */
const PIECE_BYTES = 1 << 20;

/**
 * Returns a copy to give to another thread. A message that is posted without being transferred is copied at once, with
 * all of the buffer that it is a part of: 100 MiB hold the main thread for 60 ms. The source must not change meanwhile.
 */
export async function copyInSlices(source: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const { length } = source;
  if (length <= PIECE_BYTES) return new Uint8Array(source);
  // Not of zeros: those would be written at once, too.
  const copy = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
  const slices = new TimeSlices();
  for (let at = 0; at < length; at += PIECE_BYTES) {
    copy.set(source.subarray(at, at + PIECE_BYTES), at);
    if (slices.isOver) await slices.next();
  }
  return copy;
}
