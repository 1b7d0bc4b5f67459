/**
 * Reasons why a call was not answered: the codes of the interface specification, which canisters and HTTP clients see.
 */
export const REJECT_CODE = {
  /** The call can never succeed: the host cannot do it. */
  SYS_FATAL: 1,
  /** The call may succeed later. */
  SYS_TRANSIENT: 2,
  /** There is no such canister or method. */
  DESTINATION_INVALID: 3,
  /** The canister rejected the call (`ic0.msg_reject`). */
  CANISTER_REJECT: 4,
  /** The canister trapped, reached its limit, or did not answer. */
  CANISTER_ERROR: 5,
  /** The call may or may not have been executed: its deadline has passed. */
  SYS_UNKNOWN: 6,
} as const;

/** The reject message of a call to an actor whose thread has stopped. */
export const THREAD_STOPPED_TEXT = "the actor's thread has stopped";

export type RejectCode = (typeof REJECT_CODE)[keyof typeof REJECT_CODE];
