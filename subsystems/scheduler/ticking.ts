/**
 * Heartbeats and global timers: who is due, and when.
 *
 * A beat is skipped only while the canister's previous one is queued or executing; what it started may go on. Missed
 * ticks coalesce: after a pause there is one beat, not many. A timer is turned off before its hook runs, and a hook
 * that traps leaves it off. Stopping and stopped canisters get neither; a timer that fell due meanwhile fires when the
 * canister runs again. Sleeping canisters are woken by either.
 *
 * Main thread; reads the clock, and enqueues what is due.
 */
import type { Clock } from '../../kernel/index.ts';
import { NS_PER_MS } from '../ic/index.ts';
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
  readonly clock: Clock;
  /** Ms by which what the canister sees as time is ahead of that. */
  readonly aheadOf: (agenda: Agenda) => number;
  /** A canister's hook is due. */
  readonly due: (agenda: Agenda, exported: string) => void;
  /** Calls with a deadline are looked at as often as timers are. */
  readonly expire: (nowMs: number) => void;
  /** A timer has been turned off, or put back, without a step of its canister's. */
  readonly timerChanged: (agenda: Agenda) => void;
}

/** How often deadlines of calls are looked at when timers are not. */
const EXPIRY_CHECK_MS = 100;

export class Ticking {
  readonly #options: TickingOptions;
  readonly #host: TickingHost;
  /** Canisters with a heartbeat, and with a timer that is set. */
  readonly #beating = new Set<Agenda>();
  readonly #armed = new Set<Agenda>();
  readonly #intervals: Disposable[] = [];

  constructor(options: TickingOptions, host: TickingHost) {
    this.#options = options;
    this.#host = host;
  }

  begin(): void {
    const { heartbeatMs, timerMs } = this.#options;
    if (heartbeatMs > 0) this.#every(heartbeatMs, () => this.#beat());
    this.#every(timerMs > 0 ? timerMs : EXPIRY_CHECK_MS, () => {
      const nowMs = this.#host.clock.nowMs();
      if (timerMs > 0) this.#fire(nowMs);
      this.#host.expire(nowMs);
    });
  }

  end(): void {
    for (const interval of this.#intervals.splice(0)) interval[Symbol.dispose]();
  }

  /** Its code or its state has changed. */
  codeChanged(agenda: Agenda): void {
    if (agenda.entry(HEARTBEAT) === undefined) this.#beating.delete(agenda);
    else this.#beating.add(agenda);
    if (agenda.timerMs === undefined) this.#armed.delete(agenda);
    else this.#armed.add(agenda);
  }

  /** The canister has set its timer (ns since 1970), or turned it off (0). */
  setTimer(agenda: Agenda, timerNs: bigint): void {
    this.putTimer(agenda, timerNs === 0n ? undefined : Number(timerNs) / NS_PER_MS);
  }

  /** The same in ms; undefined: off. One that is due and has not fired yet is forgotten. */
  putTimer(agenda: Agenda, timerMs: number | undefined): void {
    agenda.timerMs = timerMs;
    const work = agenda.workIfAny;
    if (work !== undefined) work.firingMs = undefined;
    if (timerMs === undefined) this.#armed.delete(agenda);
    else this.#armed.add(agenda);
  }

  /** Its hook was due and did not run. */
  rearm(agenda: Agenda): void {
    const { firingMs } = agenda.work;
    if (firingMs !== undefined) this.putTimer(agenda, firingMs);
  }

  forget(agenda: Agenda): void {
    this.#beating.delete(agenda);
    this.#armed.delete(agenda);
  }

  /** A hook has run. */
  ended(agenda: Agenda, exported: string): void {
    const { work } = agenda;
    if (exported === HEARTBEAT) work.isBeating = false;
    else if (exported === GLOBAL_TIMER && work.firingMs !== undefined) {
      work.firingMs = undefined;
      this.#host.timerChanged(agenda);
    }
  }

  #beat(): void {
    for (const agenda of this.#beating) {
      if (!mayBegin(agenda)) continue;
      const { work } = agenda;
      if (work.isBeating) continue;
      work.isBeating = true;
      this.#host.due(agenda, HEARTBEAT);
    }
  }

  #fire(nowMs: number): void {
    for (const agenda of this.#armed) {
      const firingMs = agenda.timerMs;
      // A deadline is one in the canister's own time.
      if (firingMs === undefined || firingMs > nowMs + this.#host.aheadOf(agenda) || !mayBegin(agenda)) continue;
      this.#armed.delete(agenda);
      agenda.timerMs = undefined;
      if (agenda.entry(GLOBAL_TIMER) === undefined) {
        this.#host.timerChanged(agenda);
      } else {
        // Until the hook has ended it is stored as due.
        agenda.work.firingMs = firingMs;
        this.#host.due(agenda, GLOBAL_TIMER);
      }
    }
  }

  #every(ms: number, work: () => void): void {
    this.#intervals.push(this.#host.clock.every(ms, work));
  }
}

function mayBegin(agenda: Agenda): boolean {
  return (
    agenda.status === 'running' && !agenda.isAbsent && !agenda.isChanging && agenda.workIfAny?.isUnwakable !== true
  );
}
