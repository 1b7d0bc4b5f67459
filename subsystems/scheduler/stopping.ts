/**
 * The states of canisters: running, stopping until no call of theirs is open, stopped.
 * Main thread. Touches the status of canisters, and those who wait for it.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { principalToText, type CanisterStatus } from '../ic/index.ts';
import type { Agenda } from './agenda.ts';

/** As the IC's replica: a canister that still has open calls then stays stopping. */
const STOP_DEADLINE_MS = 5 * 60_000;

export class Stopping {
  readonly #clock: Clock;
  readonly #changed: (agenda: Agenda) => void;

  /** `changed` is called with every new state. */
  constructor(clock: Clock, changed: (agenda: Agenda) => void) {
    this.#clock = clock;
    this.#changed = changed;
  }

  start(agenda: Agenda): void {
    if (agenda.status === 'running') return;
    this.#become(agenda, 'running');
    const waiters = agenda.workIfAny?.stopWaiters.splice(0) ?? [];
    for (const waiter of waiters) waiter('the canister was started again before it had stopped');
  }

  /** Resolves when it has stopped. Rejects with ServerError `stop-failed`. */
  stop(agenda: Agenda): Promise<void> {
    if (agenda.status === 'stopped') return Promise.resolve();
    if ((agenda.workIfAny?.deletions ?? 0) > 0) return Promise.reject(failed(agenda, DELETED));
    if (agenda.status === 'running') this.#become(agenda, 'stopping');
    return new Promise((resolve, reject) => {
      const deadline = this.#clock.after(STOP_DEADLINE_MS, () =>
        settle('it still has open calls after five minutes, and goes on stopping'),
      );
      const settle = (problem: string | undefined): void => {
        deadline[Symbol.dispose]();
        const { stopWaiters } = agenda.work;
        const at = stopWaiters.indexOf(settle);
        if (at >= 0) stopWaiters.splice(at, 1);
        if (problem === undefined) resolve();
        else reject(failed(agenda, problem));
      };
      agenda.work.stopWaiters.push(settle);
      this.settle(agenda);
    });
  }

  /** It is about to be deleted: nobody waits for it to stop until what is returned is called. */
  refuse(agenda: Agenda): () => void {
    agenda.work.deletions++;
    for (const waiter of agenda.work.stopWaiters.splice(0)) waiter(DELETED);
    return () => {
      agenda.work.deletions--;
    };
  }

  /** It may have nothing left to wait for. */
  settle(agenda: Agenda): void {
    const work = agenda.workIfAny;
    if (agenda.status !== 'stopping' || (work !== undefined && work.contexts.size > 0)) return;
    this.#become(agenda, 'stopped');
    for (const waiter of work?.stopWaiters.splice(0) ?? []) waiter(undefined);
  }

  #become(agenda: Agenda, status: CanisterStatus): void {
    agenda.status = status;
    this.#changed(agenda);
  }
}

const DELETED = 'the canister is deleted';

function failed({ id }: Agenda, problem: string): ServerError {
  return new ServerError('unavailable', 'stop-failed', `${principalToText(id)} did not stop: ${problem}`);
}
