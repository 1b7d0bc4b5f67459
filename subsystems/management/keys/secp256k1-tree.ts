import { createHash, createHmac } from 'node:crypto';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { numberAt } from '../../../kernel/index.ts';
import { bigEndian, bigEndianBytes, CHAIN_CODE_BYTES, type DerivedKey, type KeyTree, secretFrom } from './key-tree.ts';

const { Point } = secp256k1;
const ORDER = Point.Fn.ORDER;
/** First byte of a compressed point whose y is odd. */
const ODD = 3;
/** SLIP-10: first byte of the input of a retry, if the first try yields no number of the group. */
const RETRY = Uint8Array.of(1);

/** BIP-32 with byte strings as indexes and an initial chain code of zeros; for ECDSA and BIP-340. */
export class Secp256k1Tree implements KeyTree {
  readonly master: DerivedKey;

  /** `seed` has 64 bytes. */
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

/** Returns the key with its compressed public key of 33 bytes. */
function keyAt(secret: bigint, chainCode: Uint8Array): DerivedKey {
  return { secret, publicKey: Point.BASE.multiply(secret).toBytes(true), chainCode };
}

/** Returns the signature r ‖ s, 64 bytes, with the lower s; deterministic for each hash (RFC 6979). */
export function signEcdsa({ secret }: DerivedKey, hash: Uint8Array): Uint8Array {
  return secp256k1.sign(hash, bigEndianBytes(secret), { prehash: false });
}

/**
 * Returns the BIP-340 signature R ‖ s, 64 bytes. `auxiliary` has 32 random bytes. The result equals that of
 * @noble/curves, but uses Node's hash: a message may have 10 MiB, and hashing it in JavaScript would hold the main
 * thread for half a second.
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

/** Returns the scalar whose point has the same x and an even y; `point` is the compressed point of `scalar`. */
function withEvenY(scalar: bigint, point: Uint8Array): bigint {
  return point[0] === ODD ? ORDER - scalar : scalar;
}

function taggedHash(tag: string, ...parts: readonly Uint8Array[]): Uint8Array {
  const tagHash = createHash('sha256').update(tag).digest();
  const hash = createHash('sha256').update(tagHash).update(tagHash);
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** Returns the key that commits to a tree of scripts (BIP-341), or to none if `merkleRoot` is empty. */
export function tweakForTaproot(key: DerivedKey, merkleRoot: Uint8Array): DerivedKey {
  const tweak = bigEndian(taggedHash('TapTweak', key.publicKey.subarray(1), merkleRoot));
  const secret = (withEvenY(key.secret, key.publicKey) + tweak) % ORDER;
  // The probability is 2^-128; no signature is possible then.
  if (tweak >= ORDER || secret === 0n) throw new Error('this key cannot be tweaked');
  return keyAt(secret, key.chainCode);
}
