/** Axes of the charts: bounds that people can read, and that make no cliff of a small change. */
import { type Point, WINDOW_MS } from './samples.ts';

/** Time spans of a chart, so that its axis has a round number; the first one shows something soon. */
const SPANS_MS = [30_000, 60_000, 120_000, 180_000, 240_000, WINDOW_MS] as const;
/** Round numbers up to ten. */
const ROUND = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10] as const;
/** Smallest height of a chart that does not begin at zero, as a share of its largest value: less is not a change. */
const SHARE_MIN = 0.1;

export interface ChartScale {
  /** Time of the left edge, milliseconds before the newest point. */
  readonly spanMs: number;
  readonly lastMs: number;
  readonly bottom: number;
  /** More than `bottom`. */
  readonly top: number;
}

export interface ScaleOptions {
  readonly isFromZero: boolean;
  /** Step between the units of the text, so that bounds are round in them. */
  readonly base: 1000 | 1024;
}

/** Returns bounds that hold all points. */
export function chartScale(points: readonly Point[], { isFromZero, base }: ScaleOptions): ChartScale {
  const lastMs = points.at(-1)?.atMs ?? 0;
  const elapsedMs = lastMs - (points[0]?.atMs ?? 0);
  const spanMs = SPANS_MS.find((span) => elapsedMs <= span) ?? WINDOW_MS;
  let least = Infinity;
  let most = -Infinity;
  for (const { value } of points) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (points.length === 0) [least, most] = [0, 0];
  const bounds = isFromZero ? [0, roundAbove(most, base)] : boundsAround(least, most);
  const [bottom = 0, top = 1] = bounds;
  return { spanMs, lastMs, bottom, top: top > bottom ? top : bottom + 1 };
}

/** Returns the next round number above, in the unit that the text will have; 1 for nothing. */
function roundAbove(value: number, base: number): number {
  if (!(value > 0)) return 1;
  const unit = value < 1 ? 1 : base ** Math.floor(Math.log(value) / Math.log(base));
  const digit = 10 ** Math.floor(Math.log10(value / unit));
  const round = ROUND.find((each) => each * digit * unit >= value);
  // Between 1000 and 1024 of a unit the next unit is round.
  return value > 1000 * unit ? base * unit : (round ?? 10) * digit * unit;
}

/** Returns round bounds with at least a tenth of the largest value between them, and none below zero. */
function boundsAround(least: number, most: number): readonly [number, number] {
  const missing = Math.max(0, most * SHARE_MIN - (most - least));
  const [low, high] = [Math.max(0, least - missing / 2), most + missing / 2];
  const step = 10 ** Math.floor(Math.log10(Math.max(high - low, Number.MIN_VALUE))) / 2;
  const bounds = [Math.floor(low / step) * step, Math.ceil(high / step) * step] as const;
  return Number.isFinite(bounds[0]) && Number.isFinite(bounds[1]) ? bounds : [low, high];
}
