/**
 * Wakes the thread at the other end of a ring before something is published for it: while the record is being made
 * elsewhere, a sleeping core wakes up (30 to 50 µs), and the thread looks for the record until it comes. That pays only
 * if the record comes soon, as a rule, so the same gate decides as for all looking (spin-gate.ts).
 *
 * Main thread.
 */
import type { RingProducer } from './message-ring.ts';
import { SpinGate } from './spin-gate.ts';

export class EarlyWake {
  readonly #ring: RingProducer;
  readonly #withinMs: number;
  readonly #gate: SpinGate;
  #isDue = false;
  /** Time at which the thread was woken for something that has not been published yet. */
  #wokenMs: number | undefined;

  /** `withinMs`: so long the thread looks for a record that it was woken for. */
  constructor(ring: RingProducer, withinMs: number, gate: SpinGate = new SpinGate()) {
    this.#ring = ring;
    this.#withinMs = withinMs;
    this.#gate = gate;
  }

  /**
   * Announces that something is to be published soon. The thread is woken behind what else this turn of the event loop
   * sends: that leads to it.
   */
  expect(): void {
    if (this.#isDue || this.#ring.isHeard) return;
    // The thread sleeps again.
    this.#tell(false);
    if (!this.#gate.opens()) return;
    this.#isDue = true;
    setImmediate(this.#wake);
  }

  readonly #wake = (): void => {
    this.#isDue = false;
    if (this.#ring.rouse()) this.#wokenMs = performance.now();
  };

  /** Something is about to be published. */
  comes(): void {
    if (this.#wokenMs !== undefined) this.#tell(performance.now() - this.#wokenMs < this.#withinMs);
  }

  #tell(isInTime: boolean): void {
    if (this.#wokenMs === undefined) return;
    this.#wokenMs = undefined;
    this.#gate.tell(isInTime);
  }
}
