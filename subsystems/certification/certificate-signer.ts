/**
 * The host's keys: a root key (BLS12-381, signatures in G1) that certificates are signed with, and the key of its one
 * node (Ed25519), for answers of queries. Both are derived from one secret. The root key's work is done in a thread
 * that the first request starts.
 */
import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';
import { separated } from './hash-tree.ts';

/** A message to sign, or undefined for the public key of the secret. */
interface RootKeyRequest {
  readonly secret: Uint8Array;
  readonly message: Uint8Array | undefined;
}

/** Hashes of answers to sign with the node's key, side by side; the answer has the signatures in the same way. */
interface NodeKeyRequest {
  /** DER of the private key. */
  readonly nodeKey: Uint8Array;
  readonly hashes: Uint8Array;
}

/** Work of the thread that signs. */
export type SigningRequest = RootKeyRequest | NodeKeyRequest;

/** The public side of the host's keys. */
export interface HostIdentity {
  /** DER of the root key, 133 bytes. */
  readonly rootKey: Uint8Array;
  /** Principal of the subnet that the root key makes. */
  readonly subnetId: Uint8Array;
  /** DER of the node's Ed25519 key, 44 bytes, and the principal that it makes. */
  readonly nodeKey: Uint8Array;
  readonly nodeId: Uint8Array;
}

const JOB_DEADLINE_MS = 10_000;
const WAITING_JOBS_MAX = 4;
const THREAD_HEAP_MB = 64;
const THREAD_STACK_MB = 4;
/** Order of the group of BLS12-381. */
const ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n;
const SCALAR_BYTES = 48;
/** DER of a BLS key in G2, before its compressed point of 96 bytes. */
export const BLS_KEY_PREFIX: Uint8Array = Buffer.from(
  '308182301d060d2b0601040182dc7c0503010201060c2b0601040182dc7c05030201036100',
  'hex',
);
const ED25519_SECRET_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SELF_AUTHENTICATING = Uint8Array.of(2);
const RESPONSE = separated('ic-response');
const HASH_BYTES = 32;
const NODE_SIGNATURE_BYTES = 64;

/** Returns the principal of a public key in DER. */
export function principalOfKey(key: Uint8Array): Uint8Array {
  return Buffer.concat([createHash('sha224').update(key).digest(), SELF_AUTHENTICATING]);
}

/** Returns the node's key that DER has. */
export function nodeKeyOf(der: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.from(der), format: 'der', type: 'pkcs8' });
}

/** Returns the node's signatures of hashes that are side by side. */
export function nodeSignatures(key: KeyObject, hashes: Uint8Array): Uint8Array {
  const signatures = new Uint8Array((hashes.length / HASH_BYTES) * NODE_SIGNATURE_BYTES);
  for (let at = 0; at * HASH_BYTES < hashes.length; at++) {
    const hash = hashes.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES);
    signatures.set(nodeSignature(key, hash), at * NODE_SIGNATURE_BYTES);
  }
  return signatures;
}

function nodeSignature(key: KeyObject, hash: Uint8Array): Uint8Array {
  return sign(null, Buffer.concat([RESPONSE, hash]), key);
}

export class CertificateSigner {
  readonly #secret: Uint8Array;
  readonly #node: KeyObject;
  readonly #nodeKey: Uint8Array;
  readonly #thread: JobThread<SigningRequest, Uint8Array>;

  /** `secret` has 32 random bytes; the same secret gives the same keys. */
  constructor(secret: Uint8Array) {
    const material = derived(secret, 'svc certification: root key', SCALAR_BYTES);
    const scalar = 1n + (BigInt(`0x${material.toString('hex')}`) % (ORDER - 1n));
    this.#secret = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex');
    const nodeSecret = derived(secret, 'svc certification: node key', 32);
    this.#nodeKey = Buffer.concat([ED25519_SECRET_PREFIX, nodeSecret]);
    this.#node = nodeKeyOf(this.#nodeKey);
    this.#thread = new JobThread({
      name: 'certification',
      script: new URL('./signing-worker.ts', import.meta.url),
      jobDeadlineMs: JOB_DEADLINE_MS,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: THREAD_HEAP_MB,
      stackMb: THREAD_STACK_MB,
      refusals: {
        busy: () =>
          new ServerError('unavailable', 'certificates-busy', 'too many certificates are due; try again later'),
        late: () =>
          new ServerError('unavailable', 'certificates-slow', `a signature took longer than ${JOB_DEADLINE_MS} ms`),
        failed: (what, cause) =>
          new ServerError('unavailable', 'certificates-failed', `the thread that signs ${what}; try again`, { cause }),
        closed: () =>
          new ServerError('unavailable', 'certificates-closed', 'the server is stopping: it signs nothing any more'),
      },
    });
  }

  /** Resolves with the public keys. Rejects with ServerError `unavailable` if the thread cannot make them. */
  async identity(): Promise<HostIdentity> {
    const point = await this.#thread.run({ secret: this.#secret, message: undefined });
    const rootKey = Buffer.concat([BLS_KEY_PREFIX, point]);
    const nodeKey = createPublicKey(this.#node).export({ format: 'der', type: 'spki' });
    return { rootKey, subnetId: principalOfKey(rootKey), nodeKey, nodeId: principalOfKey(nodeKey) };
  }

  /** Resolves with the root key's signature, 48 bytes. Rejects with ServerError `unavailable`. */
  sign(message: Uint8Array): Promise<Uint8Array> {
    return this.#thread.run({ secret: this.#secret, message });
  }

  /** Returns the node's signature of an answer's hash, 64 bytes: some 25 µs. */
  signAsNode(hash: Uint8Array): Uint8Array {
    return nodeSignature(this.#node, hash);
  }

  /**
   * Resolves with the node's signatures of hashes of 32 bytes, in their order: made in the thread. Rejects with
   * ServerError `unavailable`.
   */
  async signAllAsNode(hashes: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    const signed = await this.#thread.run({ nodeKey: this.#nodeKey, hashes: Buffer.concat(hashes) });
    return hashes.map((_, at) => signed.subarray(at * NODE_SIGNATURE_BYTES, (at + 1) * NODE_SIGNATURE_BYTES));
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

function derived(secret: Uint8Array, label: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), label, length));
}
