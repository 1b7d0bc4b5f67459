/**
 * Time that canisters see if the clock is behind it.
 *
 * Time never goes back for a canister. A host that ran with its clock 100 hours ahead, and starts again with the right
 * one, has canisters whose last messages lie in the future. If their time stood still until the clock had caught up,
 * nothing that they wait for would come: a timer that such a canister sets is due a second after the time that it sees.
 * So their time continues from there, a little slower than the clock, so that it is right again one day: a lead of a
 * second is gone after ten seconds, a lead of 100 hours after six weeks.
 *
 * The clock of one process never goes back, so only canisters that come from a state directory can be ahead.
 *
 * Main thread; reads the clock.
 */
import type { Clock } from '../../../kernel/index.ts';

/** Share of each second that is not counted until the clock has caught up. */
const SLOWDOWN = 0.1;

interface Lead {
  /** Lead of the canister over the clock, and the time at which it was measured, ms. */
  readonly aheadMs: number;
  readonly sinceMs: number;
}

export class CanisterTimes {
  readonly #clock: Pick<Clock, 'nowMs'>;
  /** Leads of canisters that are ahead; nearly always there are none. */
  readonly #leads = new Map<number, Lead>();

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** Continues a canister's time from `instantMs`, ms since 1970, which the canister has already seen. */
  resume(handle: number, instantMs: number): void {
    const sinceMs = this.#clock.nowMs();
    if (instantMs > sinceMs) this.#leads.set(handle, { aheadMs: instantMs - sinceMs, sinceMs });
  }

  /** Returns the ms by which a canister's time is ahead of the clock now. */
  aheadOf(handle: number): number {
    if (this.#leads.size === 0) return 0;
    const lead = this.#leads.get(handle);
    if (lead === undefined) return 0;
    const leftMs = lead.aheadMs - (this.#clock.nowMs() - lead.sinceMs) * SLOWDOWN;
    if (leftMs > 0) return leftMs;
    this.#leads.delete(handle);
    return 0;
  }

  /** Returns the time, in ms since 1970, that a message of the canister sees if it begins now. */
  nowOf(handle: number): number {
    return this.#clock.nowMs() + this.aheadOf(handle);
  }

  forget(handle: number): void {
    this.#leads.delete(handle);
  }
}
