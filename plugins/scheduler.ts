import { definePlugin } from '../kernel/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Scheduler } from '../subsystems/scheduler/index.ts';
import { RoundScheduler } from '../subsystems/scheduler/round-scheduler.ts';

export const schedulerPlugin = definePlugin({
  name: 'scheduler',
  provides: Scheduler,
  requires: { execution: Execution },
  neededBecause: 'every message goes through it',
  create: ({ execution }) => new RoundScheduler(execution),
  // No deadline: the executing message is awaited, whatever it takes.
  stop: (scheduler) => scheduler.drain(),
});
