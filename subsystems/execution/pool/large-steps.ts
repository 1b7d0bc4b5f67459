/**
 * Steps that make many calls are told one after the other, and take several turns of the event loop each (ADR 73). What came behind one
 * from the same thread waits meanwhile, so the order of a thread stays.
 *
 * Main thread.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CALLS_PER_TURN, CALL_BYTES_PER_TURN, type OutgoingCall } from '../../ic/index.ts';

/** More than one turn may send: so many calls, or so many bytes with more than one. */
export function isLarge(calls: readonly OutgoingCall[]): boolean {
  if (calls.length < 2) return false;
  if (calls.length > CALLS_PER_TURN) return true;
  let bytes = 0;
  for (const { payload } of calls) bytes += payload.length;
  return bytes > CALL_BYTES_PER_TURN;
}

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
