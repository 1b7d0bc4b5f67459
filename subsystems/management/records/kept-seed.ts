import { SEED_KEY } from './record-keys.ts';
import { corrupt, type RecordStore, unitOf, valueOf } from './record-store.ts';

export const SEED_BYTES = 32;

/**
 * Returns the seed of the signing keys that this state directory has had since its first start; stores `fresh` at the
 * first.
 */
export async function keptSeed(store: RecordStore, fresh: Uint8Array): Promise<Uint8Array> {
  const seed = await valueOf(store, 'meta', SEED_KEY);
  if (seed === undefined) {
    unitOf(store)?.put('meta', SEED_KEY, fresh);
    return fresh;
  }
  if (seed.length !== SEED_BYTES) throw corrupt('meta', SEED_KEY, `${seed.length} bytes instead of ${SEED_BYTES}`);
  return seed;
}
