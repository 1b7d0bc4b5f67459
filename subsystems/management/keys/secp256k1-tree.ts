import { createHash, createHmac } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { numberAt } from '../../../kernel/index.ts';
import { bigEndian, bigEndianBytes, CHAIN_CODE_BYTES, type DerivedKey, type KeyTree, secretFrom } from './key-tree.ts';

const { Point } = secp256k1;
const ORDER = Point.Fn.ORDER;
/** First byte of a compressed point whose y is odd. */
const ODD = 3;
/** SLIP-10: begins the input of another try, where the first one was no number of the group. */
const RETRY = Uint8Array.of(1);

/** BIP-32 with byte strings as indexes, the first chain code being zeros; for ECDSA and BIP-340. */
export class Secp256k1Tree implements KeyTree {
  readonly master: DerivedKey;

  /** `seed`: 64 bytes. */
  constructor(seed: Uint8Array) {
    this.master = keyAt(secretFrom(seed, ORDER), new Uint8Array(CHAIN_CODE_BYTES));
  }

  child(parent: DerivedKey, index: Uint8Array): DerivedKey {
    let input: readonly Uint8Array[] = [parent.publicKey];
    for (;;) {
      const hmac = createHmac('sha512', parent.chainCode);
      for (const part of input) hmac.update(part);
      const digest = hmac.update(index).digest();
      const offset = bigEndian(digest.subarray(0, 32));
      const chainCode = new Uint8Array(digest.subarray(32));
      const secret = (parent.secret + offset) % ORDER;
      if (offset < ORDER && secret !== 0n) return keyAt(secret, chainCode);
      input = [RETRY, chainCode];
    }
  }
}

/** Public keys are compressed, 33 bytes. */
function keyAt(secret: bigint, chainCode: Uint8Array): DerivedKey {
  return { secret, publicKey: Point.BASE.multiply(secret).toBytes(true), chainCode };
}

/** r ‖ s, 64 bytes, with the lower s; the same for the same hash (RFC 6979). */
export function signEcdsa({ secret }: DerivedKey, hash: Uint8Array): Uint8Array {
  return secp256k1.sign(hash, bigEndianBytes(secret), { prehash: false });
}

/**
 * BIP-340, R ‖ s, 64 bytes. `auxiliary`: 32 bytes of chance. The same as @noble/curves makes, but with Node's own hash:
 * a message may have 10 MiB, and hashing that in JavaScript would hold the main thread for half a second.
 */
export function signBip340(key: DerivedKey, message: Uint8Array, auxiliary: Uint8Array): Uint8Array {
  const secret = withEvenY(key.secret, key.publicKey);
  const publicKey = key.publicKey.subarray(1);
  const mask = taggedHash('BIP0340/aux', auxiliary);
  const masked = bigEndianBytes(secret).map((byte, index) => byte ^ numberAt(mask, index, 'byte of the mask'));
  const drawn = bigEndian(taggedHash('BIP0340/nonce', masked, publicKey, message)) % ORDER;
  const commitment = Point.BASE.multiply(drawn).toBytes(true);
  const nonce = withEvenY(drawn, commitment);
  const challenge = bigEndian(taggedHash('BIP0340/challenge', commitment.subarray(1), publicKey, message)) % ORDER;
  return Buffer.concat([commitment.subarray(1), bigEndianBytes((nonce + challenge * secret) % ORDER)]);
}

/** The scalar whose point has the same x and an even y; `point` is its compressed point. */
function withEvenY(scalar: bigint, point: Uint8Array): bigint {
  return point[0] === ODD ? ORDER - scalar : scalar;
}

function taggedHash(tag: string, ...parts: readonly Uint8Array[]): Uint8Array {
  const tagHash = createHash('sha256').update(tag).digest();
  const hash = createHash('sha256').update(tagHash).update(tagHash);
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** BIP-341: the key that commits to a tree of scripts, or, with no bytes, to none. */
export function tweakForTaproot(key: DerivedKey, merkleRoot: Uint8Array): DerivedKey {
  const tweak = bigEndian(taggedHash('TapTweak', key.publicKey.subarray(1), merkleRoot));
  const secret = (withEvenY(key.secret, key.publicKey) + tweak) % ORDER;
  // One chance in 2^128; there is no signature then.
  if (tweak >= ORDER || secret === 0n) throw new Error('this key cannot be tweaked');
  return keyAt(secret, key.chainCode);
}
