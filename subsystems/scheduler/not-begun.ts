/**
 * Tasks that wait for a canister and have not begun: where they go when an executor gives them back, and when the
 * canister stops.
 *
 * A canister that stops begins nothing more but callbacks, as it takes nothing more: calls that wait are refused like
 * those that come later, and timers are due again when it runs. While it is paused for a change of its code, calls of
 * clients are held back instead: nobody whom an open call waits for can be among them. They go on with the new code.
 *
 * Main thread. Moves tasks between queues, and ends those that are refused.
 */
import { principalToText, REJECT_CODE } from '../ic/index.ts';
import type { CallJournal } from './call-journal.ts';
import type { Calls, Refusal } from './calls.ts';
import { contextOf, type Executions } from './executions.ts';
import type { Queue } from './queue.ts';
import { type PendingWork, queueOf, type QueuedTask, type ScheduledCanister } from './scheduled-canister.ts';
import type { Stopping } from './stopping.ts';
import type { Tasks } from './tasks.ts';
import { GLOBAL_TIMER, type Ticking } from './ticking.ts';

interface NotBegunNeeds {
  readonly executions: Pick<Executions, 'recall'>;
  readonly calls: Calls;
  readonly journal: Pick<CallJournal, 'paid'>;
  readonly ticking: Ticking;
  readonly tasks: Pick<Tasks, 'mayWait' | 'schedule'>;
  readonly stopping: Pick<Stopping, 'stopIfDone'>;
}

export class NotBegun {
  readonly #needs: NotBegunNeeds;

  constructor(needs: NotBegunNeeds) {
    this.#needs = needs;
  }

  /** Tasks have come back from the executor, in order: they go ahead of what waits. */
  takenBack(canister: ScheduledCanister, tasks: readonly QueuedTask[]): void {
    putAhead(
      canister.work,
      tasks.filter((waiting) => this.#needs.tasks.mayWait(canister, waiting)),
    );
    this.sort(canister);
  }

  /** The canister runs, is paused, stops or has stopped: what waits for it goes where it belongs. */
  sort(canister: ScheduledCanister): void {
    const work = canister.workIfAny;
    if (work === undefined) return;
    if (canister.status === 'running') this.#release(canister, work);
    else this.#keepOut(canister, work);
  }

  /** Ends what will never begin, or never go on. */
  refuse(waiting: QueuedTask, { code, message }: Refusal): void {
    const { calls, ticking, journal } = this.#needs;
    const kind = code === REJECT_CODE.SYS_TRANSIENT ? 'unavailable' : 'reject';
    switch (waiting.kind) {
      case 'start':
      case 'inspect':
        calls.refuse(waiting.context, code, message, kind);
        return;
      case 'system':
        if (waiting.exported === GLOBAL_TIMER) ticking.rearm(waiting.context.canister);
        ticking.ended(waiting.context.canister, waiting.exported);
        waiting.context.canister.work.lowMemoryEnded(waiting.context);
        calls.refuse(waiting.context, code, message);
        return;
      case 'response':
        calls.callEnded(waiting.call);
        calls.delete(waiting.call.context, code, message, kind);
        return;
      case 'credit':
        journal.paid(waiting.credit);
        return;
      case 'dropFrame':
    }
  }

  #release(canister: ScheduledCanister, work: PendingWork): void {
    if (work.held.length === 0) return;
    const held = work.held.takeAll();
    for (const waiting of held) {
      const context = contextOf(waiting);
      if (context !== undefined && queueOf(work, waiting) === work.input) work.contexts.add(context);
    }
    putAhead(work, held);
    this.#needs.tasks.schedule(canister);
  }

  #keepOut(canister: ScheduledCanister, work: PendingWork): void {
    this.#needs.executions.recall(canister, 'unbegun');
    const { isPaused, status } = canister;
    const calls = queuesOf(work).flatMap((queue) => takeCalls(queue));
    if (!isPaused) calls.push(...work.held.takeAll());
    if (calls.length === 0) return;
    const message = `Canister ${principalToText(canister.id)} is ${status}`;
    for (const waiting of calls) {
      if (isPaused && isOfClient(waiting)) hold(work, waiting);
      else this.refuse(waiting, { code: REJECT_CODE.CANISTER_ERROR, message });
    }
    this.#needs.stopping.stopIfDone(canister);
  }
}

/** All that wait for a canister. */
export function takeAll(canister: ScheduledCanister): readonly QueuedTask[] {
  const work = canister.workIfAny;
  if (work === undefined || work.waiting + work.held.length === 0) return [];
  return [work.held, ...queuesOf(work)].flatMap((queue) => queue.takeAll());
}

function queuesOf(work: PendingWork): readonly Queue<QueuedTask>[] {
  return [work.system, work.input, work.queries];
}

function putAhead(work: PendingWork, tasks: readonly QueuedTask[]): void {
  for (const queue of queuesOf(work)) {
    const own = tasks.filter((waiting) => queueOf(work, waiting) === queue);
    if (own.length > 0) queue.putAhead(own);
  }
}

/** Takes what begins something out of a queue; callbacks and what is owed to the canister stay. */
function takeCalls(queue: Queue<QueuedTask>): QueuedTask[] {
  if (!queue.some(isCall)) return [];
  const all = queue.takeAll();
  for (const waiting of all) if (!isCall(waiting)) queue.push(waiting);
  return all.filter(isCall);
}

function isCall(waiting: QueuedTask): boolean {
  // An open call awaits what an outcall has brought.
  if (waiting.kind === 'start') return waiting.call !== 'transform';
  return waiting.kind === 'inspect' || waiting.kind === 'system';
}

function isOfClient(waiting: QueuedTask): boolean {
  return contextOf(waiting)?.origin.kind === 'ingress';
}

/** Stopping does not wait for it. */
function hold(work: PendingWork, waiting: QueuedTask): void {
  const context = contextOf(waiting);
  if (context !== undefined) work.contexts.delete(context);
  work.held.push(waiting);
}
