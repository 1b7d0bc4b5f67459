/** Limits on the calls that one turn of the main thread's event loop reads or sends (ADR 73). Plain counts. */
import type { OutgoingCall } from './step.ts';

/** Number of calls that take some milliseconds with a state directory. */
export const CALLS_PER_TURN = 250;
/**
 * Bytes of arguments and method names, which are copied if state is kept and they are not stored already; one call has
 * up to ten times as many.
 */
export const CALL_BYTES_PER_TURN = 1 << 20;

export class TurnOfCalls {
  #calls = 0;
  #bytes = 0;

  add({ method, payload, storedAs }: OutgoingCall): void {
    this.#calls++;
    this.#bytes += method.length + (storedAs === undefined ? payload.length : storedAs.length);
  }

  /** True if the next call belongs to another turn. */
  get isFull(): boolean {
    return this.#calls >= CALLS_PER_TURN || this.#bytes >= CALL_BYTES_PER_TURN;
  }

  begin(): void {
    this.#calls = 0;
    this.#bytes = 0;
  }

  /** Returns true if these calls take more than one turn. */
  static isTooSmallFor(calls: readonly OutgoingCall[]): boolean {
    if (calls.length < 2) return false;
    if (calls.length > CALLS_PER_TURN) return true;
    const turn = new TurnOfCalls();
    for (const call of calls) {
      if (turn.isFull) return true;
      turn.add(call);
    }
    return false;
  }
}
