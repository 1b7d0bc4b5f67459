/**
 * Public keys of senders, as DER SubjectPublicKeyInfo, and their signatures: Ed25519, and ECDSA with SHA-256 on P-256
 * and secp256k1. Signatures are verified in the threads of Node's pool; a key that was seen before is kept.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';

const KEYS_MAX = 10_000;

interface Scheme {
  /** Everything before the key's own bytes. */
  readonly prefix: Buffer;
  readonly keyBytes: number;
  readonly isEcdsa: boolean;
}

const SCHEMES: readonly Scheme[] = [
  { prefix: Buffer.from('302a300506032b6570032100', 'hex'), keyBytes: 32, isEcdsa: false },
  {
    prefix: Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex'),
    keyBytes: 64,
    isEcdsa: true,
  },
  { prefix: Buffer.from('3056301006072a8648ce3d020106052b8104000a03420004', 'hex'), keyBytes: 64, isEcdsa: true },
];
const SIGNATURE_BYTES = 64;

interface KnownKey {
  readonly key: KeyObject;
  readonly isEcdsa: boolean;
}

/** Verifies signatures; keeps the keys that were used last. */
export class PublicKeys {
  readonly #known = new Map<string, KnownKey>();

  /** Returns the reason why these bytes are no key that this host takes; undefined: they are one. */
  problem(der: Uint8Array): string | undefined {
    return this.#keyOf(der) === undefined
      ? 'is no Ed25519, P-256 or secp256k1 key in DER (points uncompressed)'
      : undefined;
  }

  /** Resolves with true if the signature over the message is that key's. */
  verifies(der: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    const known = this.#keyOf(der);
    if (known === undefined || signature.length !== SIGNATURE_BYTES) return Promise.resolve(false);
    const { key, isEcdsa } = known;
    return new Promise((resolve) => {
      const done = (error: Error | null, isValid: boolean): void => resolve(error === null && isValid);
      if (isEcdsa) verify('sha256', message, { key, dsaEncoding: 'ieee-p1363' }, signature, done);
      else verify(null, message, key, signature, done);
    });
  }

  #keyOf(der: Uint8Array): KnownKey | undefined {
    const scheme = SCHEMES.find(
      ({ prefix, keyBytes }) =>
        der.length === prefix.length + keyBytes && prefix.equals(der.subarray(0, prefix.length)),
    );
    if (scheme === undefined) return undefined;
    const bytes = Buffer.from(der);
    const name = bytes.toString('latin1');
    let known = this.#known.get(name);
    if (known !== undefined) return known;
    try {
      known = { key: createPublicKey({ key: bytes, format: 'der', type: 'spki' }), isEcdsa: scheme.isEcdsa };
    } catch {
      // A point that is not on the curve.
      return undefined;
    }
    if (this.#known.size >= KEYS_MAX)
      for (const oldest of this.#known.keys()) return this.#replace(oldest, name, known);
    this.#known.set(name, known);
    return known;
  }

  #replace(oldest: string, name: string, known: KnownKey): KnownKey {
    this.#known.delete(oldest);
    this.#known.set(name, known);
    return known;
  }
}
