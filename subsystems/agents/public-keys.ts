/**
 * Public keys of senders, as DER SubjectPublicKeyInfo, and their signatures: Ed25519, ECDSA with SHA-256 on P-256 and
 * secp256k1, those of WebAuthn authenticators, and those of canisters. Signatures are verified in the threads of Node's
 * pool, those of canisters in a thread of their own; a key that was seen before is kept.
 */
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import { decodeCbor } from '../certification/index.ts';
import { canisterKeyOf, type CanisterSignatures } from './canister-signatures.ts';
import { coseKeyOf } from './cose-key.ts';

const KEYS_MAX = 10_000;

interface Scheme {
  /** Everything before the key's own bytes. */
  readonly prefix: Buffer;
  readonly keyBytes: number;
  readonly hash: 'sha256' | null;
}

const SCHEMES: readonly Scheme[] = [
  { prefix: Buffer.from('302a300506032b6570032100', 'hex'), keyBytes: 32, hash: null },
  {
    prefix: Buffer.from('3059301306072a8648ce3d020106082a8648ce3d03010703420004', 'hex'),
    keyBytes: 64,
    hash: 'sha256',
  },
  { prefix: Buffer.from('3056301006072a8648ce3d020106052b8104000a03420004', 'hex'), keyBytes: 64, hash: 'sha256' },
];
const SIGNATURE_BYTES = 64;

interface KnownKey {
  readonly key: KeyObject;
  readonly hash: 'sha256' | null;
  /** True for an authenticator's: it signs its own data and the hash of what the browser has seen. */
  readonly isAuthenticator: boolean;
}

/** A message as it was signed. ECDSA signatures of authenticators are in DER, others r and s side by side. */
interface Signed {
  readonly message: Uint8Array;
  readonly signature: Uint8Array;
  readonly dsaEncoding: 'der' | 'ieee-p1363';
}

/** Verifies signatures; keeps the keys that were used last. */
export class PublicKeys {
  readonly #known = new Map<string, KnownKey>();
  readonly #canisters: Pick<CanisterSignatures, 'verifies'>;

  constructor(canisters: Pick<CanisterSignatures, 'verifies'>) {
    this.#canisters = canisters;
  }

  /** Returns the reason why these bytes are no key that this host takes; undefined: they are one. */
  problem(der: Uint8Array): string | undefined {
    return this.#keyOf(der) === undefined && canisterKeyOf(der) === undefined
      ? 'is no Ed25519, P-256, secp256k1, WebAuthn or canister key in DER (points uncompressed)'
      : undefined;
  }

  /** Resolves with true if the signature over the message is that key's. Rejects with ServerError `unavailable`. */
  verifies(der: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    const known = this.#keyOf(der);
    const canister = known === undefined ? canisterKeyOf(der) : undefined;
    if (canister !== undefined) return this.#canisters.verifies(canister, message, signature);
    const signed = known?.isAuthenticator === true ? assertionOf(message, signature) : plain(message, signature);
    if (known === undefined || signed === undefined) return Promise.resolve(false);
    const { key, hash } = known;
    const { dsaEncoding } = signed;
    return new Promise((resolve) => {
      const done = (error: Error | null, isValid: boolean): void => resolve(error === null && isValid);
      verify(hash, signed.message, { key, dsaEncoding }, signed.signature, done);
    });
  }

  #keyOf(der: Uint8Array): KnownKey | undefined {
    const name = Buffer.from(der).toString('latin1');
    const before = this.#known.get(name);
    if (before !== undefined) return before;
    const key = keyOf(der);
    if (key === undefined) return undefined;
    if (this.#known.size >= KEYS_MAX) {
      const [oldest = ''] = this.#known.keys();
      this.#known.delete(oldest);
    }
    this.#known.set(name, key);
    return key;
  }
}

function keyOf(der: Uint8Array): KnownKey | undefined {
  const scheme = SCHEMES.find(
    ({ prefix, keyBytes }) => der.length === prefix.length + keyBytes && prefix.equals(der.subarray(0, prefix.length)),
  );
  if (scheme === undefined) {
    const cose = coseKeyOf(der);
    return cose && { ...cose, isAuthenticator: true };
  }
  try {
    const key = createPublicKey({ key: Buffer.from(der), format: 'der', type: 'spki' });
    return { key, hash: scheme.hash, isAuthenticator: false };
  } catch {
    // A point that is not on the curve.
    return undefined;
  }
}

function plain(message: Uint8Array, signature: Uint8Array): Signed | undefined {
  return signature.length === SIGNATURE_BYTES ? { message, signature, dsaEncoding: 'ieee-p1363' } : undefined;
}

/** Returns what an authenticator has signed for this message; undefined: its answer is none, or for another one. */
function assertionOf(message: Uint8Array, answer: Uint8Array): Signed | undefined {
  try {
    const parts = decodeCbor(answer);
    if (!(parts instanceof Map)) return undefined;
    const fields = parts as ReadonlyMap<string, unknown>;
    const data = fields.get('authenticator_data');
    const seen = fields.get('client_data_json');
    const signature = fields.get('signature');
    if (!(data instanceof Uint8Array) || typeof seen !== 'string' || !(signature instanceof Uint8Array))
      return undefined;
    const client = JSON.parse(seen) as { readonly challenge?: unknown } | null;
    if (client?.challenge !== Buffer.from(message).toString('base64url')) return undefined;
    const hash = createHash('sha256').update(seen).digest();
    return { message: Buffer.concat([data, hash]), signature, dsaEncoding: 'der' };
  } catch (error) {
    if (error instanceof ServerError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
