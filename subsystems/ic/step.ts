/**
 * One step of a canister: what an executor is asked to execute, and what came of it. Plain data on both sides.
 *
 * The scheduler (main thread) keeps everything that outlives an execution: queues, call contexts, callbacks, timers,
 * who waits for what. An executor keeps memory, globals, stable memory, certified data and the cycles balance. So a
 * task carries what the execution must know of its call context, and a step brings back every effect that reaches
 * beyond the canister. A step that faulted has no effects but its charge, its debug lines and its instructions.
 */
import type { RunKind } from './methods.ts';
import { REJECT_CODE, type RejectCode } from './reject-codes.ts';

/** What an execution must know of the call it works for. */
export interface ContextView {
  /** Who called the entry point. For system tasks the management canister (no bytes). */
  readonly caller: Uint8Array;
  /** Ns since 1970 until which the caller waits; 0: without limit. */
  readonly deadlineNs: bigint;
  /** Somebody waits for an answer and no execution has given it yet. */
  readonly canAnswer: boolean;
  /** Cycles attached to the call and not accepted yet. */
  readonly cyclesAvailable: bigint;
  /** Instructions of the context's executions so far, for `performance_counter(1)`. */
  readonly instructions: number;
}

/** The answer to a call, as its callback gets it. */
export type Response =
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  | { readonly kind: 'reject'; readonly code: RejectCode; readonly message: string };

/**
 * The functions and environments given to `call_new` and `call_on_cleanup`, as callback-buffer.ts lays them out:
 * CALLBACK_BYTES bytes, handed back as they are when the response has come. Besides the engine, the scheduler reads the slot.
 */
export type Callbacks = Uint8Array;
export const CALLBACK_BYTES = 56;

/** How a task's code runs; the engine derives the context letter (U, RQ, NRQ, CQ, Ry …) from it and the method. */
export type Task =
  /** A method reached by an update call (also a query method) or by a query call (also a composite query); or a query method that transforms what an outcall has brought. */
  | {
      readonly kind: RunKind;
      readonly entry: number;
      readonly argument: Uint8Array;
      readonly context: ContextView;
      /** What is left for a whole composite query; otherwise FULL_LIMIT. */
      readonly instructionsMax: number;
    }
  /** A response has come. `refunded` has not been added to the balance yet. */
  | {
      readonly kind: 'callback';
      readonly callbacks: Callbacks;
      readonly response: Response;
      readonly refunded: bigint;
      readonly context: ContextView;
      /** The suspended composite query that it goes on with; 0: an update's callback. */
      readonly frame: number;
      readonly instructionsMax: number;
    }
  /** `canister_heartbeat`, `canister_global_timer`, `canister_on_low_wasm_memory`. */
  | { readonly kind: 'system'; readonly entry: number }
  /** `canister_inspect_message` for an update call that has arrived; its step says whether it was accepted. */
  | {
      readonly kind: 'inspect';
      readonly entry: number;
      readonly method: string;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
    }
  /** A suspended composite query is given up; nothing runs. */
  | { readonly kind: 'dropFrame'; readonly frame: number };

/** No other limit than the host's. */
export const FULL_LIMIT = Number.POSITIVE_INFINITY;

/** A call that the execution performed; sent only because the execution returned. */
export interface OutgoingCall {
  /** Principal bytes; none: the management canister. */
  readonly callee: Uint8Array;
  readonly method: string;
  readonly payload: Uint8Array;
  /** Already taken from the balance. */
  readonly cycles: bigint;
  /** Seconds after which the caller gets SYS_UNKNOWN; undefined: it waits without limit. */
  readonly timeoutSeconds: number | undefined;
  readonly callbacks: Callbacks;
}

export interface StepFault {
  /**
   * `trap` covers every reason but the others. `calledTrap`: `ic0.trap`. `noCallback`: a callback that is no entry of the
   * table, as those of one-way calls: nothing ran, and that is no trap. `outOfCycles`: the balance was dry, or paid for too
   * little. `unavailable`: nothing ran.
   */
  readonly kind: 'trap' | 'calledTrap' | 'noCallback' | 'limit' | 'outOfCycles' | 'unavailable';
  readonly code: RejectCode;
  readonly message: string;
}

/** What a fault is for whoever waits for the call's outcome. */
export function outcomeKindOf(kind: StepFault['kind']): 'trap' | 'limit' | 'outOfCycles' | 'unavailable' {
  return kind === 'calledTrap' || kind === 'noCallback' ? 'trap' : kind;
}

/** A line of what a message has to say. */
export interface OutputLine {
  /** For whoever follows the canister's debug output. */
  readonly text: string;
  /** For the canister's log, which canisters read (`fetch_canister_logs`); undefined: nothing. */
  readonly record: string | undefined;
}

export interface Step {
  /** Undefined: the execution returned, and its effects below hold. */
  readonly fault: StepFault | undefined;
  /** How the execution answered its call. */
  readonly answer: Response | undefined;
  readonly calls: readonly OutgoingCall[];
  /** Taken from what was attached to the call. */
  readonly cyclesAccepted: bigint;
  /** The global timer as set by this execution (ns since 1970, 0: off), or, beside a callback's fault, by its cleanup; undefined: not touched. */
  readonly timerNs: bigint | undefined;
  /** `accept_message` was called. */
  readonly isAccepted: boolean;
  /** A composite query waits for its calls: to be handed in with their callbacks, or dropped. 0: none. */
  readonly frame: number;
  readonly instructions: number;
  readonly charge: number;
  /** Its calls are more than one turn of the event loop may send (`TurnOfCalls`). */
  readonly isLarge?: boolean;
}

/** Nothing was executed, and nothing came of it. */
export const NOTHING_RAN: Step = {
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

/** A task that an executor has given back: it was not executed, or is as if it had not been. */
export const TAKEN_BACK: Step = Object.freeze({
  ...NOTHING_RAN,
  fault: Object.freeze({
    kind: 'unavailable',
    code: REJECT_CODE.SYS_TRANSIENT,
    message: 'the actor is about to be deleted',
  } as const),
});
