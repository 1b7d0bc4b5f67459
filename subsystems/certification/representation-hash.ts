/**
 * The hash of a value that does not depend on how it is encoded (interface specification, "Representation-independent
 * hashing of structured data"): of a map, the sorted pairs of the hashes of key and value.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CborMap, CborValue } from './cbor-reader.ts';

/** Work of one turn of the event loop, in bytes that are hashed: about a millisecond. */
const WORK_PER_TURN = 1024 * 1024;
/** Work of a hash besides its bytes. */
const WORK_PER_HASH = 4096;

function sha256(bytes: Uint8Array | string): Buffer {
  return hash('sha256', bytes, 'buffer');
}

export function hashOfMap(map: CborMap): Buffer {
  const pairs: Buffer[] = [];
  for (const [key, value] of map) pairs.push(Buffer.concat([sha256(key), hashOf(value)]));
  return hashOfPairs(pairs);
}

function hashOfPairs(pairs: Buffer[]): Buffer {
  pairs.sort((one, other) => Buffer.compare(one, other));
  return sha256(Buffer.concat(pairs));
}

function hashOf(value: CborValue): Buffer {
  if (value instanceof Map) return hashOfMap(value as CborMap);
  return isList(value) ? sha256(Buffer.concat(value.map((each) => hashOf(each)))) : sha256(bytesOf(value));
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
    if (step.done === true) return step.value;
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

  *map(map: CborMap): Generator<undefined, Buffer> {
    const pairs: Buffer[] = [];
    for (const [key, value] of map) pairs.push(Buffer.concat([yield* this.#bytes(key), yield* this.#value(value)]));
    return hashOfPairs(pairs);
  }

  *#value(value: CborValue): Generator<undefined, Buffer> {
    if (value instanceof Map) return yield* this.map(value as CborMap);
    if (!isList(value)) return yield* this.#bytes(bytesOf(value));
    const hashes: Buffer[] = [];
    for (const each of value) hashes.push(yield* this.#value(each));
    return yield* this.#bytes(Buffer.concat(hashes));
  }

  *#bytes(bytes: Uint8Array | string): Generator<undefined, Buffer> {
    if (this.#work > WORK_PER_TURN) {
      this.#work = 0;
      yield;
    }
    this.#work += WORK_PER_HASH + bytes.length;
    if (typeof bytes === 'string' || bytes.length <= WORK_PER_TURN) return sha256(bytes);
    const hasher = createHash('sha256');
    for (let at = 0; at < bytes.length; at += WORK_PER_TURN) {
      hasher.update(bytes.subarray(at, at + WORK_PER_TURN));
      yield;
    }
    return hasher.digest();
  }
}

/** Returns an unsigned number as LEB128, seven bits a byte, the lowest first. */
export function leb128(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
