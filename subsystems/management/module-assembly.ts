import { hexOf, sameBytes } from '../ic/index.ts';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CHUNK_BYTES_MAX, type ChunkStore, CHUNKS_MAX } from './chunk-store.ts';
import { REFUSE } from './refusal.ts';

const MODULE_BYTES_MAX = CHUNKS_MAX * CHUNK_BYTES_MAX;
/** Bytes that are hashed and copied in about 5 ms; then other work gets its turn. */
const TURN_BYTES = 4 << 20;

/** Joins the listed chunks into a module and checks its SHA-256. Large modules take several turns of the event loop. */
export async function assembleModule(
  store: ChunkStore,
  hashes: readonly Uint8Array[],
  moduleHash: Uint8Array,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const hash of hashes) {
    const key = hexOf(hash);
    const chunk = store.chunks.get(key) ?? (await store.get(key));
    if (chunk === undefined) throw REFUSE.badArgument(`the chunk store has no chunk ${shownHash(hash)}`);
    length += chunk.length;
    if (length > MODULE_BYTES_MAX)
      throw REFUSE.badArgument(`the listed chunks have more than ${MODULE_BYTES_MAX} bytes`);
    // Empty chunks add nothing, and a list of a million of them should cost nothing either.
    if (chunk.length > 0) parts.push(chunk);
  }
  const module = new Uint8Array(length);
  const digest = createHash('sha256');
  let at = 0;
  let turnEnds = TURN_BYTES;
  for (const part of parts) {
    module.set(part, at);
    digest.update(part);
    at += part.length;
    if (at < turnEnds) continue;
    await nextTurn();
    turnEnds = at + TURN_BYTES;
  }
  const actual = digest.digest();
  if (!sameBytes(actual, moduleHash))
    throw REFUSE.badArgument(`the listed chunks have the SHA-256 ${hexOf(actual)}, not ${shownHash(moduleHash)}`);
  return module;
}

function shownHash(hash: Uint8Array): string {
  return hash.length === 32 ? hexOf(hash) : `of ${hash.length} bytes: a SHA-256 has 32`;
}
