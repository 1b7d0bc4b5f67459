/** A page with a chart for each series, which needs nothing else. */
import { escaped, round, STYLE } from '../../benchmarks/chart.ts';
import { complaintOf, type Series, trendOf } from './flat.ts';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 190, 80, 20, 34, 28];

/** `marks`: moments of restarts, in seconds. */
export function pageOf(title: string, series: readonly Series[], marks: readonly number[]): string {
  const charts = series.map((each) => chartOf(each, marks));
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${escaped(title)}</title>
<style>
  :root { color-scheme: light dark } body { font: 15px system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em }
  svg { width: 100%; height: auto } .bad { color: #c4501b }
</style>
<h1>${escaped(title)}</h1>
<p>The second half is judged: the line of least squares through it is drawn. Upright marks are restarts.</p>
${charts.join('\n')}
</html>
`;
}

function chartOf(series: Series, marks: readonly number[]): string {
  const { name, unit, points } = series;
  const complaint = complaintOf(series);
  const { mean, growth, noise } = trendOf(points);
  const [first = 0, last = 1] = [points[0]?.at, points.at(-1)?.at];
  const top = Math.max(...points.map(({ value }) => value), 1e-9) * 1.1;
  const x = (at: number): number =>
    round(LEFT + ((at - first) / Math.max(last - first, 1e-9)) * (WIDTH - LEFT - RIGHT));
  const y = (value: number): number => round(HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM));
  const middle = (first + last) / 2;
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => share * top);
  const parts = [
    ...steps.flatMap((step) => [
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(step)}" y2="${y(step)}"/>`,
      `<text class="quiet" x="${LEFT - 8}" y="${y(step) + 4}" text-anchor="end">${Number(step.toPrecision(3))}</text>`,
    ]),
    ...marks.map(
      (at) => `<line class="grid" x1="${x(at)}" x2="${x(at)}" y1="${TOP}" y2="${HEIGHT - BOTTOM}" stroke-width="2"/>`,
    ),
    `<polyline class="curve" points="${points.map(({ at, value }) => `${x(at)},${y(value)}`).join(' ')}"/>`,
    `<line class="trend" x1="${x(middle)}" x2="${x(last)}" y1="${y(mean - growth / 2)}" y2="${y(mean + growth / 2)}"/>`,
    `<text class="quiet" x="${LEFT}" y="${HEIGHT - 8}">${Math.round(first)} s</text>`,
    `<text class="quiet" x="${WIDTH - RIGHT}" y="${HEIGHT - 8}" text-anchor="end">${Math.round(last)} s</text>`,
    `<text class="text title" x="${LEFT}" y="20">${escaped(`${name}, ${unit}`)}</text>`,
  ];
  const verdict =
    complaint ?? `flat: ${signed(growth)} ${unit} in the second half, noise ${Number(noise.toPrecision(2))}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(name)}">
<style>${STYLE}
  .curve { fill: none; stroke: #2f6fbd; stroke-width: 1.5 } .trend { stroke: #c4501b; stroke-width: 2 }
</style>
<rect class="page" width="${WIDTH}" height="${HEIGHT}" rx="6"/>
${parts.join('\n')}
</svg>
<p${complaint === undefined ? '' : ' class="bad"'}>${escaped(verdict)}</p>`;
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${Number(value.toPrecision(2))}`;
}
