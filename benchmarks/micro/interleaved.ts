/**
 * CPU time of several variants of the same work: interleaved round by round in one process, the minimum of the rounds.
 * The machine's noise then affects all variants alike, and the ratio of the minima is repeatable.
 */
type Variants = Readonly<Record<string, () => void>>;

interface InterleavedOptions {
  readonly warmupRounds: number;
  readonly rounds: number;
  /** Number of calls in one measurement. */
  readonly callsPerRound: number;
}

/** Returns milliseconds of CPU time a call, by variant. */
export function interleaved(variants: Variants, options: InterleavedOptions): Record<string, number> {
  const best: Record<string, number> = {};
  for (let k = 0; k < options.warmupRounds; k++) for (const run of Object.values(variants)) run();
  for (let round = 0; round < options.rounds; round++) {
    for (const [name, run] of Object.entries(variants)) {
      const before = process.cpuUsage();
      for (let k = 0; k < options.callsPerRound; k++) run();
      const { user, system } = process.cpuUsage(before);
      const milliseconds = (user + system) / 1000 / options.callsPerRound;
      best[name] = Math.min(best[name] ?? Infinity, milliseconds);
    }
  }
  return best;
}

function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** Ratios of the other variants to the first one, by variant. */
export interface Ratios {
  readonly mean: number;
  readonly worst: number;
}

/** Prints a table with one line a row: name, milliseconds of the first variant, ratios of the others to it. */
export function printRatios(rows: Readonly<Record<string, Record<string, number>>>): Readonly<Record<string, Ratios>> {
  const ratios: Record<string, number[]> = {};
  for (const [name, times] of Object.entries(rows)) {
    const [first, ...others] = Object.entries(times);
    if (first === undefined) continue;
    const cells = others.map(([variant, time]) => {
      (ratios[variant] ??= []).push(time / first[1]);
      return `${variant} ${(time / first[1]).toFixed(2)}`;
    });
    console.log(`${name.padEnd(16)} ${first[0]} ${first[1].toFixed(2).padStart(7)} ms   ${cells.join('   ')}`);
  }
  const means = Object.entries(ratios).map(([variant, values]) => `${variant} ${geometricMean(values).toFixed(3)}`);
  console.log(`${'geometric mean'.padEnd(29)}    ${means.join('   ')}`);
  return Object.fromEntries(
    Object.entries(ratios).map(([variant, values]) => [
      variant,
      { mean: geometricMean(values), worst: Math.max(...values) },
    ]),
  );
}
