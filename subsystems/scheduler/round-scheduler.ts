/**
 * Which task runs next.
 *
 * A canister's messages start in the order they came; queries may overtake updates, heartbeats and timers come first.
 * Canisters of one queue (executor thread) take turns: when more is waiting than the queue's window holds, each gets
 * one task into the window before any gets its second, so a busy canister cannot starve the others. Executions of one
 * call context never run ahead of each other, because each must know what the one before it did.
 *
 * Where state is kept, execution runs ahead of the disk, but no client is told of anything before it is durable: each
 * canister knows the unit of its newest change, and answers wait for that.
 *
 * Main thread: everything that enters or leaves this folder comes through here. It never waits for the disk or for an
 * executor.
 */
import { REJECT_CODE, type NotedMessage, type Outcome, idToText } from '../ic/index.ts';
import { at, ServerError } from '../../kernel/index.ts';
import type { CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Entry } from '../storage/index.ts';
import { ScheduledCanister, queueOf, type IngressOrigin, type QueuedTask, CallContext } from './scheduled-canister.ts';
import type { KeptUnits } from './call-journal.ts';
import { notFound, type Refusal, standingRefusal, THREAD_STOPPED } from './calls.ts';
import { contextOf, INSPECT, LOW_MEMORY } from './executions.ts';
import { takeAll } from './not-begun.ts';
import { DELETED, EVICTED, LIVE, LOST, UNUSABLE } from './canister-state.ts';
import { type AsScheduled, CanisterPort, type Listener, type Loader } from './canister-port.ts';
import type {
  AdmitOptions,
  ChangedCode,
  IdempotencyFigures,
  DeliveredMessage,
  LiveFigures,
  Scheduler,
  SchedulerSetup,
  SystemCanister,
} from './index.ts';
import type { ExecutorQueue } from './executor-queue.ts';
import { QUERY_CALLS_MAX, QueryEvaluation } from './query-evaluation.ts';
import { restoreCalls } from './restore-calls.ts';
import { digestOf } from './idempotency/argument-digest.ts';
import type { Asked, UnderWay } from './idempotency/canister-keys.ts';
import { type Need, needOf, needOfAll } from './need.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';
import { type RoundSchedulerOptions, type SchedulerGrants, SchedulerParts } from './scheduler-parts.ts';
import { TextIndex } from './text-index.ts';

/** Messages waiting for one canister; then `unavailable` (docs/execution-rules.md, "Order and queues"). */
const QUEUE_MESSAGES_MAX = 10_000;

const SERVER_STOPPING: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: 'the server is stopping' };
const NO_PRINCIPAL = new Uint8Array(0);

export class RoundScheduler implements Scheduler, SchedulerSetup {
  readonly queuedMax = QUEUE_MESSAGES_MAX;
  readonly #execution: ScheduledExecution;
  readonly #storage: KeptUnits;
  readonly #options: RoundSchedulerOptions;
  readonly #parts: SchedulerParts;
  readonly #canisters: (ScheduledCanister | undefined)[] = [];
  readonly #byId = new TextIndex((handle) => this.#canisters[handle]?.idText);
  readonly #port = new CanisterPort();
  #isDraining = false;

