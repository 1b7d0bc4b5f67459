/**
 * Tells steps that make many calls one after the other; each takes several turns of the event loop (ADR 73). Later
 * records of the same thread wait meanwhile, so the order of a thread stays.
 *
 * Main thread.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Queue of large steps; one for all threads. */
export class LargeSteps {
  #last: Promise<void> = Promise.resolve();

  /**
   * Calls `tell` when earlier large steps have been told and their changes are a unit: units would grow without end if
   * two actors made such steps in turns. Resolves when the result of `tell` does.
   */
  inTurn(tell: () => Promise<void> | void): Promise<void> {
    const told = this.#last.then(tell);
    const sealed = async (): Promise<void> => nextTurn();
    this.#last = told.then(sealed, sealed);
    return told;
  }
}
