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
import type { Calls } from './calls.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import type { StateChanges, Tasks } from './tasks.ts';

const HEARTBEAT = 'canister_heartbeat';
export const GLOBAL_TIMER = 'canister_global_timer';

export interface TickingOptions {
  /** 0: no heartbeats. */
  readonly heartbeatMs: number;
  /** Interval at which timers are looked at, in ms; 0: never. */
  readonly timerMs: number;
}

interface TickingNeeds {
  readonly clock: Clock;
  readonly execution: Pick<ScheduledExecution, 'aheadOf'>;
  readonly tasks: Pick<Tasks, 'enqueueHook'>;
  /** Calls with a deadline are looked at as often as timers are. */
  readonly calls: Pick<Calls, 'expire'>;
  /** Told of a timer that has been turned off, or put back, without a step of its canister's. */
  readonly changes: Pick<StateChanges, 'recordChanged'>;
}

/** Interval at which deadlines of calls are looked at when timers are not, in ms. */
const EXPIRY_CHECK_MS = 100;

export class Ticking {
  readonly #options: TickingOptions;
  readonly #needs: TickingNeeds;
  /** Canisters with a heartbeat, and with a timer that is set. */
  readonly #beating = new Set<ScheduledCanister>();
  readonly #armed = new Set<ScheduledCanister>();
  readonly #intervals: Disposable[] = [];

  constructor(options: TickingOptions, needs: TickingNeeds) {
    this.#options = options;
    this.#needs = needs;
  }

  begin(): void {
    const { heartbeatMs, timerMs } = this.#options;
    if (heartbeatMs > 0) this.#every(heartbeatMs, () => this.#beat());
    this.#every(timerMs > 0 ? timerMs : EXPIRY_CHECK_MS, () => {
      const nowMs = this.#needs.clock.nowMs();
      if (timerMs > 0) this.#fire(nowMs);
      this.#needs.calls.expire(nowMs);
    });
  }

  end(): void {
    for (const interval of this.#intervals.splice(0)) interval[Symbol.dispose]();
  }

  /** Notes that the canister's code or state has changed. */
  codeChanged(canister: ScheduledCanister): void {
    if (canister.entry(HEARTBEAT) === undefined) this.#beating.delete(canister);
    else this.#beating.add(canister);
    if (canister.timerMs === undefined) this.#armed.delete(canister);
    else this.#armed.add(canister);
  }

  /** The canister has set its timer (ns since 1970), or turned it off (0). */
  setTimer(canister: ScheduledCanister, timerNs: bigint): void {
    this.putTimer(canister, timerNs === 0n ? undefined : Number(timerNs) / NS_PER_MS);
  }

  /** The same in ms; undefined: off. One that is due and has not fired yet is forgotten. */
  putTimer(canister: ScheduledCanister, timerMs: number | undefined): void {
    canister.timerMs = timerMs;
    const work = canister.workIfAny;
    if (work !== undefined) work.firingMs = undefined;
    if (timerMs === undefined) this.#armed.delete(canister);
    else this.#armed.add(canister);
  }

  /** Makes a hook due again that was due and did not run: once the canister runs, and can be woken. */
  rearm(canister: ScheduledCanister): void {
    const { firingMs } = canister.work;
    const isThere = canister.state.kind !== 'deleted' && canister.state.kind !== 'lost';
    if (isThere && firingMs !== undefined) this.putTimer(canister, firingMs);
  }

  forget(canister: ScheduledCanister): void {
    this.#beating.delete(canister);
    this.#armed.delete(canister);
  }

  /** A hook has run. */
  ended(canister: ScheduledCanister, exported: string): void {
    const { work } = canister;
    if (exported === HEARTBEAT) work.isBeating = false;
    else if (exported === GLOBAL_TIMER && work.firingMs !== undefined) {
      work.firingMs = undefined;
      this.#needs.changes.recordChanged(canister);
    }
  }

  #beat(): void {
    for (const canister of this.#beating) {
      if (!mayBegin(canister)) continue;
      const { work } = canister;
      if (work.isBeating) continue;
      work.isBeating = true;
      this.#needs.tasks.enqueueHook(canister, HEARTBEAT);
    }
  }

  #fire(nowMs: number): void {
    for (const canister of this.#armed) {
      const firingMs = canister.timerMs;
      // A deadline is one in the canister's own time.
      if (
        firingMs === undefined ||
        firingMs > nowMs + this.#needs.execution.aheadOf(canister.handle) ||
        !mayBegin(canister)
      )
        continue;
      this.#armed.delete(canister);
      canister.timerMs = undefined;
      if (canister.entry(GLOBAL_TIMER) === undefined) {
        this.#needs.changes.recordChanged(canister);
      } else {
        // Until the hook has ended it is stored as due.
        canister.work.firingMs = firingMs;
        this.#needs.tasks.enqueueHook(canister, GLOBAL_TIMER);
      }
    }
  }

  #every(ms: number, work: () => void): void {
    this.#intervals.push(this.#needs.clock.every(ms, work));
  }
}

function mayBegin(canister: ScheduledCanister): boolean {
  return (
    canister.status === 'running' && canister.state.kind !== 'unloadable' && !canister.isChanging && !canister.isPausing
  );
}
