/**
 * Heartbeats and global timers: who is due, and when.
 *
 * A beat is skipped only while the canister's previous one is queued or executing; what it started may go on. Missed
 * ticks coalesce: after a pause there is one beat, not many. A timer is turned off before its hook runs, and a hook
 * that traps leaves it off. Stopping and stopped canisters get neither; a timer that fell due meanwhile fires when the
 * canister runs again.
 */
import type { Agenda } from './agenda.ts';

export const HEARTBEAT = 'canister_heartbeat';
export const GLOBAL_TIMER = 'canister_global_timer';

export interface TickingOptions {
  /** 0: no heartbeats. */
  readonly heartbeatMs: number;
  /** How often timers are looked at; 0: never. */
  readonly timerMs: number;
}

export interface TickingHost {
  readonly nowMs: () => number;
  /** A canister's hook is due. */
  readonly due: (agenda: Agenda, exported: string) => void;
  /** Calls with a deadline are looked at as often as timers are. */
  readonly expire: (nowMs: number) => void;
}

/** How often deadlines of calls are looked at when timers are not. */
const EXPIRY_CHECK_MS = 100;
const NS_PER_MS = 1_000_000;

export class Ticking {
  readonly #options: TickingOptions;
  readonly #host: TickingHost;
  /** Canisters with a heartbeat, and with a timer that is set. */
  readonly #beating = new Set<Agenda>();
  readonly #armed = new Set<Agenda>();
  readonly #intervals: NodeJS.Timeout[] = [];

  constructor(options: TickingOptions, host: TickingHost) {
    this.#options = options;
    this.#host = host;
  }

  begin(): void {
    const { heartbeatMs, timerMs } = this.#options;
    if (heartbeatMs > 0) this.#every(heartbeatMs, () => this.#beat());
    this.#every(timerMs > 0 ? timerMs : EXPIRY_CHECK_MS, () => {
      const nowMs = this.#host.nowMs();
      if (timerMs > 0) this.#fire(nowMs);
      this.#host.expire(nowMs);
    });
  }

  end(): void {
    for (const interval of this.#intervals.splice(0)) clearInterval(interval);
  }

  /** Its code or its state has changed. */
  codeChanged(agenda: Agenda): void {
    if (agenda.entry(HEARTBEAT) === undefined) this.#beating.delete(agenda);
    else this.#beating.add(agenda);
    if (Number.isFinite(agenda.timerMs)) this.#armed.add(agenda);
    else this.#armed.delete(agenda);
  }

  /** The canister has set its timer (ns since 1970), or turned it off (0). */
  setTimer(agenda: Agenda, timerNs: bigint): void {
    agenda.timerMs = timerNs === 0n ? Number.POSITIVE_INFINITY : Number(timerNs) / NS_PER_MS;
    if (timerNs === 0n) this.#armed.delete(agenda);
    else this.#armed.add(agenda);
  }

  forget(agenda: Agenda): void {
    this.#beating.delete(agenda);
    this.#armed.delete(agenda);
  }

  /** A hook has run. */
  ended(agenda: Agenda, exported: string): void {
    if (exported === HEARTBEAT) agenda.isBeating = false;
  }

  #beat(): void {
    for (const agenda of this.#beating) {
      if (agenda.isBeating || agenda.status !== 'running' || agenda.isChanging) continue;
      agenda.isBeating = true;
      this.#host.due(agenda, HEARTBEAT);
    }
  }

  #fire(nowMs: number): void {
    for (const agenda of this.#armed) {
      if (agenda.timerMs > nowMs || agenda.status !== 'running' || agenda.isChanging) continue;
      this.#armed.delete(agenda);
      agenda.timerMs = Number.POSITIVE_INFINITY;
      if (agenda.entry(GLOBAL_TIMER) !== undefined) this.#host.due(agenda, GLOBAL_TIMER);
    }
  }

  #every(ms: number, work: () => void): void {
    this.#intervals.push(setInterval(work, ms).unref());
  }
}
