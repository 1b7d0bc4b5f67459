import { type ManagementRequest, type ManagementAnswer, type UserCall, type UserRequest } from './request.ts';
import { defineCapability } from '../../kernel/index.ts';
import type { ManagementHooks } from './backend.ts';
import type { OutcallFigures } from './outcalls/outcall-tally.ts';

export * from './backend.ts';
export { NAMED_MANAGEMENT_DID } from './named-interface.ts';
export { refuseManyValues } from './argument-values.ts';
export { CANISTER_SETTINGS_DID, MANAGEMENT_DID } from './interface-did.ts';
export { OperatorCalls } from './operator-calls.ts';
export type * from './request.ts';
export { type OutcallFigures } from './outcalls/outcall-tally.ts';

/** The canister `aaaaa-aa`, from which canisters and users request services of the system. */
export interface Management extends ManagementHooks {
  /**
   * Answers a call; never rejects for a guest's mistake. Changes of one canister happen one at a time. May take long:
   * `stop_canister` waits up to five minutes.
   */
  call(request: ManagementRequest): Promise<ManagementAnswer>;
  /** Reads a call of a user and decides whether it is accepted; never rejects for the user's mistake. */
  readUserCall(request: UserRequest): Promise<UserCall>;
  /** Figures of `http_request`. */
  readonly outcalls: OutcallFigures;
}
export const Management = defineCapability<Management>('management');
