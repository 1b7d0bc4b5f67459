/**
 * The scheduler's state: canisters, tasks that wait for each of them, and the calls in progress. All of it is in one
 * file, because each refers to the others: a canister has contexts, a context belongs to a canister.
 * Main thread; plain state, changed by the other files of this folder.
 */
import {
  type RunKind,
  type Callbacks,
  type CanisterStatus,
  type ContextView,
  idFromText,
  idToText,
  type NotedMessage,
  type OpenCallsEntry,
  type Outcome,
  type RejectCode,
  type Response,
  slotOf,
  type StepFault,
} from '../ic/index.ts';
import type { ModuleInfo, Recall } from '../execution/index.ts';
import type { AsScheduled } from './canister-port.ts';
import type { LruNode } from './lru-list.ts';
import { type Member, MemberList } from './member-list.ts';
import { assertTransition, type CanisterState, type FirstState } from './canister-state.ts';
import { Queue } from './queue.ts';
import type { UnderWay } from './idempotency/canister-keys.ts';

/** A call of a method that waits. */
export interface QueuedCall {
  readonly kind: 'start';
  readonly context: CallContext;
  readonly call: RunKind;
  readonly method: string;
  readonly argument: Uint8Array;
  /** The place among the canister's stored tasks; 0: not stored. */
  order: number;
}

/** A response that waits to be given to its callback. */
export interface QueuedResponse {
  readonly kind: 'response';
  readonly call: OpenCall;
  readonly response: Response;
  readonly refunded: bigint;
  /** As above. */
  order: number;
}

/**
 * Something that waits for a canister. Entry points are looked up when it starts: the code may have changed by then.
 */
export type QueuedTask =
  | QueuedCall
  /** A call of a method from a client, when the canister wants to look at it first. */
  | {
      readonly kind: 'inspect';
      readonly context: CallContext;
      readonly method: string;
      readonly argument: Uint8Array;
    }
  | QueuedResponse
  /** A heartbeat or a global timer that is due. */
  | { readonly kind: 'system'; readonly context: CallContext; readonly exported: string }
  /** A suspended query that nobody goes on with. */
  | { readonly kind: 'dropFrame'; readonly frame: number; readonly life: object }
  /** Cycles that come back without a callback, for a canister that was asleep. */
  | { readonly kind: 'credit'; readonly credit: Credit };

/** Cycles that a canister has to get, and no callback brings. */
export interface Credit {
  readonly canister: ScheduledCanister;
  readonly amount: bigint;
  /** The key of the stored record; 0: none. */
  number: number;
  isStored: boolean;
  isPaid: boolean;
}

/** State that a canister needs while it has anything to do. */
export class PendingWork {
  /** Heartbeats and timers: ahead of everything else. */
  readonly system = new Queue<QueuedTask>();
  /** Updates and responses. */
  readonly input = new Queue<QueuedTask>();
  /** Queries: on committed state, so they may overtake what waits in `input`. */
  readonly queries = new Queue<QueuedTask>();
  /** Contexts of updates and system tasks that are not finished: what stopping waits for. */
  readonly contexts = new MemberList<CallContext>();
  /** Calls of these contexts that are open; filled only where state is kept. */
  readonly openCalls = new MemberList<OpenCall>();
  /** Tasks that executed when the executor died, and are to be executed again. */
  interrupted: (QueuedCall | QueuedResponse)[] = [];
  /** Calls of clients that have not begun, while it is paused: they wait for its new code. */
  readonly held = new Queue<QueuedTask>();
  /** Changes of its code that are under way: nothing starts until all have ended. */
  changes = 0;
  /** Tasks and changes of code at the executor, and cycles on their way there. */
  executing = 0;
  /** The part of `executing` that is being taken back: nothing starts until nothing of that part executes any more. */
  recall: Recall = 'nothing';
  /** Tasks that have come back, in order; then they go ahead of what waits. */
  takenBack: QueuedTask[] = [];
  /** Who needs it to stay awake. */
  pins = 0;
  /** Who is about to delete it with its calls. */
  deletions = 0;
  /** Suspended composite queries in the executor. */
  frames = 0;
  /** Changes when the executor dies, and with it every suspended query. */
  life: object = {};
  /** Has a place among its queue's turns. */
  hasTurn = false;
  /** The heartbeat is queued or executing. */
  isBeating = false;
  /**
   * When the timer was due whose hook is queued or executing, ms since 1970; undefined: none is, or it was set again
   * since.
   */
  firingMs: number | undefined = undefined;
  /** The context of the low-memory hook that is queued or executing; undefined: none is, or it is not due any more. */
  lowMemory: CallContext | undefined = undefined;
  /** True if the status has changed since the waking began. */
  isStatusNew = false;
  /** True if the canister could not be woken a moment ago. */
  isUnwakable = false;
  /** Why it is `unloadable`. */
  loadProblem: Error | undefined = undefined;
  /** Executors in a row that have died while it woke. */
  lostWakes = 0;
  /** Others wait for its place: it starts nothing more before it has slept. */
  isEvictionRequested = false;
  /** Called when it has stopped, or will not: then with the reason. */
  stopWaiters: ((problem: string | undefined) => void)[] = [];
  /** Called when nothing of it executes any more. */
  restWaiters: (() => void)[] = [];
  /** Called when it is awake, or cannot be woken: then with the reason. */
  wakeWaiters: ((problem: Error | undefined) => void)[] = [];
  isQueryNext = false;

