/**
 * Steps that make many calls are told one after the other, and take several turns of the event loop each (ADR 73). What came behind one
 * from the same thread waits meanwhile, so the order of a thread stays.
 *
 * Main thread.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** One for all threads. */
export class LargeSteps {
  #last: Promise<void> = Promise.resolve();

  /**
   * Calls `tell` when the steps before have been told, and what they changed is a unit: units would grow without end if two actors
   * made such steps in turns. Resolves when what `tell` has returned does.
   */
  inTurn(tell: () => Promise<void> | void): Promise<void> {
    const told = this.#last.then(tell);
    const sealed = async (): Promise<void> => nextTurn();
    this.#last = told.then(sealed, sealed);
    return told;
  }
}
