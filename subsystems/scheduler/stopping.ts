/**
 * The states of canisters: running, stopping until no call of theirs is open, stopped.
 * Main thread. Touches the status of canisters, and those who wait for it.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { principalToText, type CanisterStatus } from '../ic/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import type { StateChanges } from './tasks.ts';

/** As the IC's replica: a canister that still has open calls then stays stopping. */
const STOP_DEADLINE_MS = 5 * 60_000;
/** The reason for those who wait for a canister to be awake. */
export const ACTOR_DELETED = new ServerError('missing', 'actor-missing', 'the actor was deleted meanwhile');

export class Stopping {
  readonly #clock: Clock;
  readonly #changes: Pick<StateChanges, 'statusChanged'>;
  #isEnding = false;

  constructor(clock: Clock, changes: Pick<StateChanges, 'statusChanged'>) {
    this.#clock = clock;
    this.#changes = changes;
  }

  start(canister: ScheduledCanister): void {
    if (canister.status === 'running') return;
    canister.isPaused = false;
    this.#become(canister, 'running');
    const waiters = canister.workIfAny?.stopWaiters.splice(0) ?? [];
    for (const waiter of waiters) waiter('the canister was started again before it had stopped');
  }

  /** Resolves when it has stopped. Rejects with ServerError `stop-failed`. One that is paused stays stopped then. */
  stop(canister: ScheduledCanister): Promise<void> {
    if (canister.isPaused) {
      canister.isPaused = false;
      this.#changes.statusChanged(canister);
    }
    return this.#stop(canister, false);
  }

  /**
   * Stops it until `resume`, as far as it runs; resolves when no call of it is open. Rejects with ServerError
   * `stop-failed`: one that did not stop in time goes on stopping, and stays stopped.
   */
  async pause(canister: ScheduledCanister): Promise<void> {
    try {
      await this.#stop(canister, true);
    } catch (error) {
      // After a restart it runs.
      if (canister.isPaused && !this.#isEnding) {
        canister.isPaused = false;
        this.#changes.statusChanged(canister);
      }
      throw error;
    }
  }

  #stop(canister: ScheduledCanister, isPause: boolean): Promise<void> {
    if (canister.status === 'stopped') return Promise.resolve();
    if ((canister.workIfAny?.deletions ?? 0) > 0) return Promise.reject(failed(canister, DELETED));
    return new Promise((resolve, reject) => {
      const deadline = this.#clock.after(STOP_DEADLINE_MS, () =>
        settle('it still has open calls after five minutes, and goes on stopping'),
      );
      const settle = (problem: string | undefined): void => {
        deadline[Symbol.dispose]();
        const { stopWaiters } = canister.work;
        const at = stopWaiters.indexOf(settle);
        if (at >= 0) stopWaiters.splice(at, 1);
        if (problem === undefined) resolve();
        else reject(failed(canister, problem));
      };
      canister.work.stopWaiters.push(settle);
      if (canister.status === 'running') {
        canister.isPaused = isPause;
        this.#become(canister, 'stopping');
      }
      this.stopIfDone(canister);
      if (this.#isEnding) this.#refuseWaiters(canister, ENDING);
    });
  }

  /** Refuses those who wait, and who come: the server stops, and open calls go on after the restart. */
  end(canisters: Iterable<ScheduledCanister>): void {
    this.#isEnding = true;
    for (const canister of canisters) this.#refuseWaiters(canister, ENDING);
  }

  #refuseWaiters({ workIfAny }: ScheduledCanister, problem: string): void {
    for (const waiter of workIfAny?.stopWaiters.splice(0) ?? []) waiter(problem);
  }

  /**
   * Refuses those who wait for a canister to stop or to be awake, until the returned function is called: it is about to
   * be deleted.
   */
  refuse(canister: ScheduledCanister): () => void {
    canister.work.deletions++;
    this.#refuseWaiters(canister, DELETED);
    for (const waiter of canister.work.wakeWaiters.splice(0)) waiter(ACTOR_DELETED);
    return () => {
      canister.work.deletions--;
    };
  }

  /** Stops the canister if nothing is left to wait for. */
  stopIfDone(canister: ScheduledCanister): void {
    const work = canister.workIfAny;
    if (canister.status !== 'stopping' || (work !== undefined && work.contexts.size > 0)) return;
    this.#become(canister, 'stopped');
    for (const waiter of work?.stopWaiters.splice(0) ?? []) waiter(undefined);
  }

  #become(canister: ScheduledCanister, status: CanisterStatus): void {
    canister.status = status;
    this.#changes.statusChanged(canister);
  }
}

const DELETED = 'the canister is deleted';
const ENDING = 'the server is stopping';

function failed({ id }: ScheduledCanister, problem: string): ServerError {
  return new ServerError('unavailable', 'stop-failed', `${principalToText(id)} did not stop: ${problem}`);
}