  /** The hook in that context runs no more; true: it was due. */
  lowMemoryEnded(context: CallContext): boolean {
    if (this.lowMemory !== context) return false;
    this.lowMemory = undefined;
    return true;
  }

  get waiting(): number {
    return this.system.length + this.input.length + this.queries.length;
  }

  /** True if the executor may drop the canister now. */
  get isQuiet(): boolean {
    return (
      this.executing === 0 &&
      this.changes === 0 &&
      this.pins === 0 &&
      this.frames === 0 &&
      this.interrupted.length === 0
    );
  }

  /** Nothing here is worth keeping. */
  get isNeedless(): boolean {
    return (
      this.isQuiet &&
      this.waiting === 0 &&
      this.held.length === 0 &&
      this.contexts.size === 0 &&
      this.openCalls.size === 0 &&
      this.stopWaiters.length === 0 &&
      this.wakeWaiters.length === 0 &&
      this.deletions === 0 &&
      this.firingMs === undefined &&
      this.lowMemory === undefined &&
      !this.isBeating &&
      !this.isUnwakable &&
      this.loadProblem === undefined &&
      !this.hasTurn
    );
  }
}

/** Tasks of one canister, in order, and its state. Many canisters sleep, so the fields of busy ones are apart. */
export class ScheduledCanister implements AsScheduled {
  readonly handle: number;
  readonly idText: string;
  module: ModuleInfo | undefined = undefined;
  status: CanisterStatus = 'running';
  /** True if the canister stops only while its code is changed, and nobody else has stopped it since. */
  isPaused = false;
  /** Cycles that another canister must attach to a call. */
  minimumCycles = 0n;
  /** When the global timer is due, ms since 1970; undefined: off. */
  timerMs: number | undefined = undefined;
  /** The unit with its newest change. */
  lastUnit = 0;
  /** The place among canisters that are awake; undefined while this one sleeps. */
  lruNode: LruNode<ScheduledCanister> | undefined = undefined;
  #state: CanisterState;
  #work: PendingWork | undefined = undefined;

  constructor(handle: number, idText: string, state: FirstState = 'live') {
    this.handle = handle;
    this.idText = idText;
    this.#state = state;
  }

  get storedStatus(): CanisterStatus {
    return this.isPaused ? 'running' : this.status;
  }

  get storedTimerMs(): number | undefined {
    return this.#work?.firingMs ?? this.timerMs;
  }

  get openCounts(): readonly OpenCallsEntry[] {
    const counts = new Map<number, { callee: Uint8Array; slot: number; count: number }>();
    for (const { context, callee, callbacks } of this.#work?.openCalls ?? []) {
      // The executor has forgotten them with the code.
      if (context.isDeleted) continue;
      const slot = slotOf(callbacks);
      const entry = counts.get(slot);
      if (entry !== undefined) entry.count++;
      else if (slot !== 0) counts.set(slot, { callee, slot, count: 1 });
    }
    return [...counts.values()];
  }

  get queued(): number {
    const work = this.#work;
    return work === undefined ? 0 : work.waiting + work.held.length;
  }

  get state(): CanisterState {
    return this.#state;
  }

