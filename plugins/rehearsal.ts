import { Clock, definePlugin } from '../kernel/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Rehearsal } from '../subsystems/rehearsal/index.ts';
import { NoRehearsal } from '../subsystems/rehearsal/no-rehearsal.ts';
import { type RehearsalOptions, UpgradeRehearsals } from '../subsystems/rehearsal/upgrade-rehearsals.ts';
import { Timeline } from '../subsystems/timeline/index.ts';

export const rehearsalPlugin = definePlugin({
  name: 'rehearsal',
  provides: Rehearsal,
  requires: { execution: Execution, timeline: Timeline, clock: Clock },
  create: (granted, { config }: { readonly config: RehearsalOptions }) => new UpgradeRehearsals(granted, config),
  disabled: () => new NoRehearsal(),
});
