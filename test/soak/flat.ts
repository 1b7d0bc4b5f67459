/** Judges whether something that was measured again and again has stayed flat. */

export interface Point {
  /** Seconds since the begin. */
  readonly at: number;
  readonly value: number;
}

export interface Series {
  readonly name: string;
  readonly unit: string;
  readonly points: readonly Point[];
  /** Growth that is always allowed, as a share of the mean. */
  readonly mayGrow: number;
  /** Growth that is allowed besides, such as that of caches that a short run still fills. */
  readonly mayGrowBy?: number;
}

interface Trend {
  readonly mean: number;
  /** Growth from the begin of the second half to its end, along the line of least squares. */
  readonly growth: number;
  /** Standard deviation from that line. */
  readonly noise: number;
}

/** Growth of so many times the noise is told from noise. */
const NOISE_FACTOR = 2;

/** Returns the trend of the second half: what a process fills once, such as caches, it fills in the first. */
export function trendOf(points: readonly Point[]): Trend {
  const [first = 0, last = 0] = [points[0]?.at, points.at(-1)?.at];
  const half = points.filter(({ at }) => at >= (first + last) / 2);
  const meanOf = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  const [meanAt, mean] = [meanOf(half.map(({ at }) => at)), meanOf(half.map(({ value }) => value))];
  const spread = meanOf(half.map(({ at }) => (at - meanAt) ** 2));
  const slope = spread === 0 ? 0 : meanOf(half.map(({ at, value }) => (at - meanAt) * (value - mean))) / spread;
  const noise = Math.sqrt(meanOf(half.map(({ at, value }) => (value - mean - slope * (at - meanAt)) ** 2)));
  return { mean, growth: (slope * (last - first)) / 2, noise };
}

/** Returns the reason why a series is not flat, or undefined. */
export function complaintOf({ name, unit, points, mayGrow, mayGrowBy = 0 }: Series): string | undefined {
  const { mean, growth, noise } = trendOf(points);
  if (!Number.isFinite(growth)) return `${name}: there are too few figures`;
  const allowed = mayGrow * mean + mayGrowBy;
  if (growth <= allowed || growth <= NOISE_FACTOR * noise) return undefined;
  const text = (value: number): string => `${Number(value.toPrecision(3))} ${unit}`;
  return (
    `${name} grows: by ${text(growth)} in the second half, of ${text(mean)} in the mean; ` +
    `the noise is ${text(noise)}, and ${text(allowed)} are allowed`
  );
}
