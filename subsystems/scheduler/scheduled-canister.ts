/**
 * The scheduler's state: canisters, tasks that wait for each of them, and the calls in progress. All of it is in one
 * file, because each refers to the others: a canister has contexts, a context belongs to a canister. The parts that
 * refer to none of these are in work.ts and query-evaluation.ts. Main thread; changed by the folder's other files.
 */
import {
  type RunKind,
  type Callbacks,
  type CanisterStatus,
  type ContextView,
  idFromText,
  idToText,
  type MessageTrace,
  type NotedMessage,
  type OpenCallsEntry,
  type Outcome,
  type RejectCode,
  type Response,
  slotOf,
  type StepFault,
  type StoredAs,
} from '../ic/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { AsScheduled } from './canister-port.ts';
import type { LruNode } from './lru-list.ts';
import type { Member } from './member-list.ts';
import {
  assertTransition,
  type CanisterState,
  EVICTED,
  type FirstState,
  LIVE,
  type StateKind,
  type StateOf,
} from './canister-state.ts';
import type { QueryEvaluation } from './query-evaluation.ts';
import type { Queue } from './queue.ts';
import type { UnderWay } from './idempotency/canister-keys.ts';
import { Work } from './work.ts';

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

/** The work of a canister: its tasks, contexts and calls. */
export type PendingWork = Work<QueuedTask, CallContext, OpenCall>;

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

  constructor(handle: number, idText: string, state: FirstState = LIVE) {
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
    const before = this.#state;
    assertTransition(this.handle, before.kind, state.kind);
    if (before.kind === 'evicted') before.pause?.[Symbol.dispose]();
    this.#state = state;
  }

  /**
   * Returns the state, which is of one of these kinds. Throws where the scheduler is mistaken; `deed` follows "the
   * canister cannot".
   */
  expect<K extends StateKind>(deed: string, kind: K, other: K = kind): StateOf<K> {
    const state = this.#state;
    if (isOfKind(state, kind) || isOfKind(state, other)) return state;
    throw new Error(`canister ${this.handle} cannot ${deed}: it is ${state.kind}`);
  }

  /**
   * Others wait for the place of the canister: it starts nothing more before it has slept. Only composite queries with
   * tickets up to this one go on, as long as it has parts of any suspended.
   */
  requestEviction(ticket = 0): void {
    this.expect('give way', 'live');
    this.#state = { kind: 'live', givesWayAt: ticket };
  }

  /** Another one has to give way: somebody counts on this canister. */
  keepPlace(): void {
    this.expect('keep its place', 'live');
    this.#state = LIVE;
  }

  get isGivingWay(): boolean {
    return this.#state.kind === 'live' && this.#state.givesWayAt !== undefined;
  }

  /** The pause after a failure is over: heartbeats and timers wake the canister again. */
  endPause(): void {
    this.expect('end its pause', 'evicted');
    this.#state = EVICTED;
  }

  /** True for a while after the canister could not be loaded. */
  get isPausing(): boolean {
    return this.#state.kind === 'evicted' && this.#state.pause !== undefined;
  }

  /** True if the canister is stored, and no executor has it yet, or any more. */
  get isAsleep(): boolean {
    const { kind } = this.#state;
    return kind === 'evicted' || kind === 'loading' || kind === 'unloadable';
  }

  get id(): Uint8Array {
    return idFromText(this.idText);
  }

  /** Made when first asked for. */
  get work(): PendingWork {
    return (this.#work ??= new Work());
  }

  /** The canister's work; undefined: nothing is to be done. */
  get workIfAny(): PendingWork | undefined {
    return this.#work;
  }

  /** Gives back what a sleeping canister does not need. */
  shrink(): void {
    this.expect('give anything back', 'evicted');
    if (this.#work?.isEmpty === true) this.#work = undefined;
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
    if (this.isGivingWay) return work.queries.takeFirst((waiting) => this.#isOwed(waiting));
    if (work.system.length > 0) return work.system.shift();
    const queue = nextQueue(work);
    const head = queue.peek();
    // The next execution of a context must know what the one before it did: whether it answered, what it accepted.
    if (head?.kind === 'response' && head.call.context.isExecuting) return undefined;
    return queue.shift();
  }

  #canStart(work: PendingWork): boolean {
    const state = this.#state;
    if (state.kind !== 'live') return false;
    if (state.givesWayAt !== undefined && (work.frames === 0 || !work.queries.some((waiting) => this.#isOwed(waiting))))
      return false;
    return work.changes === 0 && work.deletions === 0 && work.recall === 'nothing' && work.interrupted.length === 0;
  }

  /**
   * Returns true for what the canister starts even while it gives way: composite queries that had begun wait for it, in
   * this canister or in others, and end before it sleeps. A younger one waits until it is awake again; if it did not,
   * there would always be another one.
   */
  #isOwed(waiting: QueuedTask): boolean {
    const state = this.#state;
    if (state.kind !== 'live' || state.givesWayAt === undefined) return false;
    switch (waiting.kind) {
      case 'dropFrame':
        return true;
      case 'start': {
        const { evaluation } = waiting.context;
        return evaluation !== undefined && evaluation.depth > 0 && evaluation.ticket <= state.givesWayAt;
      }
      case 'response':
        return !waiting.call.context.isExecuting;
      default:
        return false;
    }
  }
}

function isOfKind<K extends StateKind>(state: CanisterState, kind: K): state is StateOf<K> {
  return state.kind === kind;
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
  /** Where the reply is stored, in rows of its own, which are erased when it is not pending any more. */
  storedAs: StoredAs | undefined = undefined;
  /** The process that made it, and its number there; undefined: caller and callee are in one shard. */
  madeAs: { readonly node: string; readonly number: number } | undefined = undefined;
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
  /** Where the argument is stored, in rows of its own, which are erased when it is not pending any more. */
  storedAs: StoredAs | undefined = undefined;
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

  /** Place of the message that this context works for; undefined: nobody noted it. */
  get trace(): MessageTrace | undefined {
    return this.origin.kind === 'ingress' ? this.origin.noted?.trace : this.note?.trace;
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
    const keepsAnswer = this.origin.kind === 'canister' && this.evaluation === undefined;
    return { caller, deadlineNs, canAnswer, cyclesAvailable, instructions, keepsAnswer, number: this.number };
  }
}
