/**
 * A call in progress: made when its entry point starts, shared by every execution that works on it.
 * It outlives its first execution when that made calls; until those exist, every call ends with its entry point.
 */
export interface CallContext {
  /** Who called; in a callback still the caller of the entry point. */
  caller: Uint8Array;
  /** Ns since 1970; 0 unless the caller waits for a bounded time. */
  deadlineNs: bigint;
  /** Whether somebody waits for an answer: hooks and system tasks have nobody. */
  needsAnswer: boolean;
  /** Answered by an execution that has ended. */
  hasAnswered: boolean;
  /** Cycles attached to the call and not accepted by executions that have ended. */
  cyclesAvailable: bigint;
  /** Instructions of the executions that have ended. */
  instructions: number;
}

/** The context of a call from outside, or of a hook. */
export function newCallContext(caller: Uint8Array, needsAnswer: boolean): CallContext {
  return { caller, deadlineNs: 0n, needsAnswer, hasAnswered: false, cyclesAvailable: 0n, instructions: 0 };
}
