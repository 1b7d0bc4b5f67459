/**
 * One step of a canister: a task for an executor, and its result. Plain data on both sides.
 *
 * The scheduler (main thread) keeps everything that outlives an execution: queues, call contexts, callbacks, timers,
 * and what each of them waits for. An executor keeps memory, globals, stable memory, certified data and the cycles
 * balance. So a task carries what the execution must know of its call context, and a step returns every effect that
 * reaches beyond the canister. A step that faulted has no effects but its charge, its debug lines and its instructions.
 */
import type { RunKind } from './methods.ts';
import { REJECT_CODE, type RejectCode } from './reject-codes.ts';

/** Facts that an execution must know about the call it works for. */
export interface ContextView {
  /** Caller of the entry point; for system tasks the management canister (no bytes). */
  readonly caller: Uint8Array;
  /** Time until which the caller waits, in ns since 1970; 0: without limit. */
  readonly deadlineNs: bigint;
  /** True if the caller waits for an answer and no execution has given it yet. */
  readonly canAnswer: boolean;
  /** Cycles attached to the call and not accepted yet. */
  readonly cyclesAvailable: bigint;
  /** Instructions of the context's executions so far, for `performance_counter(1)`. */
  readonly instructions: number;
  /** True if the answer is stored until its caller has taken it: the caller is another canister's update. */
  readonly keepsAnswer?: boolean;
  /** True if the argument, or the answer to a call of the canister, is stored with the step: the message is noted. */
  readonly keepsArgument?: boolean;
  /** Number that no other context has, of a call whose answer is stored; 0 for callbacks. */
  readonly number?: number;
}

/**
 * Reference to rows in which a large payload is stored already. The scheduler keeps it in place of the payload, and
 * erases the rows when nobody needs them any more. Undefined: the payload is stored by the scheduler, if at all.
 */
export type StoredAs = Uint8Array;

/** The answer to a call, as its callback receives it. */
export type Response =
  | { readonly kind: 'reply'; readonly data: Uint8Array; readonly storedAs?: StoredAs | undefined }
  | { readonly kind: 'reject'; readonly code: RejectCode; readonly message: string };

/**
 * The functions and environments given to `call_new` and `call_on_cleanup`, in the layout of callback-buffer.ts:
 * CALLBACK_BYTES bytes, returned unchanged when the response has come. Besides the engine, the scheduler reads the
 * slot.
 */
export type Callbacks = Uint8Array;
export const CALLBACK_BYTES = 56;

/** Kind of a task; the engine derives the context letter (U, RQ, NRQ, CQ, Ry …) from it and the method. */
export type Task =
  /**
   * A method reached by an update call (also a query method) or by a query call (also a composite query); or a query
   * method that transforms the response of an outcall.
   */
  | {
      readonly kind: RunKind;
      readonly entry: number;
      readonly argument: Uint8Array;
      readonly context: ContextView;
      /** Instructions left for a whole composite query; otherwise FULL_LIMIT. */
      readonly instructionsMax: number;
    }
  /** Runs a callback for a response. `refunded` has not been added to the balance yet. */
  | {
      readonly kind: 'callback';
      readonly callbacks: Callbacks;
      readonly response: Response;
      readonly refunded: bigint;
      readonly context: ContextView;
      /** The suspended composite query that continues; 0: an update's callback. */
      readonly frame: number;
      readonly instructionsMax: number;
    }
  /** `canister_heartbeat`, `canister_global_timer`, `canister_on_low_wasm_memory`. */
  | { readonly kind: 'system'; readonly entry: number }
  /** Runs `canister_inspect_message` for an update call that has arrived; the step says if it was accepted. */
  | {
      readonly kind: 'inspect';
      readonly entry: number;
      readonly method: string;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
    }
  /** Drops a suspended composite query; nothing runs. */
  | { readonly kind: 'dropFrame'; readonly frame: number };

/** No limit except the host's. */
export const FULL_LIMIT = Number.POSITIVE_INFINITY;
/** Share of a callback's instructions that is kept back for its cleanup. */
export const CLEANUP_SHARE = 0.05;

/** A call that the execution performed; sent only if the execution returned. */
export interface OutgoingCall {
  /** Principal bytes of the callee; empty: the management canister. */
  readonly callee: Uint8Array;
  readonly method: string;
  readonly payload: Uint8Array;
  readonly storedAs?: StoredAs | undefined;
  /** Cycles attached to the call, already taken from the balance. */
  readonly cycles: bigint;
  /** Seconds after which the caller gets SYS_UNKNOWN; undefined: it waits without limit. */
  readonly timeoutSeconds: number | undefined;
  readonly callbacks: Callbacks;
}

export interface StepFault {
  /**
   * Reason for the fault; `trap` covers every reason without a kind of its own. `calledTrap`: `ic0.trap`. `noCallback`:
   * the callback is no entry of the table, as with one-way calls: nothing ran, and this is no trap. `outOfCycles`: the
   * balance was dry, or paid for too little. `unavailable`: nothing ran.
   */
  readonly kind: 'trap' | 'calledTrap' | 'noCallback' | 'limit' | 'outOfCycles' | 'unavailable';
  readonly code: RejectCode;
  readonly message: string;
  /** Functions of the canister that were open, innermost first, one a line, at most 32; undefined: not known. */
  readonly stack?: string | undefined;
}

/** Returns the kind of outcome that the fault has for the caller. */
export function outcomeKindOf(kind: StepFault['kind']): 'trap' | 'limit' | 'outOfCycles' | 'unavailable' {
  return kind === 'calledTrap' || kind === 'noCallback' ? 'trap' : kind;
}

/** A line that a message has printed. */
export interface OutputLine {
  /** Text for readers of the canister's debug output. */
  readonly text: string;
  /** Record for the canister's log, which canisters read (`fetch_canister_logs`); undefined: none. */
  readonly record: string | undefined;
}

export interface Step {
  /** Undefined: the execution returned, and the effects below apply. */
  readonly fault: StepFault | undefined;
  /** Answer that the execution gave to its call. */
  readonly answer: Response | undefined;
  readonly calls: readonly OutgoingCall[];
  /** Cycles accepted from those attached to the call. */
  readonly cyclesAccepted: bigint;
  /**
   * The global timer as set by this execution (ns since 1970, 0: off), or, beside a callback's fault, by its cleanup;
   * undefined: not changed.
   */
  readonly timerNs: bigint | undefined;
  /** True if `accept_message` was called. */
  readonly isAccepted: boolean;
  /** A composite query that waits for its calls: the number is passed with their callbacks, or dropped. 0: none. */
  readonly frame: number;
  readonly instructions: number;
  readonly charge: number;
  /** True if the calls are more than one turn of the event loop may send (`TurnOfCalls`). */
  readonly isLarge?: boolean;
}

/** Step of a task of which nothing was executed. */
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

/** Step of a task that an executor has returned: it was not executed, or has been undone. */
export const TAKEN_BACK: Step = Object.freeze({
  ...NOTHING_RAN,
  fault: Object.freeze({
    kind: 'unavailable',
    code: REJECT_CODE.SYS_TRANSIENT,
    message: 'the actor is about to be deleted',
  } as const),
});
