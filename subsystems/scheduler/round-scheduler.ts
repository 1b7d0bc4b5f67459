/**
 * Which task runs next.
 *
 * A canister's messages start in the order they came; queries may overtake updates, heartbeats and timers come first.
 * Canisters of one lane (executor thread) take turns: when more is waiting than the lane's window holds, each gets one
 * task into the window before any gets its second, so a busy canister cannot starve the others. Executions of one call
 * context never run ahead of each other, because each must know what the one before it did.
 *
 * Where state is kept, execution runs ahead of the disk, but no client is told of anything before it is durable: each
 * canister knows the unit of its newest change, and answers wait for that.
 *
 * Main thread: everything that enters or leaves this folder comes through here. It never waits for the disk or for an
 * executor.
 */
import { REJECT_CODE, type Outcome, type Step, type CanisterStatus, idToText } from '../ic/index.ts';
import { at, type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { CodeChange, Execution, ModuleInfo } from '../execution/index.ts';
import type { Entry } from '../storage/index.ts';
import { Agenda, isUrgent, queueOf, type Waiting } from './agenda.ts';
import { CallContext, QUERY_CALLS_MAX, QueryEvaluation } from './call-context.ts';
import { CallJournal, type KeptUnits } from './call-journal.ts';
import { slotOf } from './call-records.ts';
import { Calls, notFound, type Refusal, standingRefusal, THREAD_STOPPED } from './calls.ts';
import { DrainReport } from './drain-report.ts';
import { Executions, INSPECT } from './executions.ts';
import { Holding } from './holding.ts';
import type {
  AdmitOptions,
  CanisterHost,
  IngressMessage,
  LiveFigures,
  OpenCallCount,
  Scheduler,
  SchedulerSetup,
  SystemCanister,
} from './index.ts';
import { Lane } from './lanes.ts';
import { restoreCalls } from './restore-calls.ts';
import { Sleeping, type SleepingOptions } from './sleeping.ts';
import { Stopping } from './stopping.ts';
import { TextIndex } from './text-index.ts';
import { GLOBAL_TIMER, Ticking, type TickingOptions } from './ticking.ts';

/** Messages waiting for one canister; then `unavailable` (docs/execution-rules.md, "Order and queues"). */
const QUEUE_MESSAGES_MAX = 10_000;

const SERVER_STOPPING: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: 'the server is stopping' };
const NO_PRINCIPAL = new Uint8Array(0);

const LOW_MEMORY = 'canister_on_low_wasm_memory';

export interface RoundSchedulerOptions extends TickingOptions, SleepingOptions {
  /** Instructions that a composite query may use over all its executions. */
  readonly queryInstructionsMax: number;
}

export class RoundScheduler implements Scheduler, SchedulerSetup {
  readonly #execution: Execution;
  readonly #clock: Clock;
  readonly #storage: KeptUnits;
  readonly #options: RoundSchedulerOptions;
  readonly #lanes: readonly Lane[];
  readonly #agendas: (Agenda | undefined)[] = [];
  readonly #byId = new TextIndex((handle) => this.#agendas[handle]?.idText);
  readonly #journal: CallJournal;
  readonly #calls: Calls;
  readonly #ticking: Ticking;
  readonly #sleeping: Sleeping;
  readonly #stopping: Stopping;
  readonly #executions: Executions;
  readonly #holding: Holding;
  readonly #report: DrainReport;
  #host: CanisterHost | undefined;
  #isDraining = false;

