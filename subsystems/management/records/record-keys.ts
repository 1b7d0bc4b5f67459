/**
 * The keys of the management canister's records (`·` joins bytes; numbers have 8, big-endian):
 *
 *     meta  K                                  seed of the signing keys
 *     meta  S·id                               settings
 *     meta  S·id·c·hash                        length of a chunk in the canister's chunk store
 *     meta  S·id·n                             number of the next snapshot
 *     meta  S·id·s·number                      a snapshot's description, without its content
 *     meta  H·id·number                        an entry of the history
 *     blob  id·c·hash                          a chunk
 *     blob  id·s·number·w|h|g|t·offset         a piece of a snapshot's module, heap, globals, stable memory
 *     blob  id·s·number·c·hash                 a chunk of a snapshot
 */
import { ID_BYTES, META, metaKey } from '../../storage/index.ts';

export const SEED_KEY = metaKey(META.seed);
export const RECORDS_PREFIX = metaKey(META.settings);
export const HISTORY_PREFIX = metaKey(META.history);

const NUMBER_BYTES = 8;
export const HASH_BYTES = 32;
/** Length of a letter and the canister's id. */
const OWN_KEY_BYTES = 1 + ID_BYTES;

/** The parts of a snapshot that are stored in pieces; offsets in them count bytes. */
export type SnapshotPart = 'w' | 'h' | 'g' | 't';

/** A letter, a number, or bytes. */
type KeyPart = string | bigint | Uint8Array;

export const settingsKey = (id: Uint8Array): Uint8Array => join(META.settings, id);
export const recordsOf = settingsKey;
export const chunkKey = (id: Uint8Array, hash: Uint8Array): Uint8Array => join(META.settings, id, 'c', hash);
export const chunksOf = (id: Uint8Array): Uint8Array => join(META.settings, id, 'c');
export const snapshotCounterKey = (id: Uint8Array): Uint8Array => join(META.settings, id, 'n');
export const snapshotKey = (id: Uint8Array, number: bigint): Uint8Array => join(META.settings, id, 's', number);
export const historyOf = (id: Uint8Array): Uint8Array => join(META.history, id);
export const historyKey = (id: Uint8Array, number: number): Uint8Array => join(META.history, id, BigInt(number));

export const chunkContentKey = (id: Uint8Array, hash: Uint8Array): Uint8Array => join(id, 'c', hash);
export const chunkContentsOf = (id: Uint8Array): Uint8Array => join(id, 'c');
export const snapshotContentsOf = (id: Uint8Array): Uint8Array => join(id, 's');
export const snapshotContentOf = (id: Uint8Array, number: bigint): Uint8Array => join(id, 's', number);
/** Returns the key of a piece; `snapshot` is the result of `snapshotContentOf`. */
export const pieceKey = (snapshot: Uint8Array, part: SnapshotPart, offset: number): Uint8Array =>
  join(snapshot, part, BigInt(offset));
export const partOf = (snapshot: Uint8Array, part: SnapshotPart): Uint8Array => join(snapshot, part);
export const snapshotChunkKey = (snapshot: Uint8Array, hash: Uint8Array): Uint8Array => join(snapshot, 'c', hash);

/** Meaning of a key under RECORDS_PREFIX or HISTORY_PREFIX. */
type RecordKey =
  | { readonly kind: 'settings' | 'snapshotCounter' }
  | { readonly kind: 'chunk'; readonly hash: Uint8Array }
  | { readonly kind: 'snapshot' | 'history'; readonly number: bigint };

/** Returns the canister that such a key names; undefined if the key is too short. */
export function canisterOf(key: Uint8Array): Uint8Array | undefined {
  return key.length < OWN_KEY_BYTES ? undefined : key.subarray(1, OWN_KEY_BYTES);
}

/** Parses a key; returns undefined if it has none of these forms. */
export function parseRecordKey(key: Uint8Array): RecordKey | undefined {
  const letter = String.fromCharCode(key[0] ?? 0);
  const rest = key.subarray(OWN_KEY_BYTES);
  if (letter === META.history)
    return rest.length === NUMBER_BYTES ? { kind: 'history', number: numberAt(rest, 0) } : undefined;
  if (letter !== META.settings) return undefined;
  if (rest.length === 0) return { kind: 'settings' };
  const kind = String.fromCharCode(rest[0] ?? 0);
  if (kind === 'n' && rest.length === 1) return { kind: 'snapshotCounter' };
  if (kind === 'c' && rest.length === 1 + HASH_BYTES) return { kind: 'chunk', hash: rest.slice(1) };
  if (kind === 's' && rest.length === 1 + NUMBER_BYTES) return { kind: 'snapshot', number: numberAt(rest, 1) };
  return undefined;
}

/** Returns the number at the end of a piece's key. */
export function offsetOf(key: Uint8Array): number {
  return key.length < NUMBER_BYTES ? Number.NaN : Number(numberAt(key, key.length - NUMBER_BYTES));
}

function numberAt(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getBigUint64(at);
}

/** Joins the parts into a new buffer: a view would take its whole buffer along to the storage thread. */
function join(...parts: readonly KeyPart[]): Uint8Array {
  const bytes = parts.map(bytesOf);
  const key = new Uint8Array(bytes.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of bytes) {
    key.set(part, at);
    at += part.length;
  }
  return key;
}

function bytesOf(part: KeyPart): Uint8Array {
  if (typeof part === 'string') return Uint8Array.of(part.charCodeAt(0));
  if (typeof part !== 'bigint') return part;
  const number = new Uint8Array(NUMBER_BYTES);
  new DataView(number.buffer).setBigUint64(0, part);
  return number;
}
