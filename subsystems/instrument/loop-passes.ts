/** The passes over a loop that counts, which is written up to three times; loop-ranges.ts shows the result. */
import { OP } from '../wasm/index.ts';
import type { BodyOutput, OutputMark } from './body-output.ts';
import type { CoverageMark, StoreCoverage } from './journal/store-coverage.ts';

/** The output of the first pass is discarded. */
const PASS = {
  /** Finds out if there are stores whose range is known. If not, the loop is finished. */
  LOOK: 0,
  /** Writes the loop with ranges touched before it. */
  RANGES: 1,
  /** Writes the same loop with tests inside, for ranges that may wrap or are too long. */
  TESTS: 2,
} as const;
/** Number of labels added around the loop, by pass. */
const PASS_LABELS = [0, 2, 1] as const;

/** Place of the walk at which a loop begins. */
interface LoopPlace {
  /** Nesting inside of the loop. */
  readonly nesting: number;
  readonly at: number;
  readonly block: number;
  readonly charge: number;
}

/** State to which the walk returns, to write a loop again. */
interface LoopPass {
  kind: (typeof PASS)[keyof typeof PASS];
  ranges: number;
  readonly place: LoopPlace;
  readonly output: OutputMark;
  readonly coverage: CoverageMark;
}

export class LoopPasses {
  readonly #output: BodyOutput;
  readonly #coverage: StoreCoverage;
  /** The pass over the loop that is being written. Such loops do not nest. */
  #pass: LoopPass | undefined;

  constructor(output: BodyOutput, coverage: StoreCoverage) {
    this.#output = output;
    this.#coverage = coverage;
  }

  reset(): void {
    this.#pass = undefined;
  }

  /** The loop that is being written; undefined outside of any. */
  get loop(): LoopPlace | undefined {
    return this.#pass?.place;
  }

  /** Number of labels added around the loop. */
  get addedLabels(): number {
    return PASS_LABELS[this.#pass?.kind ?? PASS.LOOK];
  }

  /** True if ranges of stores may be touched before the loop. */
  get hasRanges(): boolean {
    return this.#pass !== undefined && this.#pass.kind !== PASS.TESTS;
  }

  foundRange(): void {
    if (this.#pass !== undefined) this.#pass.ranges++;
  }

  /** Begins the first pass. */
  begin(place: LoopPlace): void {
    this.#pass = {
      kind: PASS.LOOK,
      ranges: 0,
      place,
      output: this.#output.mark(),
      coverage: this.#coverage.mark(),
    };
  }

  /** Opens the blocks around both loops, if this pass writes the first; `blockType` is in `source`. */
  openBlocks(source: Uint8Array, from: number, to: number): void {
    if (this.#pass?.kind !== PASS.RANGES) return;
    const out = this.#output.bytes;
    out.byte(OP.BLOCK);
    out.copy(source, from, to);
    out.put([OP.BLOCK, 0x40]);
  }

  /** Ends a pass over the loop. Returns true if the loop is complete; otherwise the walk goes back to its place. */
  end(): boolean {
    const pass = this.#pass;
    if (pass === undefined) return true;
    const out = this.#output.bytes;
    if (pass.kind === PASS.TESTS) out.byte(OP.END);
    if (pass.kind === PASS.TESTS || pass.ranges === 0) {
      this.#pass = undefined;
      return true;
    }
    if (pass.kind === PASS.LOOK) {
      this.#output.goBack(pass.output);
      pass.kind = PASS.RANGES;
    } else {
      out.put([OP.BR, 1, OP.END]);
      pass.kind = PASS.TESTS;
    }
    this.#coverage.goBack(pass.coverage);
    return false;
  }
}
