import { definePlugin } from '../kernel/index.ts';
import { CodecPool } from '../subsystems/codec/codec-pool.ts';
import { createCodec } from '../subsystems/codec/codec.ts';
import { Codec } from '../subsystems/codec/index.ts';

export const codecPlugin = definePlugin({
  name: 'codec',
  provides: Codec,
  requires: {},
  neededBecause: 'it translates between JSON and Candid',
  create: (_granted, { owns }) => createCodec(owns(new CodecPool(), (pool) => pool.close())),
  stopDeadlineMs: 5_000,
});
