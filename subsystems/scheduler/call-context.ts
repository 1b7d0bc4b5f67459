/** Main thread: plain state of calls, touched by the files of this folder alone. */
import type { Callbacks, ContextView, Outcome, RejectCode, StepFault } from '../ic/index.ts';
import type { Agenda, WaitingResponse, WaitingStart } from './agenda.ts';

/** Who waits for the answer of a call. */
export type Origin =
  /** A client: gets the outcome. */
  | { readonly kind: 'ingress'; done: (outcome: Outcome) => void }
  /** Another canister: its callback gets the response. */
  | { readonly kind: 'canister'; readonly call: OpenCall }
  /** Nobody: heartbeats and timers. */
  | { readonly kind: 'system' };

/** For clients that do not wait any more. */
export const NOBODY = (): void => undefined;

/** A call that an actor has made and whose callback has not run yet. */
export class OpenCall {
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
  /** Its callback has run, or never will. */
  isEnded = false;
  /** The response, until its callback has ended; only where state is kept. */
  pending: WaitingResponse | undefined = undefined;
  /** Its key among what is kept; 0: none yet. */
  number = 0;
  isStored = false;
  isDirty = false;

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
export class CallContext {
  readonly agenda: Agenda;
  /** Set once: what is loaded refers to each other. */
  origin: Origin;
  readonly caller: Uint8Array;
  readonly deadlineNs: bigint;
  /** The composite query this belongs to; undefined for updates and system tasks. */
  readonly evaluation: QueryEvaluation | undefined;
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
  /** Code was uninstalled: callbacks do not run any more. */
  isDeleted = false;
  /** What its caller gets if the execution that was under way then does not answer. */
  deletion: Deletion | undefined = undefined;
  /** The call of its entry point, until that has ended; only where state is kept, and of calls that canisters made. */
  pending: WaitingStart | undefined = undefined;
  /** Its key among what is kept; 0: none yet. */
  number = 0;
  isStored = false;
  isDirty = false;
  #frame = 0;
  /** The life of the executor that the frame is in. */
  #life: object | undefined = undefined;

  constructor(
    agenda: Agenda,
    origin: Origin,
    options: {
      readonly caller: Uint8Array;
      readonly deadlineNs?: bigint;
      readonly cycles?: bigint;
      readonly evaluation?: QueryEvaluation | undefined;
    },
  ) {
    this.agenda = agenda;
    this.origin = origin;
    this.caller = options.caller;
    this.deadlineNs = options.deadlineNs ?? 0n;
    this.cyclesAvailable = options.cycles ?? 0n;
    this.evaluation = options.evaluation;
  }

  get canAnswer(): boolean {
    return !this.hasAnswered && this.origin.kind !== 'system';
  }

  /** A suspended composite query in the executor; 0: none, or its executor has died. */
  get frame(): number {
    return this.#frame !== 0 && this.#life === this.agenda.work.life ? this.#frame : 0;
  }

  set frame(frame: number) {
    if (this.#frame === 0 && frame === 0) return;
    const { work } = this.agenda;
    if (this.frame !== 0) work.frames--;
    this.#frame = frame;
    this.#life = work.life;
    if (frame !== 0) work.frames++;
  }

  /** It was suspended in an executor that has died. */
  get isFrameLost(): boolean {
    return this.#frame !== 0 && this.#life !== this.agenda.work.life;
  }

  /** What the next execution must know. Plain data: it may have to be cloned. */
  view(): ContextView {
    const { caller, deadlineNs, canAnswer, cyclesAvailable, instructions } = this;
    return { caller, deadlineNs, canAnswer, cyclesAvailable, instructions };
  }
}

/** Levels of composite queries below the first (docs/execution-rules.md, "Composite queries"). */
export const QUERY_DEPTH_MAX = 6;
/** Calls of one composite query, over all levels. */
export const QUERY_CALLS_MAX = 500;

/** What all executions of one composite query share. */
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

  /** It has seen this canister's state. */
  saw(agenda: Agenda): void {
    if (agenda.lastUnit > this.budget.lastUnit) this.budget.lastUnit = agenda.lastUnit;
  }
}
