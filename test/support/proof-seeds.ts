/**
 * Number of random cases of a proof: few in `npm test`, thousands in `npm run prove`, which sets `PROOF_SEEDS` and
 * reports the proof's progress. Case `seed` is the same in both.
 *
 *     const seeds = new ProofSeeds(160);
 *     for (const seed of seeds) check(seed);
 *     seeds.saw({ completed, trapped });
 */
import { createHash } from 'node:crypto';

const LONG = process.env['PROOF_SEEDS'];
const LONG_MIN = 200;
const PROGRESS_EVERY_MS = 10_000;

export class ProofSeeds implements Iterable<number> {
  readonly count: number;
  /** Seeds of the short form that are not 1 … count. */
  readonly #chosen: readonly number[] | undefined;

  /**
   * `short` is the number of cases in the short form, or their seeds. `share` is the part of the cases for a test that
   * is one of several in a proof.
   */
  constructor(short: number | readonly number[], share = 1) {
    const shortCount = typeof short === 'number' ? short : short.length;
    this.#chosen = typeof short === 'number' || LONG !== undefined ? undefined : short;
    this.count = LONG === undefined ? shortCount : Math.ceil(Number(LONG) * share);
    if (!Number.isSafeInteger(this.count) || this.count < 1) throw new RangeError(`PROOF_SEEDS is ${LONG}`);
  }

  *[Symbol.iterator](): Generator<number> {
    if (this.#chosen !== undefined) {
      yield* this.#chosen;
      return;
    }
    const start = performance.now();
    let nextMs = start + PROGRESS_EVERY_MS;
    for (let seed = 1; seed <= this.count; seed++) {
      yield seed;
      if (LONG === undefined || performance.now() < nextMs) continue;
      nextMs = performance.now() + PROGRESS_EVERY_MS;
      process.stderr.write(`  ${seed} of ${this.count}, ${Math.round((performance.now() - start) / 1000)} s\n`);
    }
  }

  /** True if there are enough cases for everything possible to happen. */
  get isLong(): boolean {
    return LONG !== undefined && this.count >= LONG_MIN;
  }

  /** Prints in the long form how often each thing occurred, to show that the cases were not all alike. */
  saw(counts: Readonly<Record<string, number>>): void {
    if (LONG === undefined) return;
    const parts = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
    process.stderr.write(`  ${this.count} seeds: ${parts.join(', ')}\n`);
  }

  /** Prints in the long form a digest of each case's behaviour: a change that keeps the behaviour keeps the digest. */
  did(cases: readonly unknown[]): void {
    if (LONG !== undefined) process.stderr.write(`  digest of what they did: ${digestOf(cases)}\n`);
  }
}

/** Returns a digest of plain data. */
export function digestOf(cases: readonly unknown[]): string {
  const texts = cases.map((each) => JSON.stringify(each));
  return createHash('sha256').update(texts.join('\n')).digest('hex').slice(0, 16);
}
