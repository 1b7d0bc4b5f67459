import { definePlugin } from '../kernel/index.ts';
import { Outcalls } from '../subsystems/outcalls/index.ts';
import { HostOutcalls, type HostOutcallsOptions } from '../subsystems/outcalls/host-outcalls.ts';
import { NoOutcalls } from '../subsystems/outcalls/no-outcalls.ts';

export const outcallsPlugin = definePlugin({
  name: 'outcalls',
  provides: Outcalls,
  requires: {},
  create: (_granted, { config }: { readonly config: HostOutcallsOptions }) => new HostOutcalls(config),
  disabled: () => new NoOutcalls(),
  open: (outcalls) => outcalls.open(),
  stop: (outcalls) => outcalls.close(),
  stopDeadlineMs: 5_000,
});
