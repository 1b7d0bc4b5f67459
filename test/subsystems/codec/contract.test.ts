import { describeCodec } from '../../../plugins/api/contracts/codec.ts';
import { CodecPool } from '../../../subsystems/codec/codec-pool.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';

describeCodec('the codec', (t) => {
  const pool = new CodecPool();
  t.after(() => pool.close());
  return createCodec(pool);
});
