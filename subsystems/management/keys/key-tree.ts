/**
 * Trees of keys. Every canister and every path of byte strings has its own key pair, derived from one master key; the
 * path's first element is the canister's id. Public keys and chain codes are derived as on the Internet Computer, so
 * that a client that derives a public key from this host's master public key gets the same one.
 */

/** A place in a tree. */
export interface DerivedKey {
  /** A scalar of the curve's group, never 0. */
  readonly secret: bigint;
  readonly publicKey: Uint8Array;
  readonly chainCode: Uint8Array;
}

/** A tree's master key, and the derivation of one step. */
export interface KeyTree {
  readonly master: DerivedKey;
  child(parent: DerivedKey, index: Uint8Array): DerivedKey;
}

export const CHAIN_CODE_BYTES = 32;

/** Returns a nonzero number of a group of `order` elements, from 64 random bytes: nearly uniformly distributed. */
export function secretFrom(bytes: Uint8Array, order: bigint): bigint {
  return 1n + (bigEndian(bytes) % (order - 1n));
}

export function bigEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
}

export function bigEndianBytes(value: bigint): Uint8Array {
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex');
}
