import { Clock, definePlugin } from '../kernel/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Replay } from '../subsystems/replay/index.ts';
import { Metering } from '../subsystems/metering/index.ts';
import { MessageReplays } from '../subsystems/replay/message-replays.ts';
import { NoReplay } from '../subsystems/replay/no-replay.ts';
import { Timeline } from '../subsystems/timeline/index.ts';

export const replayPlugin = definePlugin({
  name: 'replay',
  provides: Replay,
  requires: { execution: Execution, timeline: Timeline, codec: Codec, metering: Metering, clock: Clock },
  create: (
    { metering: { policy }, ...granted },
    { config: { version } }: { readonly config: { readonly version: string } },
  ) => new MessageReplays(granted, { version, policy }),
  disabled: () => new NoReplay(),
});
