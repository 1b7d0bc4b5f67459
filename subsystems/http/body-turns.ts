/**
 * Bounds the bytes of bodies that are read in one turn of the event loop, over all connections.
 *
 * The system hands over what a connection has sent in up to 32 reads of 64 KiB in a row, and all connections in one
 * turn: 250 clients that sent 1 MB each at once made turns of 110 ms of CPU, and on a busy machine others waited for
 * 400 ms. So behind the bytes of a turn, bodies that are not whole wait in line, and some go on in each of the next
 * turns. One that is stopped has taken a piece more, which waits in its stream: 64 KiB a connection. Small bodies come
 * whole in their first piece, and are never stopped. Main thread.
 */
import type { IncomingMessage } from 'node:http';

/** Two milliseconds: to allocate, to read and to copy. */
const TURN_BYTES_MAX = 2 * 1024 * 1024;
/** Bodies that go on in a turn: each has a piece of 64 KiB waiting, and may read that many again. */
const RESUMED_MAX = 8;

type Body = Pick<IncomingMessage, 'pause' | 'resume'>;

export class BodyTurns {
  readonly #line: Body[] = [];
  readonly #afterTurn: (next: () => void) => void;
  #bytes = 0;
  #isTurnOpen = false;

  /** A test has turns of its own. */
  constructor(afterTurn: (next: () => void) => void = setImmediate) {
    this.#afterTurn = afterTurn;
  }

  /** Counts a piece of a body of which more will come. Stops the body for a turn or more if this turn is full. */
  took(body: Body, bytes: number): void {
    this.#openTurn();
    this.#bytes += bytes;
    if (this.#bytes < TURN_BYTES_MAX) return;
    body.pause();
    this.#line.push(body);
  }

  #openTurn(): void {
    if (this.#isTurnOpen) return;
    this.#isTurnOpen = true;
    this.#bytes = 0;
    this.#afterTurn(this.#nextTurn);
  }

  readonly #nextTurn = (): void => {
    this.#isTurnOpen = false;
    if (this.#line.length === 0) return;
    this.#openTurn();
    for (const body of this.#line.splice(0, RESUMED_MAX)) body.resume();
  };
}
