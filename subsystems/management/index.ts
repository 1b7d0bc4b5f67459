import { type ManagementRequest, type ManagementAnswer } from './request.ts';
import { defineCapability } from '../../kernel/index.ts';
import type { ManagementHooks } from './backend.ts';

export type { Change, ChangeDetails, ChangeOrigin } from './change.ts';
export * from './backend.ts';
export type * from './request.ts';

/** The canister `aaaaa-aa`: what canisters, and users, may ask of the system itself. */
export interface Management extends ManagementHooks {
  /**
   * Answers a call; never rejects for a guest's mistake. Changes of one canister happen one after the other. May take
   * long: `stop_canister` waits up to five minutes.
   */
  call(request: ManagementRequest): Promise<ManagementAnswer>;
}
export const Management = defineCapability<Management>('management');
