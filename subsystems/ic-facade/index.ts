import { defineCapability } from '../../kernel/index.ts';
import type { UserCall, UserRequest } from '../management/index.ts';

/** A call of a user to a canister of the Internet Computer that the host answers for. */
export interface FacadeRequest extends UserRequest {
  readonly canisterId: Uint8Array;
  /** The subnet that the host is to its clients. */
  readonly subnetId: Uint8Array;
}

/**
 * Canisters of the Internet Computer through which its tools create and pay for others: the cycles ledger, the minting
 * canister and the ledger of ICP. The host answers for them where no actor has their ids. Money is no object here:
 * everybody has the same balance whatever is spent, and what is created costs nothing (docs/agents.md, "The facade").
 */
export interface IcFacade {
  /** Returns true if the host answers calls to that id. */
  serves(canisterId: Uint8Array): boolean;
  /** Reads a call and decides whether it is accepted; never rejects for the user's mistake. */
  readUserCall(request: FacadeRequest): Promise<UserCall>;
}
export const IcFacade = defineCapability<IcFacade>('ic-facade');
