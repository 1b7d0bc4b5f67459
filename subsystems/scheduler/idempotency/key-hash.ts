/**
 * HalfSipHash-2-4 (Aumasson, Bernstein) of short Latin-1 texts, 32 bits, with a secret of the process: clients choose
 * the keys, and must not be able to choose ones that all fall into one bucket. 0.15 µs for a UUID; SHA-256 takes twice
 * as long.
 *
 * Main thread: plain numbers.
 */
import { randomBytes } from 'node:crypto';
import { isRequestKey } from '../index.ts';
import { latin1Of } from './argument-digest.ts';

interface HashSecret {
  readonly low: number;
  readonly high: number;
}

/**
 * Hashes of callers' keys. Each caller has a secret of its own, made of the process's two by its bytes, so that a key
 * is hashed as it is. That of the newest caller is kept: most calls come from the anonymous one.
 */
export class KeyHashes {
  readonly #secrets = [newHashSecret(), newHashSecret()] as const;
  #caller: Uint8Array | undefined;
  #callersSecret: HashSecret = this.#secrets[0];

  /** 0 ≤ result < 2^32. Every character of `key` is a byte. */
  hashOf(caller: Uint8Array, key: string): number {
    if (isRequestKey(key)) return keyHash(key, this.#secrets[0]);
    if (caller !== this.#caller) {
      const text = latin1Of(caller);
      const [low, high] = this.#secrets;
      this.#callersSecret = { low: keyHash(text, low), high: keyHash(text, high) };
      this.#caller = caller;
    }
    return keyHash(key, this.#callersSecret);
  }
}

/** A secret that nobody else has. */
function newHashSecret(): HashSecret {
  const bytes = randomBytes(8);
  return { low: bytes.readInt32LE(0), high: bytes.readInt32LE(4) };
}

/** Every character of `text` is a byte. 0 ≤ result < 2^32. */
export function keyHash(text: string, { low, high }: HashSecret): number {
  let v0 = low;
  let v1 = high;
  let v2 = 0x6c79_6765 ^ low;
  let v3 = 0x7465_6462 ^ high;
  const { length } = text;
  // The last word has what is left, and the length.
  const words = (length >>> 2) + 1;
  for (let word = 0; word <= words; word++) {
    const at = word * 4;
    let m = 0;
    let rounds = 2;
    if (word < words - 1) {
      m =
        text.charCodeAt(at) |
        (text.charCodeAt(at + 1) << 8) |
        (text.charCodeAt(at + 2) << 16) |
        (text.charCodeAt(at + 3) << 24);
    } else if (word === words - 1) {
      m = length << 24;
      for (let left = length - at, k = 0; k < left; k++) m |= text.charCodeAt(at + k) << (8 * k);
    } else {
      v2 ^= 0xff;
      rounds = 4;
    }
    v3 ^= m;
    for (; rounds > 0; rounds--) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    v0 ^= m;
  }
  return (v1 ^ v3) >>> 0;
}
