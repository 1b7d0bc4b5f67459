/**
 * Panels of lines over one common scale, as an SVG that is readable on light and dark pages. The scale below is
 * logarithmic: ratios of 1, 10 and 100 lie equally far apart.
 */
import { escaped, round, STYLE } from './chart.ts';

const WIDTH = 760;
const LEFT = 84;
const RIGHT = 190;
const PLOT = WIDTH - LEFT - RIGHT;
const PANEL = 150;
const GAP = 62;
const TOP = 84;
const COLOURS = 6;

export interface Line {
  readonly name: string;
  /** Lines of the same series have the same colour in all panels. */
  readonly series: number;
  readonly isDashed?: boolean;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

interface LinePanel {
  readonly heading: string;
  readonly lines: readonly Line[];
  /** Default: linear, from 0. */
  readonly scale?: 'linear' | 'logarithmic';
}

/** Draws the chart. `xLabel` names the scale below, `subtitle` gives the place and time of the figures. */
export function lineChart(title: string, subtitle: string, xLabel: string, panels: readonly LinePanel[]): string {
  const all = panels.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(({ x }) => x)));
  const ticks = [...new Set(all)].toSorted((a, b) => a - b);
  const xOf = logarithmic(ticks[0] ?? 1, ticks.at(-1) ?? 1, LEFT, LEFT + PLOT);
  const parts = panels.flatMap((panel, at) => drawn(panel, TOP + at * (PANEL + GAP), ticks, xOf));
  const height = TOP + panels.length * (PANEL + GAP) + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"
  role="img" aria-label="${escaped(title)}">
<style>${STYLE}
  .line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 5 4 }
  .s0 { stroke: #2f6fbd } .s1 { stroke: #c4501b } .s2 { stroke: #2d8a4e }
  .s3 { stroke: #8250df } .s4 { stroke: #9a6700 } .s5 { stroke: #bf3989 }
</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
<text class="text title" x="16" y="26">${escaped(title)}</text>
<text class="quiet" x="16" y="44">${escaped(subtitle)}</text>
${parts.join('\n')}
<text class="quiet" x="${LEFT + PLOT / 2}" y="${height - 12}" text-anchor="middle">${escaped(xLabel)}</text>
</svg>
`;
}

type Scale = (value: number) => number;

function drawn(
  { heading, lines, scale = 'linear' }: LinePanel,
  top: number,
  xs: readonly number[],
  xOf: Scale,
): string[] {
  const values = lines.flatMap(({ points }) => points.map(({ y }) => y)).filter((y) => Number.isFinite(y));
  const isLog = scale === 'logarithmic' && values.every((y) => y > 0);
  const steps = isLog ? decades(values) : evenSteps(Math.max(0, ...values));
  const [low = 0, high = 1] = [steps[0], steps.at(-1)];
  const bottom = top + PANEL;
  const yOf = isLog ? logarithmic(low, high, bottom, top) : (y: number) => bottom - ((y - low) / (high - low)) * PANEL;
  const parts = [`<text class="text" x="${LEFT}" y="${top - 12}" font-weight="600">${escaped(heading)}</text>`];
  for (const step of steps) {
    const y = round(yOf(step));
    parts.push(
      `<line class="grid" x1="${LEFT}" x2="${LEFT + PLOT}" y1="${y}" y2="${y}" stroke-width="0.5"/>`,
      `<text class="quiet" x="${LEFT - 8}" y="${y + 4}" text-anchor="end">${step.toLocaleString('en')}</text>`,
    );
  }
  for (const x of xs) {
    parts.push(`<text class="quiet" x="${round(xOf(x))}" y="${bottom + 16}" text-anchor="middle">${x}</text>`);
  }
  return [...parts, ...lines.flatMap((line) => lineOf(line, xOf, yOf)), ...legendOf(lines, top)];
}

function lineOf({ series, isDashed = false, points }: Line, xOf: Scale, yOf: Scale): string[] {
  const places = points
    .filter(({ y }) => Number.isFinite(y))
    .map(({ x, y }) => [round(xOf(x)), round(yOf(y))] as const);
  const look = `s${series % COLOURS}${isDashed ? ' dashed' : ''}`;
  return [
    `<polyline class="line ${look}" points="${places.map(([x, y]) => `${x},${y}`).join(' ')}"/>`,
    ...places.map(([x, y]) => `<circle class="line s${series % COLOURS}" cx="${x}" cy="${y}" r="2.5"/>`),
  ];
}

/** Draws names beside the panel, in order of the lines: names on the lines would hide each other. */
function legendOf(lines: readonly Line[], top: number): string[] {
  const x = LEFT + PLOT + 18;
  return lines.flatMap(({ name, series, isDashed = false }, at) => {
    const y = top + 6 + at * 20;
    return [
      `<line class="line s${series % COLOURS}${isDashed ? ' dashed' : ''}" x1="${x}" x2="${x + 26}" y1="${y}" y2="${y}"/>`,
      `<text class="text" x="${x + 34}" y="${y + 4}">${escaped(name)}</text>`,
    ];
  });
}

/** Maps `low` and `high` to two places; a single value lies in the middle. */
function logarithmic(low: number, high: number, from: number, to: number): Scale {
  const width = Math.log(high) - Math.log(low);
  return (value) => (width === 0 ? (from + to) / 2 : from + ((Math.log(value) - Math.log(low)) / width) * (to - from));
}

function decades(values: readonly number[]): readonly number[] {
  const first = Math.floor(Math.log10(Math.min(...values)));
  const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(...values))));
  return Array.from({ length: last - first + 1 }, (_, at) => Number((10 ** (first + at)).toPrecision(1)));
}

/** Returns 0 and four or five steps of 1, 2, 2.5 or 5 times a power of ten, up to at least the greatest value. */
function evenSteps(greatest: number): readonly number[] {
  if (greatest <= 0) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(greatest / 4));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size * 5 >= greatest) ?? 10 * power;
  return Array.from({ length: Math.ceil(greatest / step) + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}
