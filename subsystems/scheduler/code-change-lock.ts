/**
 * Canisters that somebody changes or asks directly: those whose code or state is being changed are locked and start
 * nothing meanwhile, those that are pinned stay awake. A sleeping one is woken for either.
 *
 * Main thread. Keeps canisters from starting or from sleeping; what is changed meanwhile is somebody else's.
 */
import { assert } from '../../kernel/index.ts';
import { REJECT_CODE, principalToText, NOTHING_RAN, TAKEN_BACK } from '../ic/index.ts';
import type { CodeChange, ModuleInfo } from '../execution/index.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';
import type { CallJournal } from './call-journal.ts';
import type { Calls } from './calls.ts';
import type { CanisterPort } from './canister-port.ts';
import type { Executions } from './executions.ts';
import type { ExecutorQueues } from './executor-queue.ts';
import type { Eviction } from './eviction.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import type { ChangedCode } from './index.ts';
import { ACTOR_DELETED, type Stopping } from './stopping.ts';
import type { Ticking } from './ticking.ts';

interface CodeChangeLockNeeds {
  readonly execution: ScheduledExecution;
  readonly journal: CallJournal;
  readonly calls: Calls;
  readonly ticking: Ticking;
  readonly eviction: Eviction;
  readonly executions: Executions;
  readonly port: CanisterPort;
  readonly queues: ExecutorQueues;
  readonly stopping: Stopping;
}

/** Each method does what the one of `Scheduler` with the same name says. */
export class CodeChangeLock {
  readonly #needs: CodeChangeLockNeeds;

  constructor(needs: CodeChangeLockNeeds) {
    this.#needs = needs;
  }

  async change(canister: ScheduledCanister, module: ModuleInfo, change: CodeChange): Promise<ChangedCode> {
    const { work } = canister;
    // At once: what comes from now on waits for the code.
    work.changes++;
    this.#needs.eviction.keep(canister);
    this.#needs.executions.recall(canister, 'unbegun');
    while (canister.isAsleep) {
      const problem = await this.#wakeUp(canister);
      if (problem !== undefined) {
        work.changes--;
        const fault = { kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message: problem.message } as const;
        return { step: { ...NOTHING_RAN, fault }, lines: [] };
      }
    }
    if (work.deletions > 0) {
      work.changes--;
      return { step: TAKEN_BACK, lines: [] };
    }
    return await this.#change(canister, module, change);
  }

  #change(canister: ScheduledCanister, module: ModuleInfo, change: CodeChange): Promise<ChangedCode> {
    const { execution, journal, calls, ticking, executions, port } = this.#needs;
    canister.expect('change its code', 'live', 'lost');
    const queue = this.#needs.queues.of(canister);
    return new Promise((resolve) => {
      executions.taskGiven(queue);
      canister.work.executing++;
      execution.change(canister.handle, module, change, (ended) => {
        const { step } = ended;
        if (!ended.isReturned) port.listener.stepEnded(canister.handle, ended, 'nothing', 0);
        canister.work.executing--;
        if (step.fault?.kind !== 'unavailable') journal.changed(canister);
        if (step.fault === undefined && canister.state.kind !== 'deleted') {
          canister.module = module;
          ticking.setTimer(canister, step.timerNs ?? 0n);
          ticking.codeChanged(canister);
          // With the unit that has the new code: a restart finds both, or neither. Still locked: what is rejected
          // starts others.
          if (change.mode !== 'upgrade' && change.endsCalls === true)
            calls.endBegun(canister, `Canister ${principalToText(canister.id)} was reinstalled`);
        }
        canister.work.changes--;
        executions.ended(queue);
        executions.rests(canister);
        resolve({ step, lines: ended.isReturned ? [] : ended.lines });
        executions.fillQueue(canister, queue);
      });
    });
  }

  async uninstall(canister: ScheduledCanister): Promise<void> {
    assert(!canister.isAsleep, `canister ${canister.handle} sleeps: it has to be pinned before it is uninstalled`);
    await this.#empty(canister, 'Canister has been uninstalled.');
  }

  async endCalls(canister: ScheduledCanister): Promise<void> {
    const message = `Canister ${principalToText(canister.id)} was deleted`;
    // No executor has anything of it.
    if (canister.isAsleep || canister.state.kind === 'lost') this.#rejectAll(canister, message);
    else await this.#empty(canister, message);
  }

  async #empty(canister: ScheduledCanister, message: string): Promise<void> {
    const { execution, journal, ticking } = this.#needs;
    const { handle } = canister;
    const release = this.lock(canister);
    try {
      await execution.uninstall(handle);
      // With the same unit as what the executor has told: whoever finds the state gone finds the calls gone.
      canister.module = undefined;
      journal.changed(canister);
      if (canister.state.kind === 'deleted') return;
      ticking.setTimer(canister, 0n);
      ticking.codeChanged(canister);
      this.#rejectAll(canister, message);
    } finally {
      release();
    }
  }

  #rejectAll(canister: ScheduledCanister, message: string): void {
    for (const context of canister.work.contexts)
      this.#needs.calls.delete(context, REJECT_CODE.CANISTER_REJECT, message);
  }

  async lockBetweenMessages(canister: ScheduledCanister, pauses: boolean): Promise<(() => void) | undefined> {
    const { work } = canister;
    const release = this.lock(canister);
    if (work.executing > 0) await new Promise<void>((resolve) => work.restWaiters.push(resolve));
    for (const context of work.contexts) {
      if (!context.comesBack) continue;
      // Before the lock is let go: no further message begins.
      if (pauses && canister.status === 'running') this.#needs.stopping.pause(canister).catch(() => undefined);
      release();
      return undefined;
    }
    return release;
  }

  lock(canister: ScheduledCanister): () => void {
    const { eviction, executions, queues } = this.#needs;
    canister.work.changes++;
    eviction.keep(canister);
    executions.recall(canister, 'unbegun');
    return () => {
      canister.work.changes--;
      if (canister.state.kind !== 'deleted') executions.fillQueue(canister, queues.of(canister));
    };
  }

  async pin(canister: ScheduledCanister): Promise<() => void> {
    const { eviction } = this.#needs;
    canister.work.pins++;
    eviction.keep(canister);
    const problem = canister.isAsleep ? await this.#wakeUp(canister) : undefined;
    const release = (): void => {
      canister.work.pins--;
      eviction.stepEnded(canister);
    };
    if (problem === undefined) return release;
    release();
    throw problem;
  }

  /** Resolves when the canister is awake, or with the reason why it cannot be. */
  #wakeUp(canister: ScheduledCanister): Promise<Error | undefined> {
    const { state } = canister;
    if (state.kind === 'unloadable') return Promise.resolve(state.problem);
    if (canister.work.deletions > 0) return Promise.resolve(ACTOR_DELETED);
    canister.expect('be woken', 'evicted', 'loading');
    return new Promise((resolve) => {
      canister.work.wakeWaiters.push(resolve);
      this.#needs.eviction.wants(canister, 'now');
    });
  }
}
