import { Histogram, type HistogramFigures, SECONDS_BOUNDS } from '../../figures/index.ts';

/** Results of outcalls; the words are labels of a metric. */
const OUTCALL_ENDS = ['answered', 'refused', 'busy', 'failed', 'timeout', 'too_large', 'transform'] as const;
export type OutcallEnd = (typeof OUTCALL_ENDS)[number];

/** Figures for operators. */
export interface OutcallFigures {
  readonly ends: Readonly<Record<OutcallEnd, number>>;
  /** Outcalls that were sent and have not ended. */
  readonly active: number;
  readonly waiting: number;
  /** Bytes of headers and bodies, as their limits count them. */
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Durations from the call to its answer, transform included. */
  readonly seconds: HistogramFigures;
}

export class OutcallTally {
  readonly #ends: Record<OutcallEnd, number> = {
    answered: 0,
    refused: 0,
    busy: 0,
    failed: 0,
    timeout: 0,
    too_large: 0,
    transform: 0,
  };
  readonly #seconds = new Histogram(SECONDS_BOUNDS);
  requestBytes = 0;
  responseBytes = 0;

  ended(end: OutcallEnd, ms: number): void {
    this.#ends[end]++;
    this.#seconds.observe(ms / 1000);
  }

  figures({ active, waiting }: { readonly active: number; readonly waiting: number }): OutcallFigures {
    const { requestBytes, responseBytes } = this;
    return { ends: { ...this.#ends }, active, waiting, requestBytes, responseBytes, seconds: this.#seconds.figures };
  }
}