  constructor(
    granted: {
      readonly execution: Execution;
      readonly clock: Clock;
      readonly storage: KeptUnits;
      /** Told whom a drain waits for. */
      readonly log?: Pick<Logger, 'info'>;
    },
    options: RoundSchedulerOptions,
  ) {
    this.#execution = granted.execution;
    this.#clock = granted.clock;
    this.#storage = granted.storage;
    this.#options = options;
    this.#journal = new CallJournal(granted.storage);
    this.#calls = new Calls(
      {
        nowMs: () => this.#clock.nowMs(),
        aheadOf: ({ handle }) => granted.execution.aheadOf(handle),
        find: (id) => this.#find(id),
        enqueue: (agenda, waiting) => this.#enqueue(agenda, waiting),
        credit: (agenda, amount) => this.#executions.credit(this.#journal.credit(agenda, amount)),
        contextEnded: (agenda) => this.#stopping.settle(agenda),
        answer: (context, done, outcome) => this.#answer(context, done, outcome),
      },
      this.#journal,
    );
    this.#stopping = new Stopping(granted.clock, (agenda) => this.#statusChanged(agenda));
    this.#ticking = new Ticking(options, {
      clock: granted.clock,
      aheadOf: ({ handle }) => granted.execution.aheadOf(handle),
      due: (agenda, exported) => this.#beginSystemTask(agenda, exported),
      expire: (nowMs) => this.#calls.expire(nowMs),
      timerChanged: (agenda) => this.#recordChanged(agenda),
    });
    this.#sleeping = new Sleeping(
      options,
      granted.clock,
      {
        awake: (agenda) => this.#awake(agenda),
        failed: (agenda, error) => this.#wakeFailed(agenda, error),
      },
      this.#journal.isKept ? granted.execution : undefined,
    );
    this.#executions = new Executions(
      {
        execution: granted.execution,
        journal: this.#journal,
        calls: this.#calls,
        ticking: this.#ticking,
        sleeping: this.#sleeping,
      },
      {
        enqueue: (agenda, waiting) => this.#enqueue(agenda, waiting),
        begin: (agenda) => this.#begin(agenda, false),
        executed: (agenda, messages, traps) => this.#host?.executed?.(agenda.handle, messages, traps),
      },
    );
    this.#holding = new Holding({
      execution: granted.execution,
      journal: this.#journal,
      calls: this.#calls,
      ticking: this.#ticking,
      sleeping: this.#sleeping,
      executions: this.#executions,
      laneOf: (agenda) => this.#laneOf(agenda),
    });
    this.#report = new DrainReport({
      clock: granted.clock,
      executing: () => this.#execution.executing(),
      moduleOf: (handle) => this.#agendas[handle]?.module,
      nameOf: (handle) => this.#host?.nameOf?.(handle) ?? `actor ${handle}`,
      say: (line) => granted.log?.info(line),
    });
    const executions = this.#executions;
    this.#lanes = Array.from(
      { length: granted.execution.executorCount },
      () => new Lane((agenda, lane, waiting) => executions.start(agenda, lane, waiting)),
    );
  }

  // ---- canisters come and go

  admit(handle: number, idText: string, options: AdmitOptions = {}): void {
    const agenda = new Agenda(handle, idText);
    agenda.status = options.status ?? 'running';
    agenda.module = options.module;
    agenda.isAsleep = options.isAsleep ?? false;
    agenda.timerMs = options.timerMs;
    this.#agendas[handle] = agenda;
    this.#byId.add(handle);
    this.#ticking.codeChanged(agenda);
    if (!agenda.isAsleep) this.#sleeping.admitted(agenda);
  }

  attach(systemCanister: SystemCanister): void {
    this.#calls.systemCanister = systemCanister;
  }

  attachHost(host: CanisterHost): void {
    this.#host = host;
    this.#sleeping.attach(host);
  }

  /** Begins with heartbeats and timers. */
  beginTicking(): void {
    this.#ticking.begin();
  }

  restore(entries: Iterable<Entry>): void {
    const restored = restoreCalls(entries, (id) => this.#find(id));
    this.#journal.resume(restored.number, restored.order);
    for (const waiting of restored.waiting) {
      const { agenda } = waiting.kind === 'start' ? waiting.context : waiting.call.context;
      queueOf(agenda.work, waiting).push(waiting);
    }
    // Only now: what is rejected comes after what waits already.
    for (const call of restored.open) this.#calls.resume(call);
    for (const credit of restored.credits) this.#executions.credit(credit);
    for (const agenda of this.#agendas) {
      if (agenda === undefined) continue;
      this.#begin(agenda, false);
      this.#stopping.settle(agenda);
    }
  }

  async change(handle: number, module: ModuleInfo, change: CodeChange): Promise<Step> {
    return await this.#holding.change(this.#agendaOf(handle), module, change);
  }

  async uninstall(handle: number): Promise<void> {
    await this.#holding.uninstall(this.#agendaOf(handle));
  }

  async endCalls(handle: number): Promise<void> {
    await this.#holding.endCalls(this.#agendaOf(handle));
  }

  hold(handle: number): () => void {
    return this.#holding.hold(this.#agendaOf(handle));
  }

  async pin(handle: number): Promise<() => void> {
    return await this.#holding.pin(this.#agendaOf(handle));
  }

  handleOf(id: Uint8Array): number | undefined {
    return this.#byId.find(idToText(id));
  }

  #find(id: Uint8Array): Agenda | undefined {
    const handle = this.handleOf(id);
    return handle === undefined ? undefined : this.#agendas[handle];
  }

  isLive(handle: number): boolean {
    return !this.#agendaOf(handle).isAsleep;
  }

  get live(): LiveFigures {
    const { liveCount, evictions, wakeUps } = this.#sleeping;
    return { liveCount, evictions, wakeUps };
  }

  openCallsOf(handle: number): readonly OpenCallCount[] {
    const counts = new Map<number, { callee: Uint8Array; slot: number; count: number }>();
    for (const { context, callee, callbacks } of this.#agendaOf(handle).workIfAny?.openCalls ?? []) {
      // The executor has forgotten them with the code.
      if (context.isDeleted) continue;
      const slot = slotOf(callbacks);
      const entry = counts.get(slot);
      if (entry !== undefined) entry.count++;
      else if (slot !== 0) counts.set(slot, { callee, slot, count: 1 });
    }
    return [...counts.values()];
  }

  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void {
    const agenda = this.#agendaOf(handle);
    agenda.module = module;
    this.#journal.changed(agenda);
    if (timerMs !== undefined) this.#ticking.putTimer(agenda, Number.isFinite(timerMs) ? timerMs : undefined);
    this.#ticking.codeChanged(agenda);
    this.#recordChanged(agenda);
  }

  withdraw(handle: number): void {
    const agenda = this.#agendaOf(handle);
    this.#ticking.forget(agenda);
    this.#byId.delete(agenda.idText);
    this.#agendas[handle] = undefined;
    agenda.isWithdrawn = true;
    this.#journal.changed(agenda);
    this.#sleeping.forget(agenda);
    for (const waiter of agenda.work.wakeWaiters.splice(0)) waiter(DELETED);
    this.#stopping.refuse(agenda);
    // Stopping does not wait for queries.
    this.#refuseWaiting(agenda, notFound(agenda.id));
    // One that was kept out, or whose calls were ended, has more: calls whose answers nobody will get, which must not stay
    // stored, and calls that will never start.
    const { code, message } = notFound(agenda.id);
    for (const call of agenda.work.openCalls) this.#calls.abandon(call);
    for (const context of agenda.work.contexts) this.#calls.delete(context, code, message);
  }

  setMinimumCycles(handle: number, cycles: bigint): void {
    this.#agendaOf(handle).minimumCycles = cycles;
  }

  lowMemory(handle: number): boolean {
    const agenda = this.#agendaOf(handle);
    if (agenda.status !== 'running' || agenda.isChanging) return false;
    if (agenda.entry(LOW_MEMORY) !== undefined) this.#beginSystemTask(agenda, LOW_MEMORY);
    return true;
  }

  lost(handle: number): void {
    const agenda = this.#agendas[handle];
    if (agenda === undefined) return;
    const { work } = agenda;
    if (this.#journal.isKept) {
      work.life = {};
      work.frames = 0;
      this.#sleeping.lost(agenda);
      const isWanted = work.waiting > 0 || work.interrupted.length > 0;
      if (isWanted && !this.#isDraining) this.#sleeping.busyStill(agenda);
      return;
    }
    agenda.isLost = true;
    this.#ticking.forget(agenda);
    this.#refuseWaiting(agenda, THREAD_STOPPED);
    const { code, message } = THREAD_STOPPED;
    for (const context of work.contexts) this.#calls.delete(context, code, message, 'unavailable');
    this.#stopping.settle(agenda);
  }

  /** Its executor has it again. */
  #awake(agenda: Agenda): void {
    const { work } = agenda;
    if (work.interrupted.length > 0 && !this.#isDraining) {
      // In the order they came, which is not the one in which they were given up.
      const again = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
      work.input.putAhead(again);
    }
    if (work.isStatusNew) this.#execution.configure(agenda.handle, { status: agenda.status });
    work.isStatusNew = false;
    for (const waiter of work.wakeWaiters.splice(0)) waiter(undefined);
    this.#begin(agenda, false);
  }

  /**
   * It cannot be woken: calls are refused; responses wait for the next time. One that is kept out for good keeps what is
   * stored for it, for a host that can load it.
   */
  #wakeFailed(agenda: Agenda, error: Error): void {
    const { work } = agenda;
    agenda.isAbsent = error instanceof ServerError && error.kind === 'missing';
    for (const waiter of work.wakeWaiters.splice(0)) waiter(error);
    const refusal: Refusal = { code: REJECT_CODE.SYS_TRANSIENT, message: error.message };
    const interrupted = work.interrupted.splice(0).sort((a, b) => a.order - b.order);
    for (const waiting of [...interrupted, ...takeAll(agenda)]) {
      const isKept = this.#journal.keeps(waiting);
      if (isKept && agenda.isAbsent) continue;
      if (isKept && waiting.kind !== 'start') queueOf(work, waiting).push(waiting);
      else this.#refuse(waiting, refusal);
    }
  }

  // ---- states

  statusOf(handle: number): CanisterStatus {
    return this.#agendaOf(handle).status;
  }

  timerOf(handle: number): number | undefined {
    return this.#agendaOf(handle).timerMs;
  }

  storedTimerOf(handle: number): number | undefined {
    return this.#agendaOf(handle).workIfAny?.firingMs ?? this.timerOf(handle);
  }

  start(handle: number): void {
    const agenda = this.#agendaOf(handle);
    this.#stopping.start(agenda);
    this.#ticking.codeChanged(agenda);
  }

  stop(handle: number): Promise<void> {
    return this.#stopping.stop(this.#agendaOf(handle));
  }

  refuseStops(handle: number): () => void {
    return this.#stopping.refuse(this.#agendaOf(handle));
  }

  #statusChanged(agenda: Agenda): void {
    const { handle, status } = agenda;
    // The last of its calls may end when it is long gone.
    if (agenda.isWithdrawn) return;
    if (agenda.isAsleep) agenda.work.isStatusNew = agenda.work.isWaking;
    else if (!agenda.isLost) this.#execution.configure(handle, { status });
    this.#recordChanged(agenda);
  }

  /** What is stored of a canister besides its memory is another now. */
  #recordChanged(agenda: Agenda): void {
    if (!this.#journal.isKept || agenda.isWithdrawn) return;
    this.#journal.changed(agenda);
    this.#host?.changed(agenda.handle);
  }

  // ---- messages come in

  deliver(message: IngressMessage): Promise<Outcome> {
    return new Promise((resolve) => this.#accept(message, resolve));
  }

  #accept(message: IngressMessage, done: (outcome: Outcome) => void): void {
    if (this.#isDraining) {
      done(STOPPING_OUTCOME);
      return;
    }
    const agenda = this.#agendas[message.handle];
    if (agenda === undefined) {
      done(refusedOutcome('reject', REJECT_CODE.DESTINATION_INVALID, 'the canister was deleted'));
      return;
    }
    const standing = standingRefusal(agenda);
    if (standing !== undefined) {
      const outcome = refusedOutcome(agenda.isLost ? 'unavailable' : 'reject', standing.code, standing.message);
      this.#journal.tell(agenda.lastUnit, done, outcome);
      return;
    }
    const { work } = agenda;
    if (work.input.length + work.queries.length >= QUEUE_MESSAGES_MAX) {
      const reason = `the actor's queue holds ${QUEUE_MESSAGES_MAX} of ${QUEUE_MESSAGES_MAX} messages: try again later`;
      done(refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, reason));
      return;
    }
    const { kind, method, caller, argument } = message;
    const isComposite = kind === 'query' && agenda.module?.methods.get(method) === 'composite_query';
    const context = new CallContext(
      agenda,
      { kind: 'ingress', done },
      { caller, evaluation: isComposite ? this.#newEvaluation() : undefined },
    );
    if (kind === 'update') {
      work.contexts.add(context);
      if (agenda.entry(INSPECT) !== undefined) {
        this.#enqueue(agenda, { kind: 'inspect', context, method, argument });
        return;
      }
    }
    this.#enqueue(agenda, { kind: 'start', context, call: kind, method, argument, order: 0 });
  }

  #newEvaluation(): QueryEvaluation {
    const { queryInstructionsMax } = this.#options;
    return new QueryEvaluation(0, {
      instructionsLeft: queryInstructionsMax,
      callsLeft: QUERY_CALLS_MAX,
      lastUnit: 0,
    });
  }

  #answer({ agenda, evaluation }: CallContext, done: (outcome: Outcome) => void, outcome: Outcome): void {
    evaluation?.saw(agenda);
    this.#journal.tell(evaluation === undefined ? agenda.lastUnit : evaluation.budget.lastUnit, done, outcome);
  }

  #beginSystemTask(agenda: Agenda, exported: string): void {
    const context = new CallContext(agenda, { kind: 'system' }, { caller: NO_PRINCIPAL });
    agenda.work.contexts.add(context);
    this.#enqueue(agenda, { kind: 'system', context, exported });
  }

  #enqueue(agenda: Agenda, waiting: Waiting): void {
    if (agenda.isWithdrawn) {
      this.#refuse(waiting, notFound(agenda.id));
      return;
    }
    if (agenda.isLost) {
      this.#refuse(waiting, THREAD_STOPPED);
      return;
    }
    if (this.#isDraining && waiting.kind !== 'dropFrame' && !this.#journal.keeps(waiting)) {
      this.#refuse(waiting, SERVER_STOPPING);
      return;
    }
    this.#journal.queued(waiting);
    // What is kept goes on after the restart, or whenever its canister can be loaded.
    if (agenda.isAbsent || (this.#isDraining && waiting.kind !== 'dropFrame')) return;
    queueOf(agenda.work, waiting).push(waiting);
    this.#begin(agenda, isUrgent(waiting));
  }

  // ---- turns

  /** Something waits for the canister, perhaps: it gets its turn, or is woken. */
  #begin(agenda: Agenda, mustNotWait: boolean): void {
    if (agenda.isAsleep || this.#sleeping.isBounded) {
      const work = agenda.workIfAny;
      if (work === undefined || work.waiting === 0) return;
      this.#sleeping.busy(agenda, mustNotWait);
      if (agenda.isAsleep) return;
    }
    const lane = this.#laneOf(agenda);
    lane.giveTurn(agenda);
    lane.fill();
  }

  // ---- the end

  /**
   * Takes no more messages, answers the queued ones `unavailable`, and resolves when the executing ones have ended, however
   * long they take, and all that is durable. Messages between canisters are not answered where they are kept: they go on
   * after the restart.
   */
  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#ticking.end();
    this.#execution.refuseNew();
    this.#executions.beginDraining();
    if (this.#journal.isKept) this.#calls.farewell = STOPPING_OUTCOME;
    for (const agenda of this.#agendas) if (agenda !== undefined) this.#refuseWaiting(agenda, SERVER_STOPPING);
    // Calls that wait for other calls get no answer any more: their clients are told now.
    for (const agenda of this.#agendas) {
      for (const context of agenda?.workIfAny?.contexts ?? []) {
        if (context.isExecuting) continue;
        if (this.#journal.isKept) this.#calls.dismiss(context);
        else this.#calls.delete(context, SERVER_STOPPING.code, SERVER_STOPPING.message, 'unavailable');
      }
    }
    this.#report.begin();
    await this.#executions.drained();
    this.#report.end();
    await this.#storage.settled();
  }

  /** What is kept stays so when the server stops. */
  #refuseWaiting(agenda: Agenda, refusal: Refusal): void {
    if (this.#isDraining) agenda.workIfAny?.interrupted.splice(0);
    for (const waiting of takeAll(agenda)) {
      if (!(this.#isDraining && this.#journal.keeps(waiting))) this.#refuse(waiting, refusal);
    }
  }

  #refuse(waiting: Waiting, { code, message }: Refusal): void {
    const kind = code === REJECT_CODE.SYS_TRANSIENT ? 'unavailable' : 'reject';
    switch (waiting.kind) {
      case 'start':
      case 'inspect':
        this.#calls.refuse(waiting.context, code, message, kind);
        return;
      case 'system':
        // A timer whose hook did not run is due again, once the canister can be woken.
        if (waiting.exported === GLOBAL_TIMER && this.#journal.isKept && !waiting.context.agenda.isWithdrawn)
          this.#ticking.rearm(waiting.context.agenda);
        this.#ticking.ended(waiting.context.agenda, waiting.exported);
        this.#calls.refuse(waiting.context, code, message);
        return;
      case 'response':
        this.#calls.callEnded(waiting.call);
        this.#calls.delete(waiting.call.context, code, message, kind);
        return;
      case 'credit':
        this.#journal.paid(waiting.credit);
        return;
      case 'dropFrame':
    }
  }

  #agendaOf(handle: number): Agenda {
    return at(this.#agendas, handle, 'canister');
  }

  #laneOf(agenda: Agenda): Lane {
    return at(this.#lanes, this.#execution.executorOf(agenda.handle), 'lane');
  }
}

function takeAll(agenda: Agenda): readonly Waiting[] {
  const work = agenda.workIfAny;
  if (work === undefined || work.waiting === 0) return [];
  return [work.system, work.input, work.queries].flatMap((queue) => queue.takeAll());
}

function refusedOutcome(kind: 'unavailable' | 'reject', code: 2 | 3 | 5 | 1 | 4 | 6, message: string): Outcome {
  return { kind, code, message, instructions: 0, charge: 0 };
}

const STOPPING_OUTCOME = refusedOutcome('unavailable', REJECT_CODE.SYS_TRANSIENT, SERVER_STOPPING.message);
const DELETED = new Error('the canister was deleted');
