/**
 * The node's signatures of answers. Those that are asked for in one turn of the event loop go to the signing thread
 * together, unless they are so few that the main thread has signed them before that thread would have begun: one that
 * is alone waits for nobody. While one batch is signed, the next one gathers.
 *
 *     asked ─► end of the turn ─► few, and no batch away: signed here
 *                              └► else: a batch, signed in the thread
 *
 * Main thread: 25 µs for a signature of its own, 3 for one of a batch.
 */
import { assert, ServerError } from '../../kernel/index.ts';
import type { CertificateSigner } from './certificate-signer.ts';

/** Signatures that the main thread makes itself: to hand over a batch takes as long as two. */
const ALONE_MAX = 2;
/** Signatures of one batch: 6 ms of the thread. */
const BATCH_MAX = 256;
/** Answers that may wait. */
const WAITING_MAX = 10_000;

interface Due {
  readonly hash: Uint8Array;
  readonly resolve: (signature: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

export class QuerySignatures {
  readonly #signer: Pick<CertificateSigner, 'signAsNode' | 'signAllAsNode'>;
  readonly #waiting: Due[] = [];
  #isDue = false;
  #isAway = false;

  constructor(signer: Pick<CertificateSigner, 'signAsNode' | 'signAllAsNode'>) {
    this.#signer = signer;
  }

  /** Resolves with the signature of an answer's hash. Rejects with ServerError `unavailable`. */
  sign(hash: Uint8Array): Promise<Uint8Array> {
    if (this.#waiting.length >= WAITING_MAX) {
      const text = `${WAITING_MAX} answers wait for their signatures; try again later`;
      return Promise.reject(new ServerError('unavailable', 'certificates-busy', text));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ hash, resolve, reject });
      if (this.#isDue || this.#isAway) return;
      this.#isDue = true;
      setImmediate(this.#turnEnds);
    });
  }

  readonly #turnEnds = (): void => {
    this.#isDue = false;
    if (this.#waiting.length > ALONE_MAX) void this.#signBatches();
    else for (const { hash, resolve } of this.#waiting.splice(0)) resolve(this.#signer.signAsNode(hash));
  };

  async #signBatches(): Promise<void> {
    this.#isAway = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH_MAX);
      try {
        const signatures = await this.#signer.signAllAsNode(batch.map(({ hash }) => hash));
        for (const [at, { resolve }] of batch.entries()) {
          const signature = signatures[at];
          assert(signature !== undefined, 'each hash has its signature');
          resolve(signature);
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#isAway = false;
  }
}