  /** Throws where the scheduler is mistaken: that state cannot follow the present one. */
  enter(state: CanisterState): void {
    assertTransition(this.handle, this.#state, state);
    this.#state = state;
  }

  /** True if the canister is stored, and no executor has it yet, or any more. */
  get isAsleep(): boolean {
    return this.#state === 'evicted' || this.#state === 'loading' || this.#state === 'unloadable';
  }

  get id(): Uint8Array {
    return idFromText(this.idText);
  }

  /** Made when first asked for. */
  get work(): PendingWork {
    return (this.#work ??= new PendingWork());
  }

  /** The canister's work; undefined: nothing is to be done. */
  get workIfAny(): PendingWork | undefined {
    return this.#work;
  }

  /** Gives back what a sleeping canister does not need. */
  shrink(): void {
    if (this.#state !== 'loading' && this.#work?.isNeedless === true) this.#work = undefined;
  }

  /** Number of an entry point, if the code has it. */
  entry(exported: string): number | undefined {
    return this.module?.entries.get(exported);
  }

  get isChanging(): boolean {
    return this.#work !== undefined && this.#work.changes > 0;
  }

  /** Something could start now. */
  get hasWork(): boolean {
    const work = this.#work;
    return work !== undefined && work.waiting > 0 && this.#canStart(work);
  }

  /** Nothing would be missed if it slept. */
  get isIdle(): boolean {
    const work = this.#work;
    return work === undefined || (work.waiting === 0 && work.isQuiet);
  }

  /** Takes what comes next; undefined when nothing does, or when it has to wait for an execution of its own context. */
  take(): QueuedTask | undefined {
    const work = this.#work;
    if (work === undefined || !this.#canStart(work)) return undefined;
    if (work.system.length > 0) return work.system.shift();
    const queue = nextQueue(work);
    const head = queue.peek();
    // The next execution of a context must know what the one before it did: whether it answered, what it accepted.
    if (head?.kind === 'response' && head.call.context.isExecuting) return undefined;
    return queue.shift();
  }

  #canStart(work: PendingWork): boolean {
    const isLocked = work.changes > 0 || work.deletions > 0 || work.recall !== 'nothing' || work.interrupted.length > 0;
    return this.#state === 'live' && !isLocked && !work.isEvictionRequested;
  }
}

/** Updates and queries alternate while both wait. */
function nextQueue(work: PendingWork): Queue<QueuedTask> {
  if (work.queries.length === 0) return work.input;
  if (work.input.length === 0) return work.queries;
  work.isQueryNext = !work.isQueryNext;
  return work.isQueryNext ? work.queries : work.input;
}

export function queueOf(work: PendingWork, waiting: QueuedTask): Queue<QueuedTask> {
  switch (waiting.kind) {
    case 'system':
      return work.system;
    case 'start':
      return waiting.call !== 'update' ? work.queries : work.input;
    case 'response':
      return waiting.call.context.evaluation === undefined ? work.input : work.queries;
    case 'dropFrame':
    case 'credit':
      return work.queries;
    case 'inspect':
      return work.input;
  }
}

// ---- calls

/** A client: gets the outcome. */
export interface IngressOrigin {
  readonly kind: 'ingress';
  done: (outcome: Outcome) => void;
  /** The message as it came; undefined: nobody counts it. */
  noted: NotedMessage | undefined;
}

/** Who waits for the answer of a call. */
type Origin =
  | IngressOrigin
  /** Another canister: its callback gets the response. */
  | { readonly kind: 'canister'; readonly call: OpenCall }
  /** Nobody: heartbeats and timers. */
  | { readonly kind: 'system' };

/** For clients that do not wait any more. */
export const NOBODY = (): void => undefined;

/** A call that an actor has made and whose callback has not run yet. */
export class OpenCall implements Member<OpenCall> {
  /** The context whose execution made it, and in which its callback will run. */
  readonly context: CallContext;
  /** Principal bytes; none: the management canister. */
  readonly callee: Uint8Array;
  readonly callbacks: Callbacks;
  /** When a best-effort caller stops waiting, ms since 1970; Infinity: never. */
  deadlineMs: number;
  /** Attached to a call of the management canister: they come back if this host does not live to answer it. */
  readonly cycles: bigint;
  /** The response is known: a later one is dropped. */
  isAnswered = false;
  /** True if the callback has run, or never will. */
  isEnded = false;
  /** The response, until its callback has ended; only where state is kept. */
  pending: QueuedResponse | undefined = undefined;
  /** The key of the stored record; 0: none yet. */
  number = 0;
  isStored = false;
  isDirty = false;
  /** The place among `openCalls`. */
  earlier: OpenCall | undefined = undefined;
  later: OpenCall | undefined = undefined;
  place = 0;

  constructor(
    context: CallContext,
    callee: Uint8Array,
    options: { readonly callbacks: Callbacks; readonly deadlineMs: number; readonly cycles: bigint },
  ) {
    this.context = context;
    this.callee = callee;
    this.callbacks = options.callbacks;
    this.deadlineMs = options.deadlineMs;
    this.cycles = options.cycles;
  }
}

export interface Deletion {
  readonly code: RejectCode;
  readonly message: string;
  readonly kind: 'reject' | 'unavailable';
}

/**
 * A call in progress: made when its entry point starts, gone when it has answered (or nobody waits) and none of its own
 * calls is open. Every execution that works for the call is told of it by a `ContextView`.
 */
export class CallContext implements Member<CallContext> {
  readonly canister: ScheduledCanister;
  /** Set once: what is loaded refers to each other. */
  origin: Origin;
  readonly caller: Uint8Array;
  readonly deadlineNs: bigint;
  /** The composite query this belongs to; undefined for updates and system tasks. */
  readonly evaluation: QueryEvaluation | undefined;
  /** A heartbeat or timer has brought it about: nobody else waits for it. Not known after a restart. */
  readonly isOfTick: boolean;
  cyclesAvailable: bigint;
  hasAnswered = false;
  instructions = 0;
  charge = 0;
  /** Calls made whose callbacks have not ended. */
  openCalls = 0;
  /** An execution is under way: the next one must know what it did. */
  isExecuting = false;
  /** Why the last execution that faulted did; told to the caller if nothing answers. */
  fault: StepFault | undefined = undefined;
  /** The note from which histories tell of a call that a canister made in this process. */
  note: NotedMessage | undefined = undefined;
  /** Code was uninstalled: callbacks do not run any more. */
  isDeleted = false;
  /**
   * The answer that the caller gets if the execution that was under way then does not answer; undefined: the execution
   * was ended for good.
   */
  deletion: Deletion | undefined = undefined;
  /** The call of its entry point, until that has ended; only where state is kept, and of calls that canisters made. */
  pending: QueuedCall | undefined = undefined;
  /** The key that the client gave, while the call has not been answered. */
  underWay: UnderWay | undefined = undefined;
  /** The key of the stored record; 0: none yet. */
  number = 0;
  isStored = false;
  isDirty = false;
  /** The place among `contexts`. */
  earlier: CallContext | undefined = undefined;
  later: CallContext | undefined = undefined;
  place = 0;
  #frame = 0;
  /** The life of the executor that the frame is in. */
  #life: object | undefined = undefined;

  constructor(
    canister: ScheduledCanister,
    origin: Origin,
    options: {
      readonly caller: Uint8Array;
      readonly deadlineNs?: bigint;
      readonly cycles?: bigint;
      readonly evaluation?: QueryEvaluation | undefined;
    },
  ) {
    this.canister = canister;
    this.origin = origin;
    this.caller = options.caller;
    this.deadlineNs = options.deadlineNs ?? 0n;
    this.cyclesAvailable = options.cycles ?? 0n;
    this.evaluation = options.evaluation;
    this.isOfTick = origin.kind === 'canister' ? origin.call.context.isOfTick : origin.kind === 'system';
  }

  get canAnswer(): boolean {
    return !this.hasAnswered && this.origin.kind !== 'system';
  }

  /**
   * Something will run that code of the canister has asked for: a callback, or a call to itself, whose argument may be
   * a place in a table of its own as well (Motoko's `async` blocks).
   */
  get comesBack(): boolean {
    if (this.isDeleted) return false;
    return this.openCalls > 0 || (this.origin.kind === 'canister' && idToText(this.caller) === this.canister.idText);
  }

  /** A suspended composite query in the executor; 0: none, or its executor has died. */
  get frame(): number {
    return this.#frame !== 0 && this.#life === this.canister.work.life ? this.#frame : 0;
  }

  set frame(frame: number) {
    if (this.#frame === 0 && frame === 0) return;
    const { work } = this.canister;
    if (this.frame !== 0) work.frames--;
    this.#frame = frame;
    this.#life = work.life;
    if (frame !== 0) work.frames++;
  }

  /** True if the context was suspended in an executor that has died. */
  get isFrameLost(): boolean {
    return this.#frame !== 0 && this.#life !== this.canister.work.life;
  }

  /** Returns the facts for the next execution. Plain data, which may have to be cloned. */
  view(): ContextView {
    const { caller, deadlineNs, canAnswer, cyclesAvailable, instructions } = this;
    return { caller, deadlineNs, canAnswer, cyclesAvailable, instructions };
  }
}

/** Levels of composite queries below the first (docs/execution-rules.md, "Composite queries"). */
export const QUERY_DEPTH_MAX = 6;
/** Calls of one composite query, over all levels. */
export const QUERY_CALLS_MAX = 500;

/** State that all executions of one composite query share. */
export class QueryEvaluation {
  readonly depth: number;
  readonly budget: {
    instructionsLeft: number;
    callsLeft: number;
    /** The newest change of any canister it has seen. */
    lastUnit: number;
  };

  constructor(depth: number, budget: QueryEvaluation['budget']) {
    this.depth = depth;
    this.budget = budget;
  }

  /** Notes that the query has seen this canister's state. */
  saw(canister: ScheduledCanister): void {
    if (canister.lastUnit > this.budget.lastUnit) this.budget.lastUnit = canister.lastUnit;
  }
}
