/** The secret that the host's keys are made of: drawn at the first request, and kept with the state. */
import { ServerError } from '../../kernel/index.ts';
import type { ServiceStore } from '../cluster/index.ts';
import { META, metaKey, type Storage } from '../storage/index.ts';

export type SecretStorage = Pick<Storage, 'isKept' | 'markDirty' | 'unit' | 'get' | 'settled'>;

/** Servers of one service have one secret. */
export type SecretService = Pick<ServiceStore, 'shards' | 'secret'>;

const SECRET_BYTES = 32;

/**
 * Resolves with the secret that this state, or its service, has had since the first request; `fresh` becomes it then,
 * and is durable when this resolves. Rejects with ServerError `state-corrupt`.
 */
export async function keptSecret(
  storage: SecretStorage,
  fresh: Uint8Array,
  service: SecretService,
): Promise<Uint8Array> {
  if (service.shards > 1) return await service.secret('certification', fresh);
  if (!storage.isKept) return fresh;
  const key = metaKey(META.certification);
  const kept = await storage.get('meta', key);
  if (kept !== undefined) {
    if (kept.length === SECRET_BYTES) return kept;
    const text = `the stored value meta certification is damaged: ${kept.length} bytes instead of ${SECRET_BYTES}`;
    throw new ServerError('unavailable', 'state-corrupt', text);
  }
  storage.markDirty();
  storage.unit.put('meta', key, fresh);
  await storage.settled();
  return fresh;
}
