/**
 * Hands the next tasks to their executors, and takes the steps that come of them.
 *
 * An executor that has died hands back what it did not execute as `unavailable`. Messages and responses of canisters
 * that are kept then wait for the canister to be woken; all else is answered.
 *
 * Main thread. Touches queues and contexts, and gives tasks to executors.
 */
import {
  REJECT_CODE,
  principalToText,
  type EndedStep,
  FULL_LIMIT,
  NOTHING_RAN,
  type Step,
  TAKEN_BACK,
  type Task,
  type ToldStep,
} from '../ic/index.ts';
import { isShared } from '../bytes/index.ts';
import type { Recall } from '../execution/index.ts';
import type {
  ScheduledCanister,
  Credit,
  QueuedTask,
  QueuedResponse,
  QueuedCall,
  CallContext,
} from './scheduled-canister.ts';
import type { CallJournal } from './call-journal.ts';
import type { CanisterPort, StepCount } from './canister-port.ts';
import { type Calls, THREAD_STOPPED } from './calls.ts';
import type { ExecutorQueue } from './executor-queue.ts';
import type { Eviction } from './eviction.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import type { Tasks } from './tasks.ts';
import { GLOBAL_TIMER, type Ticking } from './ticking.ts';

export const INSPECT = 'canister_inspect_message';
export const LOW_MEMORY = 'canister_on_low_wasm_memory';

interface ExecutionsNeeds {
  readonly execution: ScheduledExecution;
  readonly journal: CallJournal;
  readonly calls: Calls;
  readonly ticking: Ticking;
  readonly eviction: Eviction;
  readonly port: CanisterPort;
  readonly tasks: Pick<Tasks, 'enqueue' | 'takeBack' | 'schedule' | 'isDraining'>;
}

export class Executions {
  readonly #needs: ExecutionsNeeds;
  /** Tasks at executors. */
  #executing = 0;
  #drained: (() => void) | undefined;

  constructor(needs: ExecutionsNeeds) {
    this.#needs = needs;
  }

