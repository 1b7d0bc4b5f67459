import { definePlugin, type Logger } from '../kernel/index.ts';
import { Outcalls } from '../subsystems/outcalls/index.ts';
import { HostOutcalls, type HostOutcallsOptions } from '../subsystems/outcalls/host-outcalls.ts';
import { NoOutcalls } from '../subsystems/outcalls/no-outcalls.ts';

export const outcallsPlugin = definePlugin({
  name: 'outcalls',
  provides: Outcalls,
  requires: {},
  create: (_granted, { config, log }: { readonly config: HostOutcallsOptions; readonly log: Logger }) =>
    new HostOutcalls(config, log),
  disabled: () => new NoOutcalls(),
  open: (outcalls) => outcalls.open(),
  stop: (outcalls) => outcalls.close(),
  stopDeadlineMs: 5_000,
});
