import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import { Metering } from '../subsystems/metering/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { Timeline } from '../subsystems/timeline/index.ts';
import { KeptTimeline } from '../subsystems/timeline/kept-timeline.ts';
import { factsOf } from '../subsystems/timeline/known-servers.ts';
import { NoTimeline } from '../subsystems/timeline/no-timeline.ts';
import type { TimelineBounds } from '../subsystems/timeline/timeline-store.ts';

export const timelinePlugin = definePlugin({
  name: 'timeline',
  provides: Timeline,
  requires: { storage: Storage, metering: Metering, clock: Clock, log: Logger },
  // A server without the flag has no part that notes anything.
  create: (
    { metering, ...granted },
    { config: { version, ...bounds } }: { readonly config: TimelineBounds & { readonly version: string } },
  ): KeptTimeline | NoTimeline => {
    if (bounds.seconds === 0) return new NoTimeline();
    const units = granted.storage.actorUnits;
    return units === undefined
      ? new NoTimeline('its storage hands out no units')
      : new KeptTimeline({ ...granted, units }, bounds, factsOf(version, metering.policy));
  },
  disabled: () => new NoTimeline('start it without --no-timeline, with --timeline SECONDS and --state DIR'),
  start: async (timeline) => {
    if (timeline instanceof KeptTimeline) timeline.start();
  },
});
