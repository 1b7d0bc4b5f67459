/**
 * Signatures of root keys and subnets (BLS12-381, in G1), verified in a thread of its own, so that whoever sends wrong
 * ones delays neither the main thread nor what the host signs itself.
 */
import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';
import { BLS_KEY_PREFIX } from './certificate-signer.ts';

/** A signature to verify: of 48 bytes, under a compressed point of 96. */
export interface VerifyingRequest {
  readonly point: Uint8Array;
  readonly message: Uint8Array;
  readonly signature: Uint8Array;
}

const JOB_DEADLINE_MS = 10_000;
const WAITING_JOBS_MAX = 64;
const THREAD_HEAP_MB = 64;
const THREAD_STACK_MB = 4;
const SIGNATURE_BYTES = 48;
const POINT_BYTES = 96;

export class BlsVerifier {
  readonly #thread: JobThread<VerifyingRequest, boolean>;

  constructor() {
    this.#thread = new JobThread({
      name: 'verification',
      script: new URL('./verifying-worker.ts', import.meta.url),
      jobDeadlineMs: JOB_DEADLINE_MS,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: THREAD_HEAP_MB,
      stackMb: THREAD_STACK_MB,
      refusals: {
        busy: () =>
          new ServerError('unavailable', 'certificates-busy', 'too many certificates are verified; try again later'),
        late: () =>
          new ServerError('unavailable', 'certificates-slow', `a certificate took longer than ${JOB_DEADLINE_MS} ms`),
        failed: (what, cause) =>
          new ServerError('unavailable', 'certificates-failed', `the thread that verifies ${what}; try again`, {
            cause,
          }),
        closed: () =>
          new ServerError('unavailable', 'certificates-closed', 'the server is stopping: it verifies nothing any more'),
      },
    });
  }

  /**
   * Resolves with true if the signature over the message is that of the key, DER of 133 bytes; with false also for
   * what is no such key or signature. Rejects with ServerError `unavailable`.
   */
  async verifies(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    const prefix = key.subarray(0, BLS_KEY_PREFIX.length);
    const isKey = key.length === BLS_KEY_PREFIX.length + POINT_BYTES && Buffer.compare(prefix, BLS_KEY_PREFIX) === 0;
    if (!isKey || signature.length !== SIGNATURE_BYTES) return false;
    return await this.#thread.run({ point: key.slice(BLS_KEY_PREFIX.length), message, signature: signature.slice() });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
