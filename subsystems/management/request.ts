import type { MessageTrace, Response } from '../ic/index.ts';

/** A call to the management canister. */
export interface ManagementRequest {
  /** Bytes of the sender's principal. */
  readonly sender: Uint8Array;
  readonly senderIsCanister: boolean;
  /** True for the operator, who has the rights of a controller of every canister, and may see the list of canisters. */
  readonly isAdmin?: boolean;
  /** True for a user who may use the server: may see the list of canisters, and top up each. */
  readonly isTrusted?: boolean;
  /** True if canisters that are created find certificates of their data that the host has signed. */
  readonly certifiesCreated?: boolean;
  /** True for a user who may create canisters; undefined: whoever calls is no user. */
  readonly mayCreate?: boolean;
  readonly method: string;
  /** A Candid message, as received. */
  readonly argument: Uint8Array;
  /** Cycles attached to the call. */
  readonly cycles: bigint;
  /** True for a query call of a user, or a call of a composite query. */
  readonly isQuery: boolean;
  /** Place of the message that makes the call, among those of histories; undefined: not known. */
  readonly cause?: MessageTrace | undefined;
  /** Returns false from when on nobody waits for the answer; undefined: somebody always does. */
  readonly isAwaited?: () => boolean;
}

export interface ManagementAnswer {
  readonly response: Response;
  /** The attached cycles that were not taken. */
  readonly refunded: bigint;
}

/** A call of a user, who has proven to be the sender. */
export interface UserRequest {
  readonly sender: Uint8Array;
  /** True if the user may use the server, not just reach it: may see the list of canisters, and top up each. */
  readonly isTrusted: boolean;
  readonly mayCreate: boolean;
  /** True if canisters that are created find certificates of their data that the host has signed. */
  readonly certifiesCreated?: boolean;
  readonly method: string;
  /** A Candid message, as received. */
  readonly argument: Uint8Array;
  readonly isQuery: boolean;
}

type Reject = Extract<Response, { readonly kind: 'reject' }>;

/** A call of a user that has been read, and of which nothing has been executed. */
export interface UserCall {
  /** Id of the canister that the argument names; undefined: the method is about none, or the argument is unreadable. */
  readonly subject: Uint8Array | undefined;
  /** True if the method changes something. */
  readonly isChange: boolean;
  /** The reject of a call that is not accepted, as its sender may not make it; undefined: it is accepted. */
  readonly refusal: Reject | undefined;
  /** Executes an accepted call, once; never rejects for the user's mistake. */
  run(): Promise<Response>;
}
