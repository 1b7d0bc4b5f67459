/**
 * The hash of a value that does not depend on how it is encoded (interface specification, "Representation-independent
 * hashing of structured data"): of a map, the sorted pairs of the hashes of key and value.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CborMap, CborValue } from './cbor-reader.ts';

/** Bytes that are hashed in one turn of the event loop: about a millisecond. */
const BYTES_PER_TURN = 1024 * 1024;

function sha256(bytes: Uint8Array | string): Buffer {
  return hash('sha256', bytes, 'buffer');
}

/** Returns the hash of a map. `known` has hashes of large byte strings that were made before (`hashLarge`). */
export function hashOfMap(map: CborMap, known?: ReadonlyMap<Uint8Array, Buffer>): Buffer {
  const pairs: Buffer[] = [];
  for (const [key, value] of map) pairs.push(Buffer.concat([sha256(key), hashOf(value, known)]));
  pairs.sort((one, other) => Buffer.compare(one, other));
  return sha256(Buffer.concat(pairs));
}

function hashOf(value: CborValue, known: ReadonlyMap<Uint8Array, Buffer> | undefined): Buffer {
  if (typeof value === 'string') return sha256(value);
  if (typeof value === 'bigint') return sha256(leb128(value));
  if (value instanceof Uint8Array) return known?.get(value) ?? sha256(value);
  if (value instanceof Map) return hashOfMap(value as CborMap, known);
  return sha256(Buffer.concat((value as readonly CborValue[]).map((each) => hashOf(each, known))));
}

/** Returns the hashes of the map's own byte strings that are too large for one turn; each turn takes a piece. */
export async function hashLarge(map: CborMap): Promise<ReadonlyMap<Uint8Array, Buffer>> {
  const known = new Map<Uint8Array, Buffer>();
  for (const value of map.values()) {
    if (!(value instanceof Uint8Array) || value.length <= BYTES_PER_TURN) continue;
    const hasher = createHash('sha256');
    for (let at = 0; at < value.length; at += BYTES_PER_TURN) {
      hasher.update(value.subarray(at, at + BYTES_PER_TURN));
      await nextTurn();
    }
    known.set(value, hasher.digest());
  }
  return known;
}

/** Returns an unsigned number as LEB128, seven bits a byte, the lowest first. */
export function leb128(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
