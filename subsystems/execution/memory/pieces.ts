/** Executor thread: the host's own work for a message that may involve gigabytes. Touches nothing. */

/** Work that pauses so that other work can run. It has to be finished: half of it is useless. */
export type Pieces = Generator<void, void, void>;

/** Does all of the work without pauses; returns its result. */
export function inOneGo<T>(pieces: Generator<void, T, void>): T {
  for (;;) {
    const next = pieces.next();
    if (next.done === true) return next.value;
  }
}

/** Bytes that are copied between two pauses: under a millisecond, or a few if each page is a page fault. */
const COPIED_BYTES = 1 << 20;

/** Copies to the beginning of the array that `to` returns. Both `to` and `from` are called anew after each pause. */
export function* copyBytesInPieces(length: number, from: () => Uint8Array, to: () => Uint8Array): Pieces {
  for (let at = 0; at < length; at += COPIED_BYTES) {
    if (at > 0) yield;
    to().set(from().subarray(at, Math.min(length, at + COPIED_BYTES)), at);
  }
}
