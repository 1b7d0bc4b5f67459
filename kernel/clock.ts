import { defineCapability } from './capability.ts';

/** Source of time and of timers, so that tests and replay can replace both. */
export interface Clock {
  /** Milliseconds since 1970 with a fraction of at least microseconds; never decreasing. */
  nowMs(): number;
  /**
   * Calls `work` once, after `ms` milliseconds; disposing of the returned value cancels the call. A timer does not keep
   * the process alive: code that waits must have another reason to be running.
   */
  after(ms: number, work: () => void): Disposable;
  /** Calls `work` every `ms` milliseconds until the returned value is disposed of. */
  every(ms: number, work: () => void): Disposable;
}
export const Clock = defineCapability<Clock>('clock');

/** Read once: each read costs as much as reading the clock, and every request reads the clock several times. */
const ORIGIN_MS = performance.timeOrigin;

/** The machine's clock, made monotone: it starts at the wall clock's time and then follows the steady clock. */
export const systemClock: Clock = {
  nowMs: () => ORIGIN_MS + performance.now(),
  // Node's own timers can be disposed of.
  after: (ms, work) => setTimeout(work, ms).unref(),
  every: (ms, work) => setInterval(work, ms).unref(),
};

/** Resolves after `ms` milliseconds. */
export function sleep(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}

/**
 * Resolves to true when `work` has resolved, and to false after `ms` milliseconds; `work` goes on then. Rejects as
 * `work` does.
 */
export async function within(clock: Pick<Clock, 'after'>, ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  using _deadline = clock.after(ms, () => late.resolve(false));
  return await Promise.race([work.then(() => true), late.promise]);
}
