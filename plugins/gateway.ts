import { Clock, definePlugin } from '../kernel/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { CanisterGateway } from '../subsystems/gateway/canister-gateway.ts';
import { Gateway } from '../subsystems/gateway/index.ts';
import { NoGateway } from '../subsystems/gateway/no-gateway.ts';

export const gatewayPlugin = definePlugin({
  name: 'gateway',
  provides: Gateway,
  requires: { canisters: Canisters, codec: Codec, clock: Clock },
  create: ({ canisters, codec, clock }) => new CanisterGateway({ canisters, codec, nowMs: () => clock.nowMs() }),
  disabled: () => new NoGateway(),
});