  constructor(granted: SchedulerGrants, options: RoundSchedulerOptions) {
    this.#execution = granted.execution;
    this.#storage = granted.storage;
    this.#options = options;
    this.#parts = new SchedulerParts(granted, options, this.#port, {
      find: (id) => this.#find(id),
      moduleOf: (handle) => this.#canisters[handle]?.module,
      accept: ({ handle, message }, underWay) => this.#accept(handle, message, underWay.tell, underWay),
      enqueue: (canister, waiting) => this.#enqueue(canister, waiting),
      mayWait: (canister, waiting) => this.#mayWait(canister, waiting),
      schedule: (canister) => this.#schedule(canister),
      takenBack: (canister, tasks) => this.#takenBack(canister, tasks),
      credit: (canister, amount) => this.#parts.executions.credit(this.#parts.journal.credit(canister, amount)),
      answer: (context, done, outcome) => this.#answer(context, done, outcome),
      due: (canister, exported) => this.#beginSystemTask(canister, exported),
      awake: (canister, isStatusNew) => this.#awake(canister, isStatusNew),
      failed: (canister, error) => this.#wakeFailed(canister, error),
      statusChanged: (canister) => this.#statusChanged(canister),
      timerChanged: (canister) => this.#recordChanged(canister),
    });
    granted.execution.attend({
      changed: (handle, changes) => this.#port.listener.changed(handle, changes),
      settled: () => granted.storage.settled(),
      credited: (handle, balance) => this.#port.listener.credited(handle, balance),
      lost: (handle) => this.#lost(handle),
    });
  }

  // ---- canisters come and go

  admit(handle: number, idText: string, options: AdmitOptions = {}): void {
    const { isAsleep = false, isUnloadable = false } = options;
    const canister = new ScheduledCanister(handle, idText, isUnloadable ? UNUSABLE : isAsleep ? EVICTED : LIVE);
    canister.status = options.status ?? 'running';
    canister.module = options.module;
    canister.timerMs = options.timerMs;
    this.#canisters[handle] = canister;
    this.#byId.add(handle);
    this.#parts.ticking.codeChanged(canister);
    if (!canister.isAsleep) this.#parts.eviction.admitted(canister);
  }

  attach(systemCanister: SystemCanister): void {
    this.#parts.calls.systemCanister = systemCanister;
  }

  attachCanisters(loader: Loader, listener: Listener): void {
    Object.assign(this.#port, { loader, listener });
  }

  /** Begins with heartbeats and timers. */
  beginTicking(): void {
    this.#parts.ticking.begin();
  }

  async restoreAnswers(): Promise<void> {
    await this.#parts.idempotency.restore((id) => this.#find(id));
  }

  restore(entries: Iterable<Entry>): void {
    const restored = restoreCalls(entries, (id) => this.#find(id));
    this.#parts.journal.resume(restored.number, restored.order);
    for (const { context, record } of restored.keyed) {
      const { key, method, digest } = record;
      const call = { caller: context.caller, key, method, digest };
      context.underWay = this.#parts.idempotency.resume(context.canister, call);
      context.origin = { kind: 'ingress', done: context.underWay.tell, noted: undefined };
    }
    for (const waiting of restored.waiting) {
      const { canister } = waiting.kind === 'start' ? waiting.context : waiting.call.context;
      queueOf(canister.work, waiting).push(waiting);
    }
    // Only now: what is rejected comes after what waits already.
    for (const call of restored.open) this.#parts.calls.resume(call);
    for (const credit of restored.credits) this.#parts.executions.credit(credit);
    for (const canister of this.#canisters) {
      if (canister === undefined) continue;
      if (canister.status !== 'running') this.#parts.notBegun.sort(canister);
      this.#schedule(canister);
      this.#parts.stopping.stopIfDone(canister);
    }
  }

  async change(handle: number, module: ModuleInfo, change: CodeChange): Promise<ChangedCode> {
    return await this.#parts.codeChangeLock.change(this.#canisterOf(handle), module, change);
  }

  async uninstall(handle: number): Promise<void> {
    await this.#parts.codeChangeLock.uninstall(this.#canisterOf(handle));
  }

  async endCalls(handle: number): Promise<void> {
    await this.#parts.codeChangeLock.endCalls(this.#canisterOf(handle));
  }

  lock(handle: number): () => void {
    return this.#parts.codeChangeLock.lock(this.#canisterOf(handle));
  }

  async lockBetweenMessages(handle: number, { pauses = false } = {}): Promise<(() => void) | undefined> {
    return await this.#parts.codeChangeLock.lockBetweenMessages(this.#canisterOf(handle), pauses);
  }

  async pin(handle: number): Promise<() => void> {
    return await this.#parts.codeChangeLock.pin(this.#canisterOf(handle));
  }

  handleOf(id: Uint8Array): number | undefined {
    return this.#byId.find(idToText(id));
  }

  #find(id: Uint8Array): ScheduledCanister | undefined {
    const handle = this.handleOf(id);
    return handle === undefined ? undefined : this.#canisters[handle];
  }

  stateOf(handle: number): AsScheduled {
    return this.#canisterOf(handle);
  }

  get idempotency(): IdempotencyFigures {
    return this.#parts.idempotency.figures;
  }

  get live(): LiveFigures {
    const { liveCount, evictions, wakeUps } = this.#parts.eviction;
    return { liveCount, evictions, wakeUps };
  }

  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void {
    const canister = this.#canisterOf(handle);
    canister.module = module;
    this.#parts.journal.changed(canister);
    if (timerMs !== undefined) this.#parts.ticking.putTimer(canister, Number.isFinite(timerMs) ? timerMs : undefined);
    this.#parts.ticking.codeChanged(canister);
    this.#recordChanged(canister);
  }

  withdraw(handle: number): void {
    const canister = this.#canisterOf(handle);
    this.#parts.ticking.forget(canister);
    this.#byId.delete(canister.idText);
    this.#canisters[handle] = undefined;
    canister.enter(DELETED);
    this.#parts.idempotency.forget(canister);
    this.#parts.journal.changed(canister);
    this.#parts.eviction.forget(canister);
    for (const waiter of canister.work.wakeWaiters.splice(0)) waiter(ACTOR_DELETED);
    // Their contexts end below: nobody gives these up afterwards.
    canister.work.interrupted.splice(0);
    this.#parts.stopping.refuse(canister);
    // Stopping does not wait for queries.
    this.#refuseWaiting(canister, notFound(canister.id));
    // One that was kept out, or whose calls were ended, has more: calls whose answers nobody will get, which must not
    // stay stored, and calls that will never start.
    const { code, message } = notFound(canister.id);
    for (const call of canister.work.openCalls) this.#parts.calls.abandon(call);
    for (const context of canister.work.contexts) this.#parts.calls.delete(context, code, message);
  }

  setMinimumCycles(handle: number, cycles: bigint): void {
    this.#canisterOf(handle).minimumCycles = cycles;
  }

  lowMemory(handle: number, isLow: boolean): void {
    const canister = this.#canisterOf(handle);
    if (!isLow) {
      const work = canister.workIfAny;
      if (work !== undefined) work.lowMemory = undefined;
      return;
    }
    if (canister.status !== 'running' || canister.isChanging || canister.state.kind === 'unloadable') return;
    if (canister.entry(LOW_MEMORY) === undefined) {
      this.#port.listener.lowMemoryRan(handle);
      return;
    }
    const { lowMemory } = canister.work;
    // The hook of the code before does not run any more.
    if (lowMemory !== undefined && !lowMemory.isDeleted) return;
    // Before it begins, which it may at once.
    canister.work.lowMemory = systemContext(canister);
    this.#beginSystemTask(canister, LOW_MEMORY, canister.work.lowMemory);
  }

  #lost(handle: number): void {
    const canister = this.#canisters[handle];
    if (canister === undefined) return;
    this.#executorDied(canister);
    this.#port.listener.lost(handle);
  }

  /** Where state is kept the canister sleeps then; what executed is answered, or executed again. */
  #executorDied(canister: ScheduledCanister): void {
    const { work } = canister;
    if (this.#parts.journal.isDurable) {
      work.life = {};
      work.frames = 0;
      this.#parts.eviction.lost(canister);
      const isWanted = work.waiting > 0 || work.interrupted.length > 0;
      if (isWanted && !this.#isDraining) this.#parts.eviction.wantsStill(canister);
      return;
    }
    canister.enter(LOST);
    this.#parts.idempotency.forget(canister);
    this.#parts.ticking.forget(canister);
    this.#refuseWaiting(canister, THREAD_STOPPED);
    const { code, message } = THREAD_STOPPED;
    for (const context of work.contexts) this.#parts.calls.delete(context, code, message, 'unavailable');
    this.#parts.stopping.stopIfDone(canister);
  }

  /** Goes on with a canister that its executor has again. */
  #awake(canister: ScheduledCanister, isStatusNew: boolean): void {
    canister.expect('go on', 'live');
    const { work } = canister;
    if (work.interrupted.length > 0 && !this.#isDraining) {
      // In the order they came, which is not the one in which they were given up.
      const again = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
      work.input.putAhead(again);
      if (canister.status !== 'running') this.#parts.notBegun.sort(canister);
    }
    if (isStatusNew) this.#execution.configure(canister.handle, { status: canister.status });
    for (const waiter of work.wakeWaiters.splice(0)) waiter(undefined);
    this.#schedule(canister);
  }

  /**
   * Refuses calls of a canister that cannot be woken; responses wait for the next time. A canister that is kept out for
   * good keeps its stored messages, for a host that can load it.
   */
  #wakeFailed(canister: ScheduledCanister, error: Error): void {
    canister.expect('wait for the next time', 'evicted', 'unloadable');
    const { work } = canister;
    for (const waiter of work.wakeWaiters.splice(0)) waiter(error);
    const refusal: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: error.message };
    const interrupted = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
    for (const waiting of [...interrupted, ...takeAll(canister)]) {
      const isKept = this.#parts.journal.keeps(waiting);
      if (isKept && canister.state.kind === 'unloadable') continue;
      if (isKept && waiting.kind !== 'start') queueOf(work, waiting).push(waiting);
      else this.#parts.notBegun.refuse(waiting, refusal);
    }
  }

  // ---- states

  start(handle: number): void {
    const canister = this.#canisterOf(handle);
    this.#parts.stopping.start(canister);
    this.#parts.ticking.codeChanged(canister);
  }

  stop(handle: number): Promise<void> {
    return this.#parts.stopping.stop(this.#canisterOf(handle));
  }

  pause(handle: number): Promise<void> {
    return this.#parts.stopping.pause(this.#canisterOf(handle));
  }

  resume(handle: number): void {
    const canister = this.#canisterOf(handle);
    if (!canister.isPaused) return;
    this.start(handle);
  }

  beginDeletion(handle: number): () => void {
    const canister = this.#canisterOf(handle);
    const endRefusal = this.#parts.stopping.refuse(canister);
    this.#parts.executions.recall(canister, 'everything');
    return () => {
      endRefusal();
      if (canister.state.kind !== 'deleted') this.#schedule(canister);
    };
  }

  #statusChanged(canister: ScheduledCanister): void {
    const { handle, status } = canister;
    const { state } = canister;
    if (state.kind === 'live') this.#execution.configure(handle, { status });
    else if (state.kind === 'loading') state.isStatusNew = true;
    this.#recordChanged(canister);
    this.#parts.notBegun.sort(canister);
  }

  /** Notes that the stored facts of a canister, besides its memory, have changed. */
  #recordChanged(canister: ScheduledCanister): void {
    // The last of a canister's calls may end when it is long gone.
    if (!this.#parts.journal.isDurable || canister.state.kind === 'deleted') return;
    this.#parts.journal.changed(canister);
    this.#port.listener.recordChanged(canister.handle);
  }

  // ---- messages come in

  deliver(handle: number, message: DeliveredMessage): Promise<Outcome> {
    const { idempotencyKey } = message;
    if (idempotencyKey !== undefined) return this.#deliverOnce(handle, message, idempotencyKey);
    return new Promise((resolve) => this.#accept(handle, message, resolve, undefined));
  }

  #deliverOnce(handle: number, message: DeliveredMessage, key: string): Promise<Outcome> {
    return new Promise((answer, refuse) => {
      const digest = digestOf(message.argument);
      if (typeof digest === 'string') this.#ask({ handle, message, key, digest, answer, refuse });
      else digest.then((known) => this.#ask({ handle, message, key, digest: known, answer, refuse })).catch(refuse);
    });
  }

  #ask(asked: Asked): void {
    const { handle, message } = asked;
    const canister = this.#isDraining ? undefined : this.#canisters[handle];
    if (canister === undefined) this.#accept(handle, message, asked.answer, undefined);
    else this.#parts.idempotency.ask(canister, asked);
  }

  #accept(
    handle: number,
    message: DeliveredMessage,
    done: (outcome: Outcome) => void,
    underWay: UnderWay | undefined,
  ): void {
    const { noted } = message;
    if (this.#isDraining) {
      this.#tell(handle, noted, done, STOPPING_OUTCOME);
      return;
    }
    const canister = this.#canisters[handle];
    if (canister === undefined) {
      const outcome = refusedOutcome('reject', REJECT_CODE.DESTINATION_INVALID, 'the canister was deleted');
      this.#tell(handle, noted, done, outcome);
      return;
    }
    const standing = standingRefusal(canister, message.kind === 'transform');
    if (standing !== undefined) {
      const outcome = refusedOutcome(
        canister.state.kind === 'lost' ? 'unavailable' : 'reject',
        standing.code,
        standing.message,
      );
      this.#answered(handle, noted, outcome);
      this.#parts.journal.tell(canister.lastUnit, done, outcome);
      return;
    }
    const { work } = canister;
    if (work.input.length + work.queries.length >= QUEUE_MESSAGES_MAX) {
      const reason = `the actor's queue holds ${QUEUE_MESSAGES_MAX} of ${QUEUE_MESSAGES_MAX} messages: try again later`;
      this.#tell(handle, noted, done, refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, reason));
      return;
    }
    const { kind, method, caller, argument } = message;
    const isComposite = kind === 'query' && canister.module?.methods.get(method) === 'composite_query';
    const context = new CallContext(
      canister,
      { kind: 'ingress', done, noted },
      { caller, evaluation: isComposite ? this.#newEvaluation() : undefined },
    );
    context.underWay = underWay;
    if (kind === 'update') {
      work.contexts.add(context);
      if (canister.entry(INSPECT) !== undefined) {
        this.#enqueue(canister, { kind: 'inspect', context, method, argument });
        return;
      }
    }
    this.#enqueue(canister, { kind: 'start', context, call: kind, method, argument, order: 0 });
  }

  #newEvaluation(): QueryEvaluation {
    const { queryInstructionsMax } = this.#options;
    return new QueryEvaluation(0, {
      instructionsLeft: queryInstructionsMax,
      callsLeft: QUERY_CALLS_MAX,
      lastUnit: 0,
    });
  }

  /** Tells of a message that nothing is executed for, and whose answer waits for nothing. */
  #tell(handle: number, noted: NotedMessage | undefined, done: (outcome: Outcome) => void, outcome: Outcome): void {
    this.#answered(handle, noted, outcome);
    done(outcome);
  }

  #answered(handle: number, noted: NotedMessage | undefined, outcome: Outcome): void {
    if (noted !== undefined) this.#port.listener.answered(handle, noted, outcome);
  }

  #answer(context: CallContext, { done, noted }: IngressOrigin, outcome: Outcome): void {
    const { canister, evaluation, underWay } = context;
    this.#answered(canister.handle, noted, outcome);
    if (underWay !== undefined) {
      context.underWay = undefined;
      this.#parts.idempotency.answered(underWay, outcome);
    }
    evaluation?.saw(canister);
    this.#parts.journal.tell(evaluation === undefined ? canister.lastUnit : evaluation.budget.lastUnit, done, outcome);
  }

  #beginSystemTask(canister: ScheduledCanister, exported: string, context = systemContext(canister)): void {
    canister.work.contexts.add(context);
    this.#enqueue(canister, { kind: 'system', context, exported });
  }

  #enqueue(canister: ScheduledCanister, waiting: QueuedTask): void {
    if (!this.#mayWait(canister, waiting)) return;
    queueOf(canister.work, waiting).push(waiting);
    // The task was let in before the canister began to stop.
    if (canister.status !== 'running' && waiting.kind === 'start') this.#parts.notBegun.sort(canister);
    this.#schedule(canister, needOf(waiting));
  }

  /**
   * Refuses what can never begin. Whether the rest waits here: what is kept also goes on after the restart, or whenever
   * its canister can be loaded.
   */
  #mayWait(canister: ScheduledCanister, waiting: QueuedTask): boolean {
    const refusal = this.#refusalOf(canister, waiting);
    if (refusal !== undefined) {
      this.#parts.notBegun.refuse(waiting, refusal);
      return false;
    }
    this.#parts.journal.queued(waiting);
    return canister.state.kind !== 'unloadable' && !(this.#isDraining && waiting.kind !== 'dropFrame');
  }

  #refusalOf({ state, id }: ScheduledCanister, waiting: QueuedTask): Refusal | undefined {
    if (state.kind === 'deleted') return notFound(id);
    if (state.kind === 'lost') return THREAD_STOPPED;
    const isKept = !this.#isDraining || waiting.kind === 'dropFrame' || this.#parts.journal.keeps(waiting);
    return isKept ? undefined : SERVER_STOPPING;
  }

  #takenBack(canister: ScheduledCanister, tasks: readonly QueuedTask[]): void {
    this.#parts.notBegun.takenBack(canister, tasks);
    if (!this.#isDraining) return;
    for (const waiting of tasks) {
      const context = contextOf(waiting);
      if (context !== undefined) this.#parts.calls.answerStopping(context);
    }
  }

  // ---- turns

  /** Something waits for the canister, perhaps: it gets its turn, or is woken. */
  #schedule(canister: ScheduledCanister, need?: Need): void {
    if (canister.state.kind !== 'live' || this.#parts.eviction.isBounded) {
      const work = canister.workIfAny;
      if (work === undefined || work.waiting === 0) return;
      this.#parts.eviction.wants(canister, need ?? needOfAll(work));
      if (canister.state.kind !== 'live') return;
    }
    const queue = this.#queueOfExecutor(canister);
    queue.giveTurn(canister);
    queue.fill();
  }

  // ---- the end

  /**
   * Takes no more messages, answers the queued ones `unavailable`, and resolves when the executing ones have ended,
   * however long they take, and all that is durable. Messages between canisters are not answered where they are kept:
   * they go on after the restart.
   */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#parts.ticking.end();
    this.#parts.idempotency.end();
    this.#execution.refuseNew();
    this.#parts.executions.beginDraining();
    if (this.#parts.journal.isDurable) this.#parts.calls.stoppingOutcome = STOPPING_OUTCOME;
    for (const canister of this.#canisters) if (canister !== undefined) this.#refuseWaiting(canister, SERVER_STOPPING);
    // Calls that wait for other calls get no answer any more: their clients are told now.
    for (const canister of this.#canisters) {
      for (const context of canister?.workIfAny?.contexts ?? []) {
        if (context.isExecuting) continue;
        if (this.#parts.journal.isDurable) this.#parts.calls.answerStopping(context);
        else this.#parts.calls.delete(context, SERVER_STOPPING.code, SERVER_STOPPING.message, 'unavailable');
      }
    }
    this.#parts.report.begin();
    await this.#parts.executions.drained();
    this.#parts.report.end();
    await this.#storage.settled();
  }

  /** Refuses tasks that wait; stored ones stay stored when the server stops. */
  #refuseWaiting(canister: ScheduledCanister, refusal: Refusal): void {
    if (this.#isDraining) canister.workIfAny?.interrupted.splice(0);
    for (const waiting of takeAll(canister)) {
      if (!(this.#isDraining && this.#parts.journal.keeps(waiting))) this.#parts.notBegun.refuse(waiting, refusal);
    }
  }

  #canisterOf(handle: number): ScheduledCanister {
    return at(this.#canisters, handle, 'canister');
  }

  #queueOfExecutor(canister: ScheduledCanister): ExecutorQueue {
    return at(this.#parts.queues, this.#execution.executorOf(canister.handle), 'queue');
  }
}

function systemContext(canister: ScheduledCanister): CallContext {
  return new CallContext(canister, { kind: 'system' }, { caller: NO_PRINCIPAL });
}

function refusedOutcome(kind: 'unavailable' | 'reject', code: 2 | 3 | 5 | 1 | 4 | 6, message: string): Outcome {
  return { kind, code, message, instructions: 0, charge: 0 };
}

const STOPPING_OUTCOME = refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, SERVER_STOPPING.message);
const ACTOR_DELETED = new ServerError('missing', 'actor-missing', 'the actor was deleted meanwhile');
