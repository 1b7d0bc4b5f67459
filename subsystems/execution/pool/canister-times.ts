/**
 * What canisters see as time where the clock is behind that.
 *
 * Time never goes back for a canister. A host that ran with its clock 100 hours ahead, and starts again with the right one,
 * has canisters whose last messages lie in the future. If their time stood still until the clock had caught up, nothing that
 * they wait for would come: a timer that such a canister sets is due a second after the time that it sees. So their time
 * goes on from there. It goes a little slower than the clock, so that it is right again one day: what was a second ahead
 * after ten seconds, what was 100 hours ahead after six weeks.
 *
 * The clock of one process never goes back, so only canisters that come from a state directory can be ahead.
 *
 * Main thread; reads the clock.
 */
import type { Clock } from '../../../kernel/index.ts';

/** How much of each second is not counted until the clock has caught up. */
const SLOWDOWN = 0.1;

interface Lead {
  /** How far the canister was ahead of the clock, and when, ms. */
  readonly aheadMs: number;
  readonly sinceMs: number;
}

export class CanisterTimes {
  readonly #clock: Pick<Clock, 'nowMs'>;
  /** Of those that are ahead; nearly always there are none. */
  readonly #leads = new Map<number, Lead>();

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** A canister has seen this time, ms since 1970: its time goes on from there. */
  goOn(handle: number, instantMs: number): void {
    const sinceMs = this.#clock.nowMs();
    if (instantMs > sinceMs) this.#leads.set(handle, { aheadMs: instantMs - sinceMs, sinceMs });
  }

  /** Ms by which a canister's time is ahead of the clock now. */
  aheadOf(handle: number): number {
    if (this.#leads.size === 0) return 0;
    const lead = this.#leads.get(handle);
    if (lead === undefined) return 0;
    const leftMs = lead.aheadMs - (this.#clock.nowMs() - lead.sinceMs) * SLOWDOWN;
    if (leftMs > 0) return leftMs;
    this.#leads.delete(handle);
    return 0;
  }

  /** Ms since 1970 as a message of the canister that begins now sees it. */
  nowOf(handle: number): number {
    return this.#clock.nowMs() + this.aheadOf(handle);
  }

  forget(handle: number): void {
    this.#leads.delete(handle);
  }
}
