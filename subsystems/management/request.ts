import type { Response } from '../ic/index.ts';

/** A call to the management canister. */
export interface ManagementRequest {
  /** Principal bytes. */
  readonly sender: Uint8Array;
  readonly senderIsCanister: boolean;
  /** The operator himself: may do what a controller of every canister may, and see the list of canisters. */
  readonly isAdmin?: boolean;
  readonly method: string;
  /** A Candid message, as it came. */
  readonly argument: Uint8Array;
  /** Attached to the call. */
  readonly cycles: bigint;
  /** A query call of a user, or a call of a composite query. */
  readonly isQuery: boolean;
}

export interface ManagementAnswer {
  readonly response: Response;
  /** What was not taken of the attached cycles. */
  readonly refunded: bigint;
}
