import { createHash, hkdfSync } from 'node:crypto';
import { ed25519 } from '@noble/curves/ed25519.js';
import { bigEndian, bigEndianBytes, CHAIN_CODE_BYTES, type DerivedKey, type KeyTree, secretFrom } from './key-tree.ts';

const { Point } = ed25519;
const ORDER = Point.Fn.ORDER;
const TWEAK_BYTES = 64;

/**
 * Tree of Ed25519 keys. Each step adds to the secret the output of HKDF over the public key and the index
 * (docs/management.md, "Signing keys").
 */
export class Ed25519Tree implements KeyTree {
  readonly master: DerivedKey;

  /** `seed` has 64 bytes. */
  constructor(seed: Uint8Array) {
    this.master = keyAt(secretFrom(seed, ORDER), new Uint8Array(CHAIN_CODE_BYTES));
  }

  child(parent: DerivedKey, index: Uint8Array): DerivedKey {
    const material = Buffer.concat([parent.publicKey, index]);
    const okm = new Uint8Array(
      hkdfSync('sha512', material, parent.chainCode, 'Ed25519', TWEAK_BYTES + CHAIN_CODE_BYTES),
    );
    const tweak = bigEndian(okm.subarray(0, TWEAK_BYTES)) % ORDER;
    return keyAt((parent.secret + tweak) % ORDER, okm.subarray(TWEAK_BYTES));
  }
}

function keyAt(secret: bigint, chainCode: Uint8Array): DerivedKey {
  return { secret, publicKey: Point.BASE.multiply(secret).toBytes(), chainCode };
}

/** Returns a signature that any Ed25519 verifier accepts. The nonce depends only on secret and message. */
export function signEd25519({ secret, publicKey }: DerivedKey, message: Uint8Array): Uint8Array {
  const prefix = createHash('sha512').update('ed25519 nonce').update(bigEndianBytes(secret)).digest().subarray(32);
  const nonce = littleEndian(createHash('sha512').update(prefix).update(message).digest()) % ORDER;
  const commitment = Point.BASE.multiply(nonce).toBytes();
  const challenge = createHash('sha512').update(commitment).update(publicKey).update(message).digest();
  const answer = (nonce + (littleEndian(challenge) % ORDER) * secret) % ORDER;
  return Buffer.concat([commitment, bigEndianBytes(answer).toReversed()]);
}

function littleEndian(bytes: Uint8Array): bigint {
  return bigEndian(bytes.toReversed());
}
