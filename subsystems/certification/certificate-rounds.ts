/**
 * Certificates in rounds: while one signature is made, whatever is asked for waits, and gets the next one together.
 * A round's tree has the time and the facts of those who wait for it, each of whom gets a witness for what it asked.
 *
 *     asked ─► waits ─► round: tree ─► signature (thread) ─► a witness each
 *                ▲                          │
 *                └── whoever comes meanwhile┘
 *
 * Main thread, but for the signature: 5 to 10 µs for each that waits.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { CborWriter } from './cbor-writer.ts';
import type { CertificateSigner } from './certificate-signer.ts';
import { type Fact, HashTree, type Path, separated } from './hash-tree.ts';
import { leb128 } from './representation-hash.ts';

/** Certificates of one round: more would hold the main thread for longer than 5 ms. */
const ROUND_MAX = 256;
/** Certificates that may wait, each with some kilobytes. */
const WAITING_MAX = 10_000;
const NANOSECONDS_PER_MS = 1_000_000n;
const STATE_ROOT = separated('ic-state-root');
const TIME: Path = [Buffer.from('time')];

interface Due {
  readonly facts: readonly Fact[];
  readonly paths: readonly Path[];
  readonly resolve: (certificate: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

export class CertificateRounds {
  readonly #signer: Pick<CertificateSigner, 'sign'>;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #waiting: Due[] = [];
  #isRunning = false;

  constructor(signer: Pick<CertificateSigner, 'sign'>, clock: Pick<Clock, 'nowMs'>) {
    this.#signer = signer;
    this.#clock = clock;
  }

  /**
   * Resolves with a certificate, CBOR, that has the time and the answers for these paths: the facts at and below them,
   * or proofs of absence. Rejects with ServerError `unavailable`.
   */
  certify(facts: readonly Fact[], paths: readonly Path[]): Promise<Uint8Array> {
    if (this.#waiting.length >= WAITING_MAX) {
      const text = `${WAITING_MAX} certificates are due already; try again later`;
      return Promise.reject(new ServerError('unavailable', 'certificates-busy', text));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ facts, paths, resolve, reject });
      if (this.#isRunning) return;
      this.#isRunning = true;
      // Waits for the end of the turn: all that is asked for in it shares the round.
      setImmediate(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const due = this.#waiting.splice(0, ROUND_MAX);
      try {
        await this.#round(due);
      } catch (error) {
        for (const { reject } of due) reject(error);
      }
    }
    this.#isRunning = false;
  }

  async #round(due: readonly Due[]): Promise<void> {
    const nanoseconds = BigInt(Math.floor(this.#clock.nowMs())) * NANOSECONDS_PER_MS;
    const facts: Fact[] = [{ path: TIME, value: leb128(nanoseconds) }];
    for (const { facts: own } of due) for (const fact of own) facts.push(fact);
    const tree = new HashTree(facts);
    const signature = await this.#signer.sign(Buffer.concat([STATE_ROOT, tree.rootHash]));
    for (const { paths, resolve, reject } of due) {
      try {
        resolve(certificateOf(tree, paths, signature));
      } catch (error) {
        reject(error);
      }
    }
  }
}

function certificateOf(tree: HashTree, paths: readonly Path[], signature: Uint8Array): Uint8Array {
  const out = new CborWriter().selfDescribed().map(2).text('tree');
  tree.writeWitness(out, [TIME, ...paths]);
  return out.text('signature').bytes(signature).done();
}
