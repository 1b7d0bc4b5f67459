/**
 * The host's keys: a root key (BLS12-381, signatures in G1) that certificates are signed with, and the key of its one
 * node (Ed25519), for answers of queries. Both are derived from one secret. The root key's work is done in a thread
 * that the first request starts.
 */
import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';

/** A message to sign, or undefined for the public key of the secret. */
export interface SigningRequest {
  readonly secret: Uint8Array;
  readonly message: Uint8Array | undefined;
}

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

/** Returns the principal of a public key in DER. */
export function principalOfKey(key: Uint8Array): Uint8Array {
  return Buffer.concat([createHash('sha224').update(key).digest(), SELF_AUTHENTICATING]);
}

export class CertificateSigner {
  readonly #secret: Uint8Array;
  readonly #node: KeyObject;
  readonly #thread: JobThread<SigningRequest, Uint8Array>;

  /** `secret` has 32 random bytes; the same secret gives the same keys. */
  constructor(secret: Uint8Array) {
    const material = derived(secret, 'svc certification: root key', SCALAR_BYTES);
    const scalar = 1n + (BigInt(`0x${material.toString('hex')}`) % (ORDER - 1n));
    this.#secret = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex');
    const nodeSecret = derived(secret, 'svc certification: node key', 32);
    this.#node = createPrivateKey({
      key: Buffer.concat([ED25519_SECRET_PREFIX, nodeSecret]),
      format: 'der',
      type: 'pkcs8',
    });
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

  /** Returns the node's signature, 64 bytes: some 25 µs. */
  signAsNode(message: Uint8Array): Uint8Array {
    return sign(null, message, this.#node);
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

function derived(secret: Uint8Array, label: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), label, length));
}
