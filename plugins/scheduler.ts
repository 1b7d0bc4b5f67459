import { Clock, definePlugin, face, type Logger } from '../kernel/index.ts';
import { ServiceStore } from '../subsystems/cluster/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Metering } from '../subsystems/metering/index.ts';
import { Scheduler, SchedulerSetup } from '../subsystems/scheduler/index.ts';
import { RoundScheduler } from '../subsystems/scheduler/round-scheduler.ts';
import type { EvictionOptions } from '../subsystems/scheduler/eviction.ts';
import type { IdempotencyOptions } from '../subsystems/scheduler/idempotency/idempotency.ts';
import type { TickingOptions } from '../subsystems/scheduler/ticking.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { Timeline } from '../subsystems/timeline/index.ts';

export const schedulerPlugin = definePlugin({
  name: 'scheduler',
  provides: Scheduler,
  alsoProvides: [face(SchedulerSetup, (scheduler: RoundScheduler) => scheduler)],
  requires: {
    execution: Execution,
    metering: Metering,
    storage: Storage,
    service: ServiceStore,
    timeline: Timeline,
    clock: Clock,
  },
  neededBecause: 'every message goes through it',
  create: (
    { execution, metering, storage, service, timeline, clock },
    { config, log }: { readonly config: TickingOptions & EvictionOptions & IdempotencyOptions; readonly log: Logger },
  ) => {
    const scheduler: RoundScheduler = new RoundScheduler(
      { execution: timeline.noting(execution, (handle) => scheduler.notedActor(handle)), clock, storage, service, log },
      { ...config, queryInstructionsMax: metering.policy.instructionLimit },
    );
    return scheduler;
  },
  ready: (scheduler) => scheduler.beginTicking(),
  // Waits for the executing messages without a limit.
  drain: (scheduler) => scheduler.drain(),
});
