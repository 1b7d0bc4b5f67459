import { definePlugin } from '../kernel/index.ts';
import { createCodec } from '../subsystems/codec/codec.ts';
import { Codec } from '../subsystems/codec/index.ts';

export const codecPlugin = definePlugin({
  name: 'codec',
  provides: Codec,
  requires: {},
  neededBecause: 'it translates between JSON and Candid',
  create: () => createCodec(),
  stop: (codec) => codec.close(),
  stopDeadlineMs: 5_000,
});
