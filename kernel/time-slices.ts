import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * How long work may keep the main thread before everything else has its turn. Goals for a whole slice are 5 ms; the last
 * step of one may be long, and something else may be done in the same turn.
 */
const SLICE_MS = 2;

/** Cuts long work into slices: whoever works asks after each step, and waits for the next turn when a slice is over. */
export class TimeSlices {
  readonly #nowMs: () => number;
  #beganMs: number;

  /** `nowMs` is a clock that only goes on. A simulation brings its own, so that a busy machine does not change what a seed does. */
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
