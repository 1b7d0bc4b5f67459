import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Milliseconds that work may occupy the main thread before everything else has its turn. The goal for a whole slice is
 * 5 ms: the last step of a slice may be long, and the same turn may do other work.
 */
const SLICE_MS = 2;

/** Cuts long work into slices: the work asks after each step, and waits for the next turn when a slice is over. */
export class TimeSlices {
  readonly #nowMs: () => number;
  #beganMs: number;

  /**
   * `nowMs` is a monotone clock. A simulation passes its own, so that a busy machine does not change the result of a
   * seed.
   */
  constructor(nowMs = (): number => performance.now()) {
    this.#nowMs = nowMs;
    this.#beganMs = nowMs();
  }

  get isOver(): boolean {
    return this.#nowMs() - this.#beganMs >= SLICE_MS;
  }

  /** Resolves in a later turn of the event loop, where the next slice begins. */
  async next(): Promise<void> {
    await nextTurn();
    this.#beganMs = this.#nowMs();
  }
}
