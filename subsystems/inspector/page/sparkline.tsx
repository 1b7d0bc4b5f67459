import { useState } from 'preact/hooks';
import { chartScale, type ChartScale, type ScaleOptions } from './chart-scale.ts';
import { durationText } from './format.ts';
import { type Point, runsOf } from './samples.ts';

const WIDTH = 240;
const HEIGHT = 72;
/** Room for the line's own width. */
const MARGIN = 2;

/** Returns the place of a point in the picture; the newest one is at the right edge. */
function placesIn({ spanMs, lastMs, bottom, top }: ChartScale): {
  readonly x: (point: Point) => number;
  readonly y: (point: Point) => number;
} {
  const height = HEIGHT - 2 * MARGIN;
  return {
    x: ({ atMs }) => WIDTH - ((lastMs - atMs) / spanMs) * WIDTH,
    y: ({ value }) => HEIGHT - MARGIN - ((value - bottom) / (top - bottom)) * height,
  };
}

/** The line of a chart; its axes stand around it. */
function Line({
  points,
  scale,
  label,
}: {
  readonly points: readonly Point[];
  readonly scale: ChartScale;
  /** Undefined: the picture tells nothing that does not stand beside it. */
  readonly label: string | undefined;
}) {
  const { x, y } = placesIn(scale);
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
    <svg
      class="line"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role={label === undefined ? undefined : 'img'}
      aria-hidden={label === undefined}
      aria-label={label}
    >
      {strokes.length > 0 && (
        <>
          <path class="area" d={areas.join('')} />
          <path class="stroke" d={strokes.join('')} />
        </>
      )}
    </svg>
  );
}

/** The line of an actor's messages, for the list, which has their rate as text. */
export function RateLine({ points }: { readonly points: readonly Point[] }) {
  return <Line points={points} scale={chartScale(points, { isFromZero: true, base: 1000 })} label={undefined} />;
}

interface ChartProps extends Partial<ScaleOptions> {
  readonly title: string;
  readonly points: readonly Point[];
  readonly textOf: (value: number) => string;
  readonly tone?: 'info' | 'bad';
  /** Text shown instead of the newest value. */
  readonly now?: string;
}

/** A chart with axes, its title and the newest value; under the pointer, or by arrow keys, the value of a moment. */
export function Chart({ title, points, isFromZero = true, base = 1000, textOf, tone = 'info', now }: ChartProps) {
  /** Time of the point that is looked at. */
  const [lookedMs, setLooked] = useState<number | undefined>(undefined);
  const scale = chartScale(points, { isFromZero, base });
  const { x } = placesIn(scale);
  const last = points.at(-1);
  const looked = lookedMs === undefined ? undefined : nearest(points, ({ atMs }) => Math.abs(atMs - lookedMs));
  const newest = now ?? (last === undefined ? '–' : textOf(last.value));
  const value = looked === undefined ? newest : textOf(looked.value);
  const ago = looked === undefined || last === undefined ? '' : `${Math.round((last.atMs - looked.atMs) / 1000)} s ago`;
  const step = (by: number): void => {
    const at = looked === undefined ? points.length : points.indexOf(looked);
    const next = points[Math.min(points.length - 1, Math.max(0, at + by))];
    setLooked(next?.atMs);
  };
  const span = durationText(scale.spanMs);
  return (
    <figure
      class={`chart ${tone}`}
      tabIndex={0}
      aria-label={`${title}: chart, arrow keys read it`}
      onKeyDown={({ key }) => {
        if (key === 'ArrowLeft') step(-1);
        else if (key === 'ArrowRight') step(1);
      }}
      onBlur={() => setLooked(undefined)}
    >
      <figcaption>
        <span class="name">{title}</span>
        <span class="ago">{ago}</span>
        <span class="value">{value}</span>
        <span class="offscreen" role="status">
          {looked === undefined ? '' : `${value}, ${ago}`}
        </span>
      </figcaption>
      <div class="scale" aria-hidden="true">
        <span>{textOf(scale.top)}</span>
        <span>{textOf(scale.bottom)}</span>
      </div>
      <div
        class="plot"
        onPointerMove={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect();
          const at = ((event.clientX - left) / width) * WIDTH;
          setLooked(nearest(points, (point) => Math.abs(x(point) - at))?.atMs);
        }}
        onPointerLeave={() => setLooked(undefined)}
      >
        <Line
          points={points}
          scale={scale}
          label={`${title} over ${span}, from ${textOf(scale.bottom)} to ${textOf(scale.top)}, now ${newest}`}
        />
      </div>
      <div class="times" aria-hidden="true">
        <span>{span} ago</span>
        <span>now</span>
      </div>
    </figure>
  );
}

function nearest(points: readonly Point[], distanceOf: (point: Point) => number): Point | undefined {
  let best: Point | undefined;
  for (const point of points) if (best === undefined || distanceOf(point) < distanceOf(best)) best = point;
  return best;
}
