/**
 * Which task runs next.
 *
 * A canister's messages start in the order they came; queries may overtake updates, heartbeats and timers come first.
 * Canisters of one lane (executor thread) take turns: when more is waiting than the lane's window holds, each gets one
 * task into the window before any gets its second, so a busy canister cannot starve the others.
 *
 * The window is how far the main thread runs ahead of an executor: large enough that an executor never waits for the
 * main thread while there is work (a wake-up costs more than a message), small enough that turns stay fair. Executions
 * of one call context never run ahead of each other, because each must know what the one before it did.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { principalToText } from '../codec/index.ts';
import {
  type CodeChange,
  type Execution,
  FULL_LIMIT,
  type ModuleInfo,
  type Outcome,
  type Step,
  type Task,
} from '../execution/index.ts';
import { Agenda, type CanisterStatus, type Waiting } from './agenda.ts';
import { CallContext, QUERY_CALLS_MAX, QueryEvaluation } from './call-context.ts';
import { Calls, notFound, type Refusal, standingRefusal } from './calls.ts';
import type { IngressMessage, Scheduler, SystemCanister } from './index.ts';
import { Queue } from './queue.ts';
import { Ticking, type TickingOptions } from './ticking.ts';

/** Tasks handed to one executor and not yet ended. A task of a few µs each: about a millisecond of work ahead. */
const LANE_WINDOW = 128;
/** Messages waiting for one canister; then `unavailable` (decisions.md, "Metering and limits"). */
const QUEUE_MESSAGES_MAX = 10_000;
/** As the IC's replica: a canister that still has open calls then stays stopping. */
const STOP_DEADLINE_MS = 5 * 60_000;

const SYS_TRANSIENT = 2;
const DESTINATION_INVALID = 3;
const CANISTER_REJECT = 4;
const CANISTER_ERROR = 5;
const THREAD_STOPPED: Refusal = { code: SYS_TRANSIENT, message: "the actor's thread has stopped" };
const SERVER_STOPPING: Refusal = { code: SYS_TRANSIENT, message: 'the server is stopping' };
const NO_PRINCIPAL = new Uint8Array(0);

const INSPECT = 'canister_inspect_message';
const LOW_MEMORY = 'canister_on_low_wasm_memory';

/** One executor thread as the scheduler sees it. */
class Lane {
  executing = 0;
  /** Canisters with something to do, in the order of their turns. */
  readonly turns = new Queue<Agenda>();
}

export interface RoundSchedulerOptions extends TickingOptions {
  /** Instructions that a composite query may use over all its executions. */
  readonly queryInstructionsMax: number;
}

export class RoundScheduler implements Scheduler {
  readonly #execution: Execution;
  readonly #clock: Clock;
  readonly #options: RoundSchedulerOptions;
  readonly #lanes: readonly Lane[];
  readonly #agendas: (Agenda | undefined)[] = [];
  readonly #byId = new Map<string, Agenda>();
  readonly #calls: Calls;
  readonly #ticking: Ticking;
  #executing = 0;
  #isDraining = false;
  #drained: (() => void) | undefined;

