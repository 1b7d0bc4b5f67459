/**
 * Whose turn it is in each lane (executor thread).
 *
 * The window is how far the main thread runs ahead of an executor: large enough that an executor never waits for the
 * main thread while there is work (a wake-up costs more than a message), small enough that turns stay fair.
 *
 * Main thread; counts and lists.
 */
import type { Agenda, Waiting } from './agenda.ts';
import { Queue } from './queue.ts';

/** Tasks handed to one executor and not yet ended. A task of a few µs each: about a millisecond of work ahead. */
const LANE_WINDOW = 128;

/** One executor thread as the scheduler sees it. */
export class Lane {
  executing = 0;
  /** Canisters with something to do, in the order of their turns. */
  readonly #turns = new Queue<Agenda>();
  readonly #start: (agenda: Agenda, lane: Lane, waiting: Waiting) => void;

  constructor(start: (agenda: Agenda, lane: Lane, waiting: Waiting) => void) {
    this.#start = start;
  }

  giveTurn(agenda: Agenda): void {
    if (!agenda.hasWork || agenda.work.hasTurn) return;
    agenda.work.hasTurn = true;
    this.#turns.push(agenda);
  }

  /** Gives out turns while the window has room. */
  fill(): void {
    while (this.executing < LANE_WINDOW) {
      const agenda = this.#turns.shift();
      if (agenda === undefined) return;
      agenda.work.hasTurn = false;
      const waiting = agenda.take();
      // Undefined: what comes first waits for an execution that is under way; its end gives the next turn.
      if (waiting === undefined) continue;
      this.#start(agenda, this, waiting);
      this.giveTurn(agenda);
    }
  }
}
