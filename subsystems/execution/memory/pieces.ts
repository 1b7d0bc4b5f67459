/** Executor thread: the host's own work for a message, where that may be gigabytes. Touches nothing. */

/** Work that stops where others may be let in. It has to be gone on with: half of it is nothing. */
export type Pieces = Generator<void, void, void>;

/** Does all of it, and lets nobody in. */
export function inOneGo(pieces: Pieces): void {
  while (pieces.next().done !== true);
}
