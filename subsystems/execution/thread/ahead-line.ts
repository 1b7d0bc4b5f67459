/**
 * Line of pieces that messages of one thread store ahead: one piece is under way at a time. Pieces of many messages
 * side by side would be one large commit, for which everybody waits.
 *
 * Executor thread; knows handles and operations, and touches no canister.
 */

import type { MessageHooks } from './long-messages.ts';

/** Operations of a message that waits until they are durable. */
interface Piece {
  readonly handle: number;
  readonly changes: readonly Uint8Array[];
  readonly stored: () => void;
}

export class AheadLine {
  readonly #send: (ticket: number, handle: number, changes: readonly Uint8Array[]) => void;
  readonly #waiting: Piece[] = [];
  #underWay: Piece | undefined;
  #tickets = 0;

  /** `send` hands operations over; when they are durable, `stored` has to be called with the ticket. */
  constructor(send: (ticket: number, handle: number, changes: readonly Uint8Array[]) => void) {
    this.#send = send;
  }

  /** Suspends a message by `park` until the changes are durable. Resolves to false if the message was recalled. */
  async store(changes: readonly Uint8Array[], park: MessageHooks['park']): Promise<boolean> {
    let parked = -1;
    const isStored = await park((handle, stored) => {
      parked = handle;
      this.#waiting.push({ handle, changes, stored });
      if (this.#underWay === undefined) this.#next();
    });
    if (!isStored) this.#drop(parked);
    return isStored;
  }

  stored(ticket: number): void {
    if (ticket !== this.#tickets) return;
    this.#underWay?.stored();
    this.#next();
  }

  /** A message is recalled: a piece of it that waits is not stored any more. */
  #drop(handle: number): void {
    const at = this.#waiting.findIndex((piece) => piece.handle === handle);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  #next(): void {
    const piece = (this.#underWay = this.#waiting.shift());
    if (piece !== undefined) this.#send(++this.#tickets, piece.handle, piece.changes);
  }
}
