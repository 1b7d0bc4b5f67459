/** Why an execution ended without returning. A value: nobody has to catch it. */
export interface Fault {
  /**
   * `trap`: the canister's own doing, or a system call it may not make. `limit`: out of instructions.
   * `stackOverflow`: recursion too deep. `host`: a bug of ours, to be logged as one.
   */
  readonly kind: 'trap' | 'limit' | 'stackOverflow' | 'host';
  readonly message: string;
  /** What was thrown, for `host`. */
  readonly cause?: unknown;
}

/** Thrown by a system call to trap the canister with a text; wasm cannot catch it. */
export class HostTrap extends Error {
  override readonly name = 'HostTrap';
}

/** Thrown when a system call's own cost does not fit into what is left of the instruction limit. */
export class OutOfInstructions extends Error {
  override readonly name = 'OutOfInstructions';
}

export const LIMIT_MESSAGE = 'instruction limit exceeded';
export const STACK_OVERFLOW_MESSAGE = 'stack overflow';