  constructor(granted: { readonly execution: Execution; readonly clock: Clock }, options: RoundSchedulerOptions) {
    this.#execution = granted.execution;
    this.#clock = granted.clock;
    this.#options = options;
    this.#lanes = Array.from({ length: granted.execution.lanes }, () => new Lane());
    this.#calls = new Calls({
      nowMs: () => this.#clock.nowMs(),
      find: (id) => this.#byId.get(keyOf(id)),
      enqueue: (agenda, waiting) => this.#enqueue(agenda, waiting),
      credit: (agenda, amount) => this.#credit(agenda, amount),
      contextEnded: (agenda) => this.#settleStop(agenda),
    });
    this.#ticking = new Ticking(options, {
      nowMs: () => this.#clock.nowMs(),
      due: (agenda, exported) => this.#beginSystemTask(agenda, exported),
      expire: (nowMs) => this.#calls.expire(nowMs),
    });
  }

  // ---- canisters come and go

  admit(handle: number, id: Uint8Array): void {
    const agenda = new Agenda(handle, id);
    this.#agendas[handle] = agenda;
    this.#byId.set(keyOf(id), agenda);
  }

  attach(systemCanister: SystemCanister): void {
    this.#calls.systemCanister = systemCanister;
  }

  beginTicking(): void {
    this.#ticking.begin();
  }

  change(handle: number, module: ModuleInfo, change: CodeChange): Promise<Step> {
    const agenda = this.#agendaOf(handle);
    const lane = this.#laneOf(agenda);
    agenda.changes++;
    return new Promise((resolve) => {
      lane.executing++;
      this.#executing++;
      this.#execution.change(handle, module, change, (step) => {
        agenda.changes--;
        if (step.fault === undefined && !agenda.isWithdrawn) {
          agenda.module = module;
          this.#ticking.setTimer(agenda, step.timerNs ?? 0n);
          this.#ticking.codeChanged(agenda);
        }
        this.#ended(lane);
        resolve(step);
        this.#giveTurn(agenda, lane);
        this.#fill(lane);
      });
    });
  }

  uninstall(handle: number): void {
    const agenda = this.#agendaOf(handle);
    agenda.module = undefined;
    this.#ticking.setTimer(agenda, 0n);
    this.#ticking.codeChanged(agenda);
    this.#execution.uninstall(handle);
    for (const context of agenda.contexts)
      this.#calls.delete(context, CANISTER_REJECT, 'Canister has been uninstalled.');
  }

  hold(handle: number): () => void {
    const agenda = this.#agendaOf(handle);
    agenda.changes++;
    return () => {
      agenda.changes--;
      if (agenda.isWithdrawn) return;
      const lane = this.#laneOf(agenda);
      this.#giveTurn(agenda, lane);
      this.#fill(lane);
    };
  }

  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void {
    const agenda = this.#agendaOf(handle);
    agenda.module = module;
    if (timerMs !== undefined) agenda.timerMs = timerMs;
    this.#ticking.codeChanged(agenda);
  }

  withdraw(handle: number): void {
    const agenda = this.#agendaOf(handle);
    this.#ticking.forget(agenda);
    this.#byId.delete(keyOf(agenda.id));
    this.#agendas[handle] = undefined;
    agenda.isWithdrawn = true;
    // Stopping does not wait for queries.
    this.#refuseWaiting(agenda, notFound(agenda.id));
  }

  setMinimumCycles(handle: number, cycles: bigint): void {
    this.#agendaOf(handle).minimumCycles = cycles;
  }

  lowMemory(handle: number): boolean {
    const agenda = this.#agendaOf(handle);
    if (agenda.status !== 'running' || agenda.changes > 0) return false;
    if (agenda.entry(LOW_MEMORY) !== undefined) this.#beginSystemTask(agenda, LOW_MEMORY);
    return true;
  }

  lost(handle: number): void {
    const agenda = this.#agendas[handle];
    if (agenda === undefined) return;
    agenda.isLost = true;
    this.#ticking.forget(agenda);
    this.#refuseWaiting(agenda, THREAD_STOPPED);
    const { code, message } = THREAD_STOPPED;
    for (const context of agenda.contexts) this.#calls.delete(context, code, message, 'unavailable');
    this.#settleStop(agenda);
  }

  // ---- states

  statusOf(handle: number): CanisterStatus {
    return this.#agendaOf(handle).status;
  }

  timerOf(handle: number): number | undefined {
    const { timerMs } = this.#agendaOf(handle);
    return Number.isFinite(timerMs) ? timerMs : undefined;
  }

  start(handle: number): void {
    const agenda = this.#agendaOf(handle);
    if (agenda.status === 'running') return;
    agenda.status = 'running';
    this.#execution.configure(handle, { status: 'running' });
    for (const waiter of agenda.stopWaiters.splice(0)) waiter('the canister was started again before it had stopped');
    this.#ticking.codeChanged(agenda);
  }

  stop(handle: number): Promise<void> {
    const agenda = this.#agendaOf(handle);
    if (agenda.status === 'stopped') return Promise.resolve();
    if (agenda.status === 'running') {
      agenda.status = 'stopping';
      this.#execution.configure(handle, { status: 'stopping' });
    }
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(
        () => settle('it still has open calls after five minutes, and goes on stopping'),
        STOP_DEADLINE_MS,
      );
      deadline.unref();
      const settle = (problem: string | undefined): void => {
        clearTimeout(deadline);
        const at = agenda.stopWaiters.indexOf(settle);
        if (at >= 0) agenda.stopWaiters.splice(at, 1);
        if (problem === undefined) resolve();
        else
          reject(
            new ServerError('unavailable', 'stop-failed', `${principalToText(agenda.id)} did not stop: ${problem}`),
          );
      };
      agenda.stopWaiters.push(settle);
      this.#settleStop(agenda);
    });
  }

  #settleStop(agenda: Agenda): void {
    if (agenda.status !== 'stopping' || agenda.contexts.size > 0) return;
    agenda.status = 'stopped';
    if (!agenda.isLost) this.#execution.configure(agenda.handle, { status: 'stopped' });
    for (const waiter of agenda.stopWaiters.splice(0)) waiter(undefined);
  }

  // ---- messages come in

  deliver(message: IngressMessage): Promise<Outcome> {
    return new Promise((resolve) => this.#accept(message, resolve));
  }

  #accept(message: IngressMessage, done: (outcome: Outcome) => void): void {
    if (this.#isDraining) {
      done(refusedOutcome('unavailable', SYS_TRANSIENT, 'the server is stopping'));
      return;
    }
    const agenda = this.#agendas[message.handle];
    if (agenda === undefined) {
      done(refusedOutcome('reject', DESTINATION_INVALID, 'the canister was deleted'));
      return;
    }
    const standing = standingRefusal(agenda);
    if (standing !== undefined) {
      done(refusedOutcome(agenda.isLost ? 'unavailable' : 'reject', standing.code, standing.message));
      return;
    }
    if (agenda.input.length + agenda.queries.length >= QUEUE_MESSAGES_MAX) {
      const reason = `the actor's queue holds ${QUEUE_MESSAGES_MAX} of ${QUEUE_MESSAGES_MAX} messages: try again later`;
      done(refusedOutcome('unavailable', SYS_TRANSIENT, reason));
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
      agenda.contexts.add(context);
      if (agenda.entry(INSPECT) !== undefined) {
        this.#enqueue(agenda, { kind: 'inspect', context, method, argument });
        return;
      }
    }
    this.#enqueue(agenda, { kind: 'start', context, call: kind, method, argument });
  }

  #newEvaluation(): QueryEvaluation {
    return new QueryEvaluation(0, { instructionsLeft: this.#options.queryInstructionsMax, callsLeft: QUERY_CALLS_MAX });
  }

  #beginSystemTask(agenda: Agenda, exported: string): void {
    const context = new CallContext(agenda, { kind: 'system' }, { caller: NO_PRINCIPAL });
    agenda.contexts.add(context);
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
    if (this.#isDraining && waiting.kind !== 'dropFrame') {
      this.#refuse(waiting, SERVER_STOPPING);
      return;
    }
    queueOf(agenda, waiting).push(waiting);
    const lane = this.#laneOf(agenda);
    this.#giveTurn(agenda, lane);
    this.#fill(lane);
  }

  // ---- turns

  #giveTurn(agenda: Agenda, lane: Lane): void {
    if (agenda.hasTurn || !agenda.hasWork) return;
    agenda.hasTurn = true;
    lane.turns.push(agenda);
  }

  /** Gives out turns while the lane's window has room. */
  #fill(lane: Lane): void {
    while (lane.executing < LANE_WINDOW) {
      const agenda = lane.turns.shift();
      if (agenda === undefined) return;
      agenda.hasTurn = false;
      const waiting = agenda.take();
      // Undefined: what comes first waits for an execution that is under way; its end gives the next turn.
      if (waiting === undefined) continue;
      this.#start(agenda, lane, waiting);
      this.#giveTurn(agenda, lane);
    }
  }

  #start(agenda: Agenda, lane: Lane, waiting: Waiting): void {
    switch (waiting.kind) {
      case 'start':
        this.#startCall(agenda, lane, waiting);
        return;
      case 'response': {
        const { call, response, refunded } = waiting;
        const { context } = call;
        // Without its frame a composite query cannot go on: one of its callbacks has trapped.
        if (context.isDeleted || (context.evaluation !== undefined && context.frame === 0)) {
          if (refunded > 0n) this.#credit(agenda, refunded);
          this.#calls.callbackEnded(call, NOTHING_RAN);
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
        this.#run(agenda, lane, task, (step) => this.#calls.callbackEnded(call, step));
        return;
      }
      case 'inspect':
        this.#inspect(agenda, lane, waiting);
        return;
      case 'system': {
        const { context, exported } = waiting;
        const entry = agenda.entry(exported);
        if (entry === undefined || context.isDeleted) {
          this.#ticking.ended(agenda, exported);
          this.#calls.ended(context, NOTHING_RAN);
          return;
        }
        context.isExecuting = true;
        this.#run(agenda, lane, { kind: 'system', entry }, (step) => {
          this.#ticking.ended(agenda, exported);
          this.#calls.ended(context, step);
        });
        return;
      }
      case 'dropFrame':
        this.#run(agenda, lane, { kind: 'dropFrame', frame: waiting.frame }, () => undefined);
    }
  }

  #startCall(agenda: Agenda, lane: Lane, waiting: Extract<Waiting, { kind: 'start' }>): void {
    const { context, call, method, argument } = waiting;
    // Its code was uninstalled, and its caller knows; other code may be here by now.
    if (context.isDeleted) return;
    const kind = agenda.module?.methods.get(method);
    const entry = kind === undefined ? undefined : agenda.entry(`canister_${kind} ${method}`);
    // The code may be another than when the call was let in.
    const isUnfit =
      (kind === 'update' && call === 'query') || (kind === 'composite_query' && context.evaluation === undefined);
    if (entry === undefined || isUnfit) {
      this.#calls.refuse(context, CANISTER_ERROR, `Canister ${principalToText(agenda.id)} has no method '${method}'`);
      return;
    }
    context.isExecuting = true;
    const task: Task = {
      kind: call,
      entry,
      argument,
      context: context.view(),
      instructionsMax: instructionsMax(context),
    };
    this.#run(agenda, lane, task, (step) => this.#calls.ended(context, step));
  }

  #inspect(agenda: Agenda, lane: Lane, waiting: Extract<Waiting, { kind: 'inspect' }>): void {
    const { context, method, argument } = waiting;
    if (context.isDeleted) return;
    const entry = agenda.entry(INSPECT);
    const goOn = (): void => this.#enqueue(agenda, { kind: 'start', context, call: 'update', method, argument });
    if (entry === undefined) {
      goOn();
      return;
    }
    // The argument is needed again, and a large one would be handed over.
    const task: Task = { kind: 'inspect', entry, method, argument: argument.slice(), caller: context.caller };
    this.#run(agenda, lane, task, (step) => {
      context.instructions += step.instructions;
      if (step.fault !== undefined) this.#calls.ended(context, step);
      else if (step.isAccepted) goOn();
      else this.#calls.refuse(context, CANISTER_REJECT, `Canister ${principalToText(agenda.id)} rejected the message`);
    });
  }

  #run(agenda: Agenda, lane: Lane, task: Task, done: (step: Step) => void): void {
    lane.executing++;
    this.#executing++;
    agenda.executing++;
    this.#execution.run(agenda.handle, task, (step) => {
      agenda.executing--;
      if (step.timerNs !== undefined) this.#ticking.setTimer(agenda, step.timerNs);
      this.#ended(lane);
      done(step);
      this.#giveTurn(agenda, lane);
      if (lane.turns.length > 0) this.#fill(lane);
    });
  }

  #ended(lane: Lane): void {
    lane.executing--;
    this.#executing--;
    if (this.#executing === 0) this.#drained?.();
  }

  // ---- the end

  drain(): Promise<void> {
    this.#isDraining = true;
    this.#ticking.end();
    this.#execution.refuseNew();
    for (const agenda of this.#agendas) if (agenda !== undefined) this.#refuseWaiting(agenda, SERVER_STOPPING);
    // Calls that wait for other calls get no answer any more: their clients are told now.
    for (const agenda of this.#agendas) {
      for (const context of agenda?.contexts ?? []) {
        if (context.isExecuting) continue;
        this.#calls.delete(context, SERVER_STOPPING.code, SERVER_STOPPING.message, 'unavailable');
      }
    }
    if (this.#executing === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#drained = resolve;
    });
  }

  #refuseWaiting(agenda: Agenda, refusal: Refusal): void {
    for (const queue of [agenda.system, agenda.input, agenda.queries]) {
      for (const waiting of queue.takeAll()) this.#refuse(waiting, refusal);
    }
  }

  #refuse(waiting: Waiting, { code, message }: Refusal): void {
    const kind = code === SYS_TRANSIENT ? 'unavailable' : 'reject';
    switch (waiting.kind) {
      case 'start':
      case 'inspect':
        this.#calls.refuse(waiting.context, code, message, kind);
        return;
      case 'system':
        this.#calls.refuse(waiting.context, code, message);
        return;
      case 'response':
        waiting.call.context.openCalls--;
        this.#calls.delete(waiting.call.context, code, message, kind);
        return;
      case 'dropFrame':
    }
  }

  #credit(agenda: Agenda, amount: bigint): void {
    // A canister that is gone cannot be paid; its cycles went with it.
    if (!agenda.isLost) this.#execution.addCycles(agenda.handle, amount).catch(() => undefined);
  }

  #agendaOf(handle: number): Agenda {
    const agenda = this.#agendas[handle];
    if (agenda === undefined) throw new Error(`no canister ${handle}`);
    return agenda;
  }

  #laneOf(agenda: Agenda): Lane {
    const lane = this.#lanes[this.#execution.laneOf(agenda.handle)];
    if (lane === undefined) throw new Error(`canister ${agenda.handle} has no lane`);
    return lane;
  }
}

function queueOf(agenda: Agenda, waiting: Waiting): Queue<Waiting> {
  switch (waiting.kind) {
    case 'system':
      return agenda.system;
    case 'start':
      return waiting.call === 'query' ? agenda.queries : agenda.input;
    case 'response':
      return waiting.call.context.evaluation === undefined ? agenda.input : agenda.queries;
    case 'dropFrame':
      return agenda.queries;
    case 'inspect':
      return agenda.input;
  }
}

function instructionsMax(context: CallContext): number {
  return context.evaluation === undefined ? FULL_LIMIT : Math.max(0, context.evaluation.budget.instructionsLeft);
}

const NOTHING_RAN: Step = {
  fault: undefined,
  answer: undefined,
  calls: [],
  cyclesAccepted: 0n,
  timerNs: undefined,
  isAccepted: false,
  frame: 0,
  instructions: 0,
  charge: 0,
};

function refusedOutcome(kind: 'unavailable' | 'reject', code: 2 | 3 | 5 | 1 | 4 | 6, message: string): Outcome {
  return { kind, code, message, instructions: 0, charge: 0 };
}

function keyOf(id: Uint8Array): string {
  return Buffer.from(id.buffer, id.byteOffset, id.byteLength).toString('latin1');
}