  start(canister: ScheduledCanister, queue: ExecutorQueue, waiting: QueuedTask): void {
    canister.expect('start a task', 'live');
    const { calls, ticking } = this.#needs;
    switch (waiting.kind) {
      case 'start':
        this.#startCall(canister, queue, waiting);
        return;
      case 'response':
        this.#respond(canister, queue, waiting);
        return;
      case 'inspect':
        this.#inspect(canister, queue, waiting);
        return;
      case 'system': {
        const { context, exported } = waiting;
        const { work } = canister;
        const entry = canister.entry(exported);
        // While its hook waited the timer was set anew, its code was replaced, or memory was no longer low.
        const isForgotten =
          (exported === GLOBAL_TIMER && work.firingMs === undefined) ||
          (exported === LOW_MEMORY && work.lowMemory !== context);
        if (entry === undefined || context.isDeleted || isForgotten) {
          ticking.ended(canister, exported);
          work.lowMemoryEnded(context);
          void calls.ended(context, NOTHING_RAN);
          return;
        }
        context.isExecuting = true;
        this.#run(canister, queue, { kind: 'system', entry }, waiting, (step) => {
          if (isNotBegun(step) && exported === GLOBAL_TIMER && this.#needs.journal.isDurable) ticking.rearm(canister);
          ticking.ended(canister, exported);
          if (work.lowMemoryEnded(context) && !isNotBegun(step))
            this.#needs.port.listener.lowMemoryRan(canister.handle);
          return calls.ended(context, step);
        });
        return;
      }
      case 'dropFrame':
        // An executor that has died took it along.
        if (waiting.life !== canister.work.life) return;
        this.#run(canister, queue, { kind: 'dropFrame', frame: waiting.frame }, waiting, () => undefined);
        return;
      case 'credit':
        this.credit(waiting.credit);
    }
  }

  #startCall(canister: ScheduledCanister, queue: ExecutorQueue, waiting: QueuedCall): void {
    const { calls } = this.#needs;
    const { context, call, method, argument } = waiting;
    // The code was uninstalled; other code may be here by now. The caller knows, unless an execution was to answer.
    if (context.isDeleted) {
      if (context.canAnswer) void calls.ended(context, NOTHING_RAN);
      return;
    }
    const kind = canister.module?.methods.get(method);
    const entry = kind === undefined ? undefined : canister.entry(`canister_${kind} ${method}`);
    // The code may be another than when the call was let in.
    const isUnfit =
      (kind === 'update' && call !== 'update') || (kind === 'composite_query' && context.evaluation === undefined);
    if (entry === undefined || isUnfit) {
      calls.refuse(
        context,
        REJECT_CODE.CANISTER_ERROR,
        `Canister ${principalToText(canister.id)} has no method '${method}'`,
      );
      return;
    }
    context.isExecuting = true;
    if (context.pending !== undefined) this.#needs.journal.number(context);
    const task: Task = {
      kind: call,
      entry,
      // A stored argument is needed until the execution has ended, and a large one would be handed over.
      argument: context.pending === undefined || isShared(argument) ? argument : new Uint8Array(argument),
      context: context.view(),
      instructionsMax: instructionsMax(context),
    };
    this.#run(canister, queue, task, waiting, (step) => {
      context.underWay?.ran(step);
      return calls.ended(context, step);
    });
  }

  #respond(canister: ScheduledCanister, queue: ExecutorQueue, waiting: QueuedResponse): void {
    const { calls, journal } = this.#needs;
    const { call, response, refunded } = waiting;
    const { context } = call;
    if (context.isFrameLost) {
      context.fault ??= { kind: 'unavailable', ...THREAD_STOPPED };
    }
    // Without its frame a composite query cannot go on: one of its callbacks has trapped.
    if (context.isDeleted || (context.evaluation !== undefined && context.frame === 0)) {
      if (refunded > 0n) this.credit(journal.credit(canister, refunded));
      void calls.callbackEnded(call, NOTHING_RAN);
      return;
    }
    const { callbacks } = call;
    const { frame } = context;
    context.isExecuting = true;
    const task: Task = {
      kind: 'callback',
      callbacks,
      response,
      refunded,
      context: context.view(),
      frame,
      instructionsMax: instructionsMax(context),
    };
    this.#run(canister, queue, task, waiting, (step) => {
      context.underWay?.ran(step);
      return calls.callbackEnded(call, step);
    });
  }

  #inspect(canister: ScheduledCanister, queue: ExecutorQueue, waiting: Extract<QueuedTask, { kind: 'inspect' }>): void {
    const { calls } = this.#needs;
    const { context, method, argument } = waiting;
    if (context.isDeleted) return;
    const entry = canister.entry(INSPECT);
    const enqueueCall = (): void =>
      this.#needs.tasks.enqueue(canister, { kind: 'start', context, call: 'update', method, argument, order: 0 });
    if (entry === undefined) {
      enqueueCall();
      return;
    }
    // The argument is needed again, and a large one would be handed over.
    const task: Task = { kind: 'inspect', entry, method, argument: new Uint8Array(argument), caller: context.caller };
    this.#run(canister, queue, task, waiting, (step) => {
      context.instructions += step.instructions;
      if (step.fault !== undefined) void calls.ended(context, step);
      else if (step.isAccepted) enqueueCall();
      else
        calls.refuse(
          context,
          REJECT_CODE.CANISTER_REJECT,
          `Canister ${principalToText(canister.id)} rejected the message`,
        );
    });
  }

  #tellStep({ handle }: ScheduledCanister, ended: ToldStep, source: QueuedTask): void {
    const message = ended.lines.length === 0 ? 0 : messageOf(source);
    this.#needs.port.listener.stepEnded(handle, ended, countOf(source), message);
  }

  /** `source`: what waited for that. */
  #run(
    canister: ScheduledCanister,
    queue: ExecutorQueue,
    task: Task,
    source: QueuedTask,
    done: (step: Step) => Promise<void> | void,
  ): void {
    const { journal, ticking } = this.#needs;
    this.taskGiven(queue);
    canister.work.executing++;
    const isChange = journal.isDurable && changesState(task);
    this.#needs.execution.run(canister.handle, task, (ended) => {
      const { step } = ended;
      if (!ended.isReturned) this.#tellStep(canister, ended, source);
      if (step.timerNs !== undefined) ticking.setTimer(canister, step.timerNs);
      if (step.isLarge === true) {
        const isChanged = isChange || step.charge > 0;
        return this.#largeEnded(canister, queue, isChanged, () => done(step));
      }
      canister.work.executing--;
      this.ended(queue);
      const isRepeated = isNotBegun(step) && isRepeatable(source) && journal.keeps(source);
      // In the order in which they were given, where the executor has died in the middle of it.
      if (step === TAKEN_BACK || (isRepeated && canister.work.recall !== 'nothing'))
        this.#takenBack(canister, source, ended);
      else if (isRepeated) this.#interrupted(canister, source, () => void done(step));
      else {
        if (isChange || step.charge > 0) journal.changed(canister);
        void done(step);
      }
      this.rests(canister);
      this.fillQueue(canister, queue);
      return undefined;
    });
    if (isChange) journal.expectsChange();
  }

  /**
   * Counts the executor as at work until all calls of the step are sent: nobody changes, stops or drops the canister in
   * the middle.
   */
  async #largeEnded(
    canister: ScheduledCanister,
    queue: ExecutorQueue,
    isChanged: boolean,
    done: () => Promise<void> | void,
  ): Promise<void> {
    if (isChanged) this.#needs.journal.changed(canister);
    await done();
    canister.work.executing--;
    this.ended(queue);
    this.rests(canister);
    this.fillQueue(canister, queue);
  }

  /** Whatever was to be done when nothing of a canister executes any more. */
  rests(canister: ScheduledCanister): void {
    const { work } = canister;
    if (work.executing > 0) return;
    if (work.recall !== 'nothing') {
      this.#endRecall(canister);
      if (work.takenBack.length > 0) this.#needs.tasks.takeBack(canister, work.takenBack.splice(0));
      // Cycles that were on their way may be the last to end, and give no turn.
      this.#needs.tasks.schedule(canister);
    }
    if (work.restWaiters.length > 0) for (const waiter of work.restWaiters.splice(0)) waiter();
  }

  /**
   * Takes back what a canister's executor was given and has not begun; with `everything`, the message or the change of
   * code that executes, too, which is undone. Nothing of the canister starts until all of that has come back or ended.
   */
  recall(canister: ScheduledCanister, recall: Exclude<Recall, 'nothing'>): void {
    const { work } = canister;
    if (work.recall === recall || work.recall === 'everything') return;
    // Work that the scheduler does not count, such as the copy of a state, ends for a deletion alone.
    if (work.executing === 0 && work.deletions === 0) return;
    work.recall = recall;
    this.#needs.execution.recall(canister.handle, recall);
  }

  /** Ends the recall of a canister's work, unless the canister is being deleted. */
  #endRecall(canister: ScheduledCanister): void {
    const { work } = canister;
    if (work.deletions > 0) return;
    work.recall = 'nothing';
    this.#needs.execution.recall(canister.handle, 'nothing');
  }

  /** Ends the recall that a deletion has left, if no work has yet to come back; call it when the deletion is over. */
  deletionEnded(canister: ScheduledCanister): void {
    if (canister.work.recall !== 'nothing' && canister.work.executing === 0) this.#endRecall(canister);
  }

  #takenBack(canister: ScheduledCanister, source: QueuedTask, ended: EndedStep): void {
    const argument = ended.isReturned ? ended.argument : undefined;
    const context = contextOf(source);
    if (context !== undefined) context.isExecuting = false;
    const isEmptied = argument !== undefined && source.kind === 'start' && source.context.pending === undefined;
    canister.work.takenBack.push(isEmptied ? { ...source, argument } : source);
  }

  /**
   * A message or response of a canister was not executed: its executor has died, which it says next, or the server
   * stops. It stays as it is until it has been executed. `giveUp`: neither is so, and it must be answered.
   */
  #interrupted(canister: ScheduledCanister, source: QueuedCall | QueuedResponse, giveUp: () => void): void {
    const { work } = canister;
    const context = source.kind === 'start' ? source.context : source.call.context;
    context.isExecuting = false;
    if (this.#needs.tasks.isDraining) {
      this.#needs.calls.answerStopping(context);
      return;
    }
    work.interrupted.push(source);
    setImmediate(() => {
      const at = canister.isAsleep ? -1 : work.interrupted.indexOf(source);
      if (at < 0) return;
      work.interrupted.splice(at, 1);
      giveUp();
      this.#needs.tasks.schedule(canister);
    });
  }

  /** Pays a canister; one that sleeps is woken for it. */
  credit(credit: Credit): void {
    const { execution, journal, eviction } = this.#needs;
    const { canister, amount } = credit;
    // A canister that is gone cannot be paid; its cycles went with it.
    if (canister.state.kind === 'deleted' || canister.state.kind === 'lost') {
      journal.paid(credit);
      return;
    }
    if (canister.state.kind === 'unloadable') return;
    if (canister.isAsleep) {
      this.#needs.tasks.enqueue(canister, { kind: 'credit', credit });
      return;
    }
    canister.work.executing++;
    eviction.keep(canister);
    const ended = (isPaid: boolean): void => {
      canister.work.executing--;
      if (isPaid || canister.state.kind === 'deleted') {
        journal.paid(credit);
        journal.changed(canister);
      } else if (journal.isDurable) {
        // The executor has died before.
        this.#needs.tasks.enqueue(canister, { kind: 'credit', credit });
      }
      this.rests(canister);
      eviction.stepEnded(canister);
    };
    execution.addCycles(canister.handle, amount).then(
      () => ended(true),
      () => ended(false),
    );
  }

  // ---- what executes

  taskGiven(queue: ExecutorQueue): void {
    queue.executing++;
    this.#executing++;
  }

  ended(queue: ExecutorQueue): void {
    queue.executing--;
    this.#executing--;
    if (this.#executing === 0) this.#drained?.();
  }

  /** Something of a canister has ended: what waits may go on, in its queue. */
  fillQueue(canister: ScheduledCanister, queue: ExecutorQueue): void {
    this.#needs.eviction.stepEnded(canister);
    queue.giveTurn(canister);
    queue.fill();
  }

  /** Resolves when nothing executes. */
  async drained(): Promise<void> {
    if (this.#executing === 0) return;
    await new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
  }
}

/** Returns the context of the call that the task executes for; undefined: the task belongs to no call. */
export function contextOf(waiting: QueuedTask): CallContext | undefined {
  switch (waiting.kind) {
    case 'start':
    case 'inspect':
    case 'system':
      return waiting.context;
    case 'response':
      return waiting.call.context;
    case 'dropFrame':
    case 'credit':
      return undefined;
  }
}

/** Returns the number of the message that a task works for; 0: nobody noted it. */
function messageOf(source: QueuedTask): number {
  if (source.kind === 'response') return source.call.context.trace?.number ?? 0;
  return 'context' in source ? (source.context.trace?.number ?? 0) : 0;
}

/** Returns how the task's step counts: an answer to a client is counted where it is told. */
function countOf(source: QueuedTask): StepCount {
  switch (source.kind) {
    case 'start':
      return source.context.origin.kind === 'ingress' ? 'nothing' : 'message';
    case 'system':
      return 'message';
    case 'response': {
      const { context } = source.call;
      return context.origin.kind === 'ingress' && context.canAnswer ? 'nothing' : 'part';
    }
    default:
      return 'nothing';
  }
}

/** Tells whether the task has to be executed again if it was not executed. */
function isRepeatable(source: QueuedTask): source is QueuedCall | QueuedResponse {
  return source.kind === 'start' || source.kind === 'response';
}

/** The step of a task whose executor has died, or begins nothing more. */
function isNotBegun({ fault }: Step): boolean {
  return fault?.kind === 'unavailable' && fault.code === REJECT_CODE.SYS_TRANSIENT;
}

function changesState(task: Task): boolean {
  return task.kind === 'update' || task.kind === 'system' || (task.kind === 'callback' && task.frame === 0);
}

function instructionsMax(context: CallContext): number {
  return context.evaluation === undefined ? FULL_LIMIT : Math.max(0, context.evaluation.budget.instructionsLeft);
}
