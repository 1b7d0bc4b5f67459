import { createHmac } from 'node:crypto';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { bigEndian, bigEndianBytes, CHAIN_CODE_BYTES, type DerivedKey, type KeyTree, secretFrom } from './key-tree.ts';

const { Point } = secp256k1;
const ORDER = Point.Fn.ORDER;
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

/** `auxiliary`: 32 bytes of chance. */
export function signBip340({ secret }: DerivedKey, message: Uint8Array, auxiliary: Uint8Array): Uint8Array {
  return schnorr.sign(message, bigEndianBytes(secret), auxiliary);
}

/** BIP-341: the key that commits to a tree of scripts, or, with no bytes, to none. */
export function tweakForTaproot(key: DerivedKey, merkleRoot: Uint8Array): DerivedKey {
  const isOdd = key.publicKey[0] === 3;
  const even = isOdd ? ORDER - key.secret : key.secret;
  const tweak = bigEndian(schnorr.utils.taggedHash('TapTweak', key.publicKey.subarray(1), merkleRoot));
  const secret = (even + tweak) % ORDER;
  // One chance in 2^128; there is no signature then.
  if (tweak >= ORDER || secret === 0n) throw new Error('this key cannot be tweaked');
  return keyAt(secret, key.chainCode);
}
