/**
 * The way of tasks to their canisters: whoever comes is let in or refused, waits in a queue of the canister, and gets a
 * turn of the canister's executor, or wakes the canister first.
 *
 * Main thread. Touches queues of canisters; turns, wakes and refusals are other parts'.
 */
import { REJECT_CODE } from '../ic/index.ts';
import type { CallJournal } from './call-journal.ts';
import { type Calls, notFound, type Refusal, THREAD_STOPPED } from './calls.ts';
import type { Elsewhere } from './elsewhere/elsewhere.ts';
import type { Eviction } from './eviction.ts';
import { contextOf, type Executions } from './executions.ts';
import type { ExecutorQueues } from './executor-queue.ts';
import { type Need, needOf, needOfAll } from './need.ts';
import { type NotBegun, takeAll } from './not-begun.ts';
import { CallContext, queueOf, type QueuedTask, type ScheduledCanister } from './scheduled-canister.ts';
import type { Tasks } from './tasks.ts';

export const SERVER_STOPPING: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: 'the server is stopping' };
const NO_PRINCIPAL = new Uint8Array(0);

/** Parts of the scheduler that a task passes. All of them know the flow: they are read when a task comes. */
interface TaskFlowNeeds {
  readonly journal: CallJournal;
  readonly notBegun: NotBegun;
  readonly calls: Pick<Calls, 'answerStopping'>;
  readonly eviction: Pick<Eviction, 'isBounded' | 'wants'>;
  readonly executions: Pick<Executions, 'credit'>;
  readonly queues: ExecutorQueues;
  readonly elsewhere: Pick<Elsewhere, 'sendWaiting'>;
}

export class TaskFlow implements Tasks {
  readonly #needs: TaskFlowNeeds;
  #isDraining = false;

  constructor(needs: TaskFlowNeeds) {
    this.#needs = needs;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  beginDraining(): void {
    this.#isDraining = true;
  }

  enqueue(canister: ScheduledCanister, waiting: QueuedTask): void {
    if (!this.mayWait(canister, waiting)) return;
    queueOf(canister.work, waiting).push(waiting);
    // The task was let in before the canister began to stop.
    if (canister.status !== 'running' && waiting.kind === 'start') this.#needs.notBegun.sort(canister);
    this.schedule(canister, needOf(waiting));
  }

  enqueueHook(canister: ScheduledCanister, exported: string, context = systemContext(canister)): void {
    canister.work.contexts.add(context);
    this.enqueue(canister, { kind: 'system', context, exported });
  }

  credit(canister: ScheduledCanister, amount: bigint): void {
    this.#needs.executions.credit(this.#needs.journal.credit(canister, amount));
  }

  /**
   * Refuses what can never begin. Whether the rest waits here: what is kept also goes on after the restart, or whenever
   * its canister can be loaded.
   */
  mayWait(canister: ScheduledCanister, waiting: QueuedTask): boolean {
    const refusal = this.#refusalOf(canister, waiting);
    if (refusal !== undefined) {
      this.#needs.notBegun.refuse(waiting, refusal);
      return false;
    }
    this.#needs.journal.queued(waiting);
    return canister.state.kind !== 'unloadable' && !(this.#isDraining && waiting.kind !== 'dropFrame');
  }

  #refusalOf({ state, id }: ScheduledCanister, waiting: QueuedTask): Refusal | undefined {
    if (state.kind === 'deleted') return notFound(id);
    if (state.kind === 'lost') return THREAD_STOPPED;
    const isKept = !this.#isDraining || waiting.kind === 'dropFrame' || this.#needs.journal.keeps(waiting);
    return isKept ? undefined : SERVER_STOPPING;
  }

  takeBack(canister: ScheduledCanister, tasks: readonly QueuedTask[]): void {
    this.#needs.notBegun.takenBack(canister, tasks);
    if (!this.#isDraining) return;
    for (const waiting of tasks) {
      const context = contextOf(waiting);
      if (context !== undefined) this.#needs.calls.answerStopping(context);
    }
  }

  /** `need`: of the task that has come; undefined: whatever waits. */
  schedule(canister: ScheduledCanister, need?: Need): void {
    const { eviction, queues, elsewhere } = this.#needs;
    if (canister.state.kind !== 'live' || eviction.isBounded) {
      const work = canister.workIfAny;
      if (work === undefined || work.waiting === 0) return;
      if (canister.state.kind === 'elsewhere') {
        elsewhere.sendWaiting(canister);
        return;
      }
      eviction.wants(canister, need ?? needOfAll(work));
      if (canister.state.kind !== 'live') return;
    }
    const queue = queues.of(canister);
    queue.giveTurn(canister);
    queue.fill();
  }

  /** Refuses tasks that wait; stored ones stay stored when the server stops. */
  refuseWaiting(canister: ScheduledCanister, refusal: Refusal): void {
    if (this.#isDraining) canister.workIfAny?.interrupted.splice(0);
    for (const waiting of takeAll(canister)) {
      if (!(this.#isDraining && this.#needs.journal.keeps(waiting))) this.#needs.notBegun.refuse(waiting, refusal);
    }
  }
}

export function systemContext(canister: ScheduledCanister): CallContext {
  return new CallContext(canister, { kind: 'system' }, { caller: NO_PRINCIPAL });
}
