/** Executor thread: the host's own work for a message that may involve gigabytes. Touches nothing. */

/** Work that pauses so that other work can run. It has to be finished, or undone: half of it is useless. */
export type Pieces = Generator<void, void, void>;

/** Ends work in its pieces: the host no longer wants it, because the canister is being deleted. */
export class Recalled extends Error {
  constructor() {
    super('the actor is being deleted');
  }
}

/**
 * Does work that may be left half done. Throws Recalled into it, and to the caller, once `isRecalled` returns true at a
 * pause.
 */
export function* unlessRecalled<T>(
  pieces: Generator<void, T, void>,
  isRecalled: () => boolean,
): Generator<void, T, void> {
  for (;;) {
    const next = pieces.next();
    if (next.done === true) return next.value;
    if (isRecalled()) pieces.throw(new Recalled());
    yield;
  }
}

/** Does work, and undoes it if it is ended early. */
export function* orUndone(pieces: Pieces, undo: () => void): Pieces {
  try {
    yield* pieces;
  } catch (error) {
    undo();
    throw error;
  }
}

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
