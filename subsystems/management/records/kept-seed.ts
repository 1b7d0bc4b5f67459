import type { ServiceStore } from '../../cluster/index.ts';
import { SEED_KEY } from './record-keys.ts';
import { corrupt, type RecordStore, unitOf, valueOf } from './record-store.ts';

export const SEED_BYTES = 32;

/** Servers of one service have one seed. */
export type SeedService = Pick<ServiceStore, 'shards' | 'secret'>;

/**
 * Returns the seed of the signing keys that this state, or its service, has had since its first start; stores `fresh`
 * at the first.
 */
export async function keptSeed(store: RecordStore, fresh: Uint8Array, service: SeedService): Promise<Uint8Array> {
  if (service.shards > 1) return await service.secret('signing', fresh);
  const seed = await valueOf(store, 'meta', SEED_KEY);
  if (seed === undefined) {
    unitOf(store)?.put('meta', SEED_KEY, fresh);
    return fresh;
  }
  if (seed.length !== SEED_BYTES) throw corrupt('meta', SEED_KEY, `${seed.length} bytes instead of ${SEED_BYTES}`);
  return seed;
}
