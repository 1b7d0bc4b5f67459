import { definePlugin } from '../kernel/index.ts';
import { createMetering, type MeteringOptions } from '../subsystems/metering/create-metering.ts';
import { Metering } from '../subsystems/metering/index.ts';

export const meteringPlugin = definePlugin({
  name: 'metering',
  provides: Metering,
  requires: {},
  create: (_granted, { config }: { readonly config: MeteringOptions }) => createMetering(config),
  // Without metering nothing is charged; the engine still enforces the instruction limit.
  disabled: (_granted, { config }: { readonly config: MeteringOptions }) =>
    createMetering({ ...config, isEnabled: false }),
});
