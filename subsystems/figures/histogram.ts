/** Counts of a histogram so far; plain data, so that it can cross threads. */
export interface HistogramFigures {
  /** Upper bounds of the buckets, ascending; a value equal to a bound belongs to that bucket. */
  readonly bounds: readonly number[];
  /** Number of values in each bucket, and above the last bound. */
  readonly counts: readonly number[];
  /** Sum of all values. */
  readonly sum: number;
}

/** Bounds in seconds, from 0.1 ms, the time of a disk's cache, to 10 s, which indicate a problem. */
export const SECONDS_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10,
];

/** Counts values by their size. Counting allocates nothing. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  get figures(): HistogramFigures {
    return { bounds: this.#bounds, counts: [...this.#counts], sum: this.#sum };
  }
}
