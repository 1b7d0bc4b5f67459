/** Small repeatable random numbers for tests: the same seed gives the same numbers everywhere. */
export interface Seeded {
  /** Returns an integer in [0, bound). */
  below(bound: number): number;
  /** Returns one of the items. */
  pick<T>(items: readonly [T, ...T[]]): T;
  /** Returns true once in `n` times. */
  oneIn(n: number): boolean;
}

export function seeded(seed: number): Seeded {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  const next = (): number => {
    // xorshift32, scrambled by a multiplication
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return Math.imul(state, 0x9e3779b1) >>> 0;
  };
  return {
    below: (bound) => next() % bound,
    pick: (items) => items[next() % items.length] ?? items[0],
    oneIn: (n) => next() % n === 0,
  };
}
