/**
 * Canisters that somebody holds: those whose code or state is being changed start nothing meanwhile, those that are pinned
 * stay awake. A sleeping one is woken for either.
 *
 * Main thread. Keeps canisters from starting or from sleeping; what is changed meanwhile is somebody else's.
 */
import { assert } from '../../kernel/index.ts';
import { REJECT_CODE, principalToText, NOTHING_RAN, type Step } from '../ic/index.ts';
import type { CanisterRunner, CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Agenda } from './agenda.ts';
import type { CallJournal } from './call-journal.ts';
import type { Calls } from './calls.ts';
import type { Executions } from './executions.ts';
import type { Lane } from './lanes.ts';
import type { Sleeping } from './sleeping.ts';
import type { Ticking } from './ticking.ts';

export interface HoldingNeeds {
  readonly execution: CanisterRunner;
  readonly journal: CallJournal;
  readonly calls: Calls;
  readonly ticking: Ticking;
  readonly sleeping: Sleeping;
  readonly executions: Executions;
  readonly laneOf: (agenda: Agenda) => Lane;
}

/** What it does is told with the methods of `Scheduler` that have the same names. */
export class Holding {
  readonly #with: HoldingNeeds;

  constructor(needs: HoldingNeeds) {
    this.#with = needs;
  }

  async change(agenda: Agenda, module: ModuleInfo, change: CodeChange): Promise<Step> {
    const { work } = agenda;
    // At once: what comes from now on waits for the code.
    work.changes++;
    this.#with.sleeping.keep(agenda);
    if (agenda.isAsleep) {
      const problem = await this.#wakeUp(agenda);
      if (problem !== undefined) {
        work.changes--;
        return {
          ...NOTHING_RAN,
          fault: { kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message: problem.message },
        };
      }
    }
    return await this.#change(agenda, module, change);
  }

  #change(agenda: Agenda, module: ModuleInfo, change: CodeChange): Promise<Step> {
    const { execution, journal, ticking, executions, laneOf } = this.#with;
    const lane = laneOf(agenda);
    return new Promise((resolve) => {
      executions.begun(lane);
      execution.change(agenda.handle, module, change, (step) => {
        agenda.work.changes--;
        if (step.fault?.kind !== 'unavailable') journal.changed(agenda);
        if (step.fault === undefined && !agenda.isWithdrawn) {
          agenda.module = module;
          ticking.setTimer(agenda, step.timerNs ?? 0n);
          ticking.codeChanged(agenda);
        }
        executions.ended(lane);
        resolve(step);
        executions.goOn(agenda, lane);
      });
    });
  }

  async uninstall(agenda: Agenda): Promise<void> {
    assert(!agenda.isAsleep, `canister ${agenda.handle} sleeps: it has to be pinned before it is uninstalled`);
    await this.#empty(agenda, 'Canister has been uninstalled.');
  }

  async endCalls(agenda: Agenda): Promise<void> {
    const message = `Canister ${principalToText(agenda.id)} was deleted`;
    // No executor has anything of it.
    if (agenda.isAsleep || agenda.isLost) this.#rejectAll(agenda, message);
    else await this.#empty(agenda, message);
  }

  async #empty(agenda: Agenda, message: string): Promise<void> {
    const { execution, journal, ticking } = this.#with;
    const { handle } = agenda;
    const release = this.hold(agenda);
    try {
      await execution.uninstall(handle);
      // With the same unit as what the executor has told: whoever finds the state gone finds the calls gone.
      agenda.module = undefined;
      journal.changed(agenda);
      if (agenda.isWithdrawn) return;
      ticking.setTimer(agenda, 0n);
      ticking.codeChanged(agenda);
      this.#rejectAll(agenda, message);
    } finally {
      release();
    }
  }

  #rejectAll(agenda: Agenda, message: string): void {
    for (const context of agenda.work.contexts) this.#with.calls.delete(context, REJECT_CODE.CANISTER_REJECT, message);
  }

  hold(agenda: Agenda): () => void {
    const { sleeping, executions, laneOf } = this.#with;
    agenda.work.changes++;
    sleeping.keep(agenda);
    return () => {
      agenda.work.changes--;
      if (!agenda.isWithdrawn) executions.goOn(agenda, laneOf(agenda));
    };
  }

  async pin(agenda: Agenda): Promise<() => void> {
    const { sleeping } = this.#with;
    agenda.work.pins++;
    sleeping.keep(agenda);
    const problem = agenda.isAsleep ? await this.#wakeUp(agenda) : undefined;
    const release = (): void => {
      agenda.work.pins--;
      sleeping.settled(agenda);
    };
    if (problem === undefined) return release;
    release();
    throw problem;
  }

  /** Resolves when the canister is awake, or with the reason why it cannot be. */
  #wakeUp(agenda: Agenda): Promise<Error | undefined> {
    return new Promise((resolve) => {
      agenda.work.wakeWaiters.push(resolve);
      this.#with.sleeping.busy(agenda, true);
    });
  }
}
