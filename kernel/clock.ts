import { defineCapability } from './capability.ts';

/** Where time comes from, and what is to happen later, so that tests and replay can replace both. */
export interface Clock {
  /** Milliseconds since 1970 with a fraction of at least microseconds; never decreasing. */
  nowMs(): number;
  /**
   * Calls `work` once, when so many milliseconds have passed; disposing of what is returned cancels that. A timer keeps
   * no process alive: whoever waits for something has another reason to be there.
   */
  after(ms: number, work: () => void): Disposable;
  /** Calls `work` every so many milliseconds until what is returned is disposed of. */
  every(ms: number, work: () => void): Disposable;
}
export const Clock = defineCapability<Clock>('clock');

/** Asked for once: each time costs as much as the clock itself, and every request reads that several times. */
const ORIGIN_MS = performance.timeOrigin;

/** The machine's clock, made monotone: it starts at the wall clock and then follows the steady one. */
export const systemClock: Clock = {
  nowMs: () => ORIGIN_MS + performance.now(),
  // Node's own timers can be disposed of.
  after: (ms, work) => setTimeout(work, ms).unref(),
  every: (ms, work) => setInterval(work, ms).unref(),
};

/** Resolves when so many milliseconds have passed. */
export function sleep(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}
