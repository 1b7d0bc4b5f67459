import type { MessageTrace, Response } from '../ic/index.ts';

/** A call to the management canister. */
export interface ManagementRequest {
  /** Bytes of the sender's principal. */
  readonly sender: Uint8Array;
  readonly senderIsCanister: boolean;
  /** True for the operator, who has the rights of a controller of every canister, and may see the list of canisters. */
  readonly isAdmin?: boolean;
  readonly method: string;
  /** A Candid message, as received. */
  readonly argument: Uint8Array;
  /** Cycles attached to the call. */
  readonly cycles: bigint;
  /** True for a query call of a user, or a call of a composite query. */
  readonly isQuery: boolean;
  /** Place of the message that makes the call, among those of histories; undefined: not known. */
  readonly cause?: MessageTrace | undefined;
}

export interface ManagementAnswer {
  readonly response: Response;
  /** The attached cycles that were not taken. */
  readonly refunded: bigint;
}
