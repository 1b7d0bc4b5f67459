import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import type { ExecutionOptions } from '../subsystems/execution/pool/execution-options.ts';
import { ExecutorPool } from '../subsystems/execution/pool/executor-pool.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Metering } from '../subsystems/metering/index.ts';

export const executionPlugin = definePlugin({
  name: 'execution',
  provides: Execution,
  requires: { metering: Metering, clock: Clock, log: Logger },
  neededBecause: 'it runs the actors',
  create: ({ metering, clock, log }, { config }: { readonly config: ExecutionOptions }) =>
    new ExecutorPool({ policy: metering.policy, clock, log }, config),
  open: (execution) => execution.prepareForKept(),
  stop: (execution) => execution.close(),
  stopDeadlineMs: 10_000,
});
