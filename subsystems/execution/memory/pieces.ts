/** Executor thread: the host's own work for a message, where that may be gigabytes. Touches nothing. */

/** Work that stops where others may be let in. It has to be gone on with: half of it is nothing. */
export type Pieces = Generator<void, void, void>;

/** Does all of it, and lets nobody in; returns what it returns. */
export function inOneGo<T>(pieces: Generator<void, T, void>): T {
  for (;;) {
    const next = pieces.next();
    if (next.done === true) return next.value;
  }
}

/** Bytes that are copied between two pauses: under a millisecond, or some, where each page is a fault of its own. */
const COPIED_BYTES = 1 << 20;

/** Copies to the beginning of what `to` returns, which is asked for anew after each pause, as `from` is. */
export function* copyBytesInPieces(length: number, from: () => Uint8Array, to: () => Uint8Array): Pieces {
  for (let at = 0; at < length; at += COPIED_BYTES) {
    if (at > 0) yield;
    to().set(from().subarray(at, Math.min(length, at + COPIED_BYTES)), at);
  }
}
