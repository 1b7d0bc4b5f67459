import { useState } from 'preact/hooks';
import { type Point, runsOf, WINDOW_MS } from './samples.ts';

/** Smallest time span of a chart, so that something is visible soon. */
const YOUNG_WINDOW_MS = 30_000;
const WIDTH = 240;
const HEIGHT = 48;
/** Room for the line's own width. */
const MARGIN = 2;

interface Scale {
  readonly x: (point: Point) => number;
  readonly y: (point: Point) => number;
}

/** Returns the scale for the last five minutes; the newest point is at the right edge. */
function scaleOf(points: readonly Point[], isFromZero: boolean): Scale {
  const lastMs = points.at(-1)?.atMs ?? 0;
  const firstMs = points[0]?.atMs ?? 0;
  const spanMs = Math.min(WINDOW_MS, Math.max(lastMs - firstMs, YOUNG_WINDOW_MS));
  const values = points.map(({ value }) => value);
  const most = Math.max(...values);
  // A chart from zero gets some space above, or a constant would be a bar of full height.
  const max = isFromZero ? most * 1.25 : most;
  const min = isFromZero ? 0 : Math.min(...values);
  const height = HEIGHT - 2 * MARGIN;
  return {
    x: ({ atMs }) => WIDTH - ((lastMs - atMs) / spanMs) * WIDTH,
    // A constant is drawn at the bottom if it is zero, otherwise in the middle.
    y: ({ value }) =>
      HEIGHT - MARGIN - (max > min ? ((value - min) / (max - min)) * height : isFromZero && max === 0 ? 0 : height / 2),
  };
}

/** The line alone, for lists. */
export function Line({
  points,
  isFromZero,
  label,
}: {
  readonly points: readonly Point[];
  readonly isFromZero: boolean;
  readonly label: string;
}) {
  const { x, y } = scaleOf(points, isFromZero);
  const at = (point: Point): string => `${x(point).toFixed(1)},${y(point).toFixed(1)}`;
  const strokes: string[] = [];
  const areas: string[] = [];
  for (const run of runsOf(points)) {
    const [first, last] = [run[0], run.at(-1)];
    if (first === undefined || last === undefined || run.length === 1) continue;
    const line = run.map(at).join('L');
    strokes.push(`M${line}`);
    areas.push(`M${x(first).toFixed(1)},${HEIGHT}L${line}L${x(last).toFixed(1)},${HEIGHT}Z`);
  }
  return (
    <svg class="line" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {strokes.length > 0 && (
        <>
          <path class="area" d={areas.join('')} />
          <path class="stroke" d={strokes.join('')} />
        </>
      )}
    </svg>
  );
}

/** A chart with its title, the newest value, and under the pointer the value of that moment. */
export function Chart({
  title,
  points,
  isFromZero,
  textOf,
  tone = 'info',
  now,
}: {
  readonly title: string;
  readonly points: readonly Point[];
  readonly isFromZero: boolean;
  readonly textOf: (value: number) => string;
  readonly tone?: 'info' | 'bad';
  /** Text shown instead of the newest value. */
  readonly now?: string;
}) {
  const [looked, setLooked] = useState<number | undefined>(undefined);
  const { x } = scaleOf(points, isFromZero);
  const lookedAt = looked === undefined ? undefined : nearest(points, looked * WIDTH, x);
  const last = points.at(-1);
  const value =
    lookedAt === undefined ? (now ?? (last === undefined ? '–' : textOf(last.value))) : textOf(lookedAt.value);
  const ago =
    lookedAt === undefined || last === undefined ? '' : `${Math.round((last.atMs - lookedAt.atMs) / 1000)} s ago`;
  return (
    <figure
      class={`chart ${tone}`}
      onPointerMove={(event) => {
        const { left, width } = event.currentTarget.getBoundingClientRect();
        setLooked((event.clientX - left) / width);
      }}
      onPointerLeave={() => setLooked(undefined)}
    >
      <figcaption>
        <span class="name">{title}</span>
        <span class="ago">{ago}</span>
        <span class="value">{value}</span>
      </figcaption>
      <Line points={points} isFromZero={isFromZero} label={`${title} over the last minutes, now ${value}`} />
    </figure>
  );
}

function nearest(points: readonly Point[], at: number, x: (point: Point) => number): Point | undefined {
  let best: Point | undefined;
  for (const point of points) if (best === undefined || Math.abs(x(point) - at) < Math.abs(x(best) - at)) best = point;
  return best;
}
