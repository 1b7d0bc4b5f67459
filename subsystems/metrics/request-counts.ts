import { Histogram, SECONDS_BOUNDS } from '../figures/index.ts';
import type { RequestTally } from './index.ts';

/** Classes of status codes, as in the label `code`. */
export const CODE_CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const;

/** Counts of one class of endpoints. */
export class RequestCounts implements RequestTally {
  value = 0;
  readonly #answers = new Float64Array(CODE_CLASSES.length);
  readonly seconds = new Histogram(SECONDS_BOUNDS);

  answered(status: number, ms: number): void {
    this.streamed(status);
    this.seconds.observe(ms / 1000);
  }

  streamed(status: number): void {
    // A website may answer with any status from 200 to 999.
    const at = Math.min(Math.max(0, Math.floor(status / 100) - 2), CODE_CLASSES.length - 1);
    this.#answers[at] = (this.#answers[at] ?? 0) + 1;
  }

  /** Returns the answers by class of status codes, in the order of CODE_CLASSES. */
  get answers(): readonly number[] {
    return [...this.#answers];
  }
}
