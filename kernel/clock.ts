import { defineCapability } from './capability.ts';

/** Where time comes from, so that tests and replay can replace it. */
export interface Clock {
  /** Milliseconds since 1970 with a fraction of at least microseconds; never decreasing. */
  nowMs(): number;
}
export const Clock = defineCapability<Clock>('clock');

/** The machine's clock, made monotone: it starts at the wall clock and then follows the steady one. */
export const systemClock: Clock = { nowMs: () => performance.timeOrigin + performance.now() };
