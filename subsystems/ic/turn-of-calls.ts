/** What one turn of the main thread's event loop reads or sends of calls (ADR 73). Plain counts. */
import type { OutgoingCall } from './step.ts';

/** Some milliseconds with a state directory. */
export const CALLS_PER_TURN = 250;
/** Of arguments and names of methods, which are copied where state is kept; one call has up to ten times as many. */
export const CALL_BYTES_PER_TURN = 1 << 20;

export class TurnOfCalls {
  #calls = 0;
  #bytes = 0;

  add({ method, payload }: OutgoingCall): void {
    this.#calls++;
    this.#bytes += method.length + payload.length;
  }

  /** The next call belongs to another turn. */
  get isFull(): boolean {
    return this.#calls >= CALLS_PER_TURN || this.#bytes >= CALL_BYTES_PER_TURN;
  }

  begin(): void {
    this.#calls = 0;
    this.#bytes = 0;
  }

  /** Tells whether calls take more than one turn. */
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
