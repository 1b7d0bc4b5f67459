/** The time that a measurement may take, divided among its parts. */
export class Budget {
  readonly #endMs: number;
  /** Weights of the parts that are still to come, by name. */
  readonly #weights: Map<string, number>;

  constructor(totalMs: number, weights: Readonly<Record<string, number>>) {
    this.#endMs = performance.now() + totalMs;
    this.#weights = new Map(Object.entries(weights));
  }

  /** Milliseconds until the end. */
  get leftMs(): number {
    return Math.max(0, this.#endMs - performance.now());
  }

  /**
   * Begins a part: returns the milliseconds that it may take, its share of what is left. What a part does not use is
   * for those behind it.
   */
  begin(part: string, mostMs: number): number {
    const all = Array.from(this.#weights.values()).reduce((sum, weight) => sum + weight, 0);
    const share = (this.#weights.get(part) ?? 0) / all;
    this.#weights.delete(part);
    return Math.min(mostMs, this.leftMs * share);
  }
}
