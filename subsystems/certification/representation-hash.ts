/**
 * The hash of a value that does not depend on how it is encoded (interface specification, "Representation-independent
 * hashing of structured data"): of a map, the sorted pairs of the hashes of key and value.
 */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CborMap, CborValue } from './cbor-reader.ts';
import { bytesOfLatin1, digestOf, digestOfLatin1 } from './digest.ts';

/** Work of one turn of the event loop, in bytes that are hashed: about a millisecond. */
const WORK_PER_TURN = 1024 * 1024;
const BITS_21 = 21n;
const BITS_21_MASK = 0x1f_ffffn;
/** Work of a hash besides its bytes. */
const WORK_PER_HASH = 4096;

/** Digests of keys, which are few: whoever sends others has them hashed each time. */
const keyDigests = new Map<string, string>();
const KEYS_MAX = 64;
const KEY_LENGTH_MAX = 32;

function digestOfKey(key: string): string {
  const known = keyDigests.get(key);
  if (known !== undefined) return known;
  const digest = digestOf(key);
  if (keyDigests.size < KEYS_MAX && key.length <= KEY_LENGTH_MAX) keyDigests.set(key, digest);
  return digest;
}

export function hashOfMap(map: CborMap): Buffer {
  return bytesOfLatin1(digestOfMap(map));
}

function digestOfMap(map: CborMap): string {
  const pairs: string[] = [];
  for (const [key, value] of map) pairs.push(digestOfKey(key) + digestOfValue(value));
  return digestOfPairs(pairs);
}

/** Sorting by characters, each of which is a byte, is sorting by bytes. */
function digestOfPairs(pairs: string[]): string {
  return digestOfLatin1(pairs.sort().join(''));
}

function digestOfValue(value: CborValue): string {
  if (value instanceof Map) return digestOfMap(value as CborMap);
  return isList(value) ? digestOfLatin1(value.map((each) => digestOfValue(each)).join('')) : digestOf(bytesOf(value));
}

function isList(value: CborValue): value is readonly CborValue[] {
  return Array.isArray(value);
}

function bytesOf(value: bigint | string | Uint8Array | CborMap): Uint8Array | string {
  return typeof value === 'bigint' ? leb128(value) : (value as string | Uint8Array);
}

/** Resolves with the hash of a map from outside; the work of a large one is spread over turns of the event loop. */
export async function hashInTurns(map: CborMap): Promise<Buffer> {
  if (workOf(map, WORK_PER_TURN) <= WORK_PER_TURN) return hashOfMap(map);
  const hashing = new Hashing().map(map);
  for (;;) {
    await nextTurn();
    const step = hashing.next();
    if (step.done === true) return bytesOfLatin1(step.value);
  }
}

/** Returns the work of hashing the value, or a number above `most`. */
function workOf(value: CborValue, most: number): number {
  let work = WORK_PER_HASH;
  if (typeof value === 'string' || value instanceof Uint8Array) return work + value.length;
  if (typeof value === 'bigint') return work;
  // The keys of a map are as many as its values, and short.
  const parts = isList(value) ? value : value.values();
  for (const part of parts) if (work <= most) work += WORK_PER_HASH + workOf(part, most - work);
  return work;
}

/** A hash under way, which stops after each turn's work. */
class Hashing {
  #work = 0;

  *map(map: CborMap): Generator<undefined, string> {
    const pairs: string[] = [];
    for (const [key, value] of map) pairs.push((yield* this.#bytes(key)) + (yield* this.#value(value)));
    return digestOfPairs(pairs);
  }

  *#value(value: CborValue): Generator<undefined, string> {
    if (value instanceof Map) return yield* this.map(value as CborMap);
    if (!isList(value)) return yield* this.#bytes(bytesOf(value));
    const digests: string[] = [];
    for (const each of value) digests.push(yield* this.#value(each));
    return yield* this.#bytes(bytesOfLatin1(digests.join('')));
  }

  *#bytes(bytes: Uint8Array | string): Generator<undefined, string> {
    if (this.#work > WORK_PER_TURN) {
      this.#work = 0;
      yield;
    }
    this.#work += WORK_PER_HASH + bytes.length;
    if (typeof bytes === 'string' || bytes.length <= WORK_PER_TURN) return digestOf(bytes);
    const hasher = createHash('sha256');
    for (let at = 0; at < bytes.length; at += WORK_PER_TURN) {
      hasher.update(bytes.subarray(at, at + WORK_PER_TURN));
      yield;
    }
    return hasher.digest('latin1');
  }
}

/** Returns an unsigned number as LEB128, seven bits a byte, the lowest first. */
export function leb128(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  // Numbers of a machine word are quicker: the times that are hashed here have 61 bits, so three rounds.
  for (; rest > BITS_21_MASK; rest >>= BITS_21) {
    const low = Number(rest & BITS_21_MASK);
    bytes.push((low & 0x7f) | 0x80, ((low >> 7) & 0x7f) | 0x80, (low >> 14) | 0x80);
  }
  let last = Number(rest);
  for (; last > 0x7f; last >>= 7) bytes.push((last & 0x7f) | 0x80);
  bytes.push(last);
  return Uint8Array.from(bytes);
}
