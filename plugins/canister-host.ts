import { definePlugin } from '../kernel/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { CanisterHost } from '../subsystems/management/index.ts';

/** The registry as the management canister sees it. */
export const canisterHostPlugin = definePlugin({
  name: 'canister-host',
  provides: CanisterHost,
  requires: { canisters: Canisters },
  neededBecause: 'the management canister changes actors through it',
  create: ({ canisters }) => canisters.host,
});
