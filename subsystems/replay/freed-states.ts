import { collectGarbage } from '../threads/index.ts';

/** States of so many bytes are freed at once; smaller ones may wait for V8, 500 at most. */
const LARGE_BYTES = 2 ** 18;

/**
 * Frees states of that size which nobody refers to, before the next one is read: 45 MB of shared bytes are a small
 * object to V8.
 */
export function freeStates({
  heapBytes,
  stableBytes,
}: {
  readonly heapBytes: number;
  readonly stableBytes: number;
}): void {
  if (heapBytes + stableBytes >= LARGE_BYTES) collectGarbage('young');
}
