import { Clock, definePlugin, face, Logger } from '../kernel/index.ts';
import { ActorUnits } from '../subsystems/archive/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { MessageNotes, Timeline } from '../subsystems/timeline/index.ts';
import { KeptTimeline } from '../subsystems/timeline/kept-timeline.ts';
import { NoTimeline } from '../subsystems/timeline/no-timeline.ts';
import type { TimelineBounds } from '../subsystems/timeline/timeline-store.ts';

type EitherTimeline = KeptTimeline | NoTimeline;

export const timelinePlugin = definePlugin({
  name: 'timeline',
  provides: Timeline,
  alsoProvides: [face(MessageNotes, (timeline: EitherTimeline) => timeline)],
  requires: { storage: Storage, units: ActorUnits, clock: Clock, log: Logger },
  // A server without the flag has no part that notes anything.
  create: (granted, { config }: { readonly config: TimelineBounds }): EitherTimeline => {
    if (config.seconds === 0) return new NoTimeline();
    return granted.units.isKept ? new KeptTimeline(granted, config) : new NoTimeline('its storage hands out no units');
  },
  disabled: () => new NoTimeline('start it without --no-timeline, with --timeline SECONDS and --state DIR'),
  start: async (timeline) => {
    if (timeline instanceof KeptTimeline) timeline.start();
  },
});
