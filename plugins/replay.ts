import { Clock, definePlugin } from '../kernel/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Replay } from '../subsystems/replay/index.ts';
import { MessageReplays } from '../subsystems/replay/message-replays.ts';
import { NoReplay } from '../subsystems/replay/no-replay.ts';
import { Timeline } from '../subsystems/timeline/index.ts';

export const replayPlugin = definePlugin({
  name: 'replay',
  provides: Replay,
  requires: { execution: Execution, timeline: Timeline, codec: Codec, clock: Clock },
  create: (granted) => new MessageReplays(granted),
  disabled: () => new NoReplay(),
});
