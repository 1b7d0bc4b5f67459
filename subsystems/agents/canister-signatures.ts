/**
 * Signatures of canisters: a canister certifies a tree that has the hash of what it signs, and its subnet certifies
 * the canister's data. They count where the certificate is of this host, or, with `--trust-ic-root`, of the Internet
 * Computer. What costs little is looked at first; the certificate's signature comes last.
 */
import { hash } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import {
  type BlsVerifier,
  type CborMap,
  type CborValue,
  decodeCbor,
  separated,
  Witness,
} from '../certification/index.ts';
import { NO_BYTES } from '../bytes/index.ts';
import { PRINCIPAL_BYTES_MAX } from '../ic/index.ts';
import { bitsOf } from './cose-key.ts';

const OID = Buffer.from('060a2b0601040183b8430102', 'hex');
const STATE_ROOT = separated('ic-state-root');
const SIGNATURE_BYTES_MAX = 64 * 1024;
const QUOTAS = { itemsMax: 4000, depthMax: 128 } as const;
const SUBNET_TYPE_REFUSED = 'cloud_engine';

/** Keys that certificates may be of, DER. */
interface TrustedRoots {
  /** This host's. Certificates under it have no delegation. */
  readonly own: Uint8Array;
  /** The root key of the Internet Computer, where it is trusted. */
  readonly ic: Uint8Array | undefined;
}

interface CanisterKey {
  readonly canisterId: Uint8Array;
  readonly seed: Uint8Array;
}

/** Returns the canister and the seed that the DER names; undefined: it is no key of a canister. */
export function canisterKeyOf(der: Uint8Array): CanisterKey | undefined {
  const bits = bitsOf(der, OID);
  const [length = 0] = bits ?? [];
  if (bits === undefined || length === 0 || length > PRINCIPAL_BYTES_MAX || bits.length < 1 + length) return undefined;
  return { canisterId: bits.subarray(1, 1 + length), seed: bits.subarray(1 + length) };
}

interface Certificate {
  readonly witness: Witness;
  readonly signature: Uint8Array;
  readonly delegation: CborMap | undefined;
}

export class CanisterSignatures {
  readonly #roots: TrustedRoots;
  readonly #verifier: Pick<BlsVerifier, 'verifies'>;

  constructor(roots: TrustedRoots, verifier: Pick<BlsVerifier, 'verifies'>) {
    this.#roots = roots;
    this.#verifier = verifier;
  }

  /** Resolves with true if the canister has signed the message. Rejects with ServerError `unavailable`. */
  async verifies({ canisterId, seed }: CanisterKey, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    if (signature.length > SIGNATURE_BYTES_MAX) return false;
    try {
      const parts = mapOf(decodeCbor(signature, QUOTAS));
      const tree = new Witness(parts.get('tree'));
      const signed = tree.valueAt([Buffer.from('sig'), sha256(seed), sha256(message)]);
      if (signed?.length !== 0) return false;
      const certificate = certificateOf(bytesOf(parts.get('certificate')));
      const data = certificate.witness.valueAt([Buffer.from('canister'), canisterId, Buffer.from('certified_data')]);
      if (data === undefined || !Buffer.from(tree.rootHash).equals(data)) return false;
      return await this.#isTrusted(certificate, canisterId);
    } catch (error) {
      if (error instanceof ServerError && error.code === 'cbor-bad') return false;
      throw error;
    }
  }

  async #isTrusted(certificate: Certificate, canisterId: Uint8Array): Promise<boolean> {
    const { own, ic } = this.#roots;
    if (certificate.delegation === undefined) {
      if (await this.#isSigned(certificate, own)) return true;
      return ic !== undefined && (await this.#isSigned(certificate, ic));
    }
    if (ic === undefined) return false;
    const subnetId = bytesOf(certificate.delegation.get('subnet_id'));
    const above = certificateOf(bytesOf(certificate.delegation.get('certificate')));
    // A subnet is named by the root alone.
    if (above.delegation !== undefined) return false;
    const at = (label: string): Uint8Array | undefined =>
      above.witness.valueAt([Buffer.from('subnet'), subnetId, Buffer.from(label)]);
    const [key, type] = [at('public_key'), at('type')];
    if (key === undefined || type === undefined || Buffer.from(type).toString() === SUBNET_TYPE_REFUSED) return false;
    // Ranges may be many: those that the root has signed are looked through.
    if (!(await this.#isSigned(above, ic)) || !hasCanister(above.witness, subnetId, canisterId)) return false;
    return await this.#isSigned(certificate, key);
  }

  #isSigned({ witness, signature }: Certificate, key: Uint8Array): Promise<boolean> {
    return this.#verifier.verifies(key, Buffer.concat([STATE_ROOT, witness.rootHash]), signature);
  }
}

/** Returns true if the subnet has the canister's id in a range, of either place where certificates have them. */
function hasCanister(witness: Witness, subnetId: Uint8Array, canisterId: Uint8Array): boolean {
  const shards = [Buffer.from('canister_ranges'), subnetId];
  const old = witness.valueAt([Buffer.from('subnet'), subnetId, Buffer.from('canister_ranges')]);
  const lists = [
    old ?? NO_BYTES,
    ...witness.labelsAt(shards).map((low) => witness.valueAt([...shards, low]) ?? NO_BYTES),
  ];
  return lists.some((list) => list.length > 0 && isInRanges(decodeCbor(list, QUOTAS), canisterId));
}

function isInRanges(list: CborValue, id: Uint8Array): boolean {
  if (!Array.isArray(list)) return false;
  return (list as readonly CborValue[]).some((range) => {
    const [low, high] = Array.isArray(range) ? (range as readonly CborValue[]) : [];
    return Buffer.compare(bytesOf(low), id) <= 0 && Buffer.compare(id, bytesOf(high)) <= 0;
  });
}

function certificateOf(bytes: Uint8Array): Certificate {
  const parts = mapOf(decodeCbor(bytes, QUOTAS));
  const delegation = parts.get('delegation');
  return {
    witness: new Witness(parts.get('tree')),
    signature: bytesOf(parts.get('signature')),
    delegation: delegation === undefined ? undefined : mapOf(delegation),
  };
}

function mapOf(value: CborValue): CborMap {
  if (value instanceof Map) return value as CborMap;
  throw new ServerError('invalid', 'cbor-bad', 'a canister signature has a map where another value is');
}

function bytesOf(value: CborValue | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new ServerError('invalid', 'cbor-bad', 'a canister signature has bytes where another value is');
}

function sha256(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer');
}
