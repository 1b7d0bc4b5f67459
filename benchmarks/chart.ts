/**
 * Figures as an SVG of horizontal bars, readable on light and dark pages. Ratios share a scale that begins at 0 and has
 * a line at 1, where the engine would cost nothing. Times have units of their own, so each is drawn as a share of its
 * upper goal; times without a goal are left out.
 */
import { type Figure, written } from './figures.ts';

const WIDTH = 760;
const LEFT = 330;
const RIGHT = 140;
const ROW = 22;
const BAR = 12;
const PLOT = WIDTH - LEFT - RIGHT;

/** Colours of pages, texts and bars, on light and dark pages. */
export const STYLE = `
  .page { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e } .grid { stroke: #d1d9e0 }
  .bar { fill: #2f6fbd } .over { fill: #c4501b } .reach { stroke: #1f2328 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #3d444d }
    .bar { fill: #58a6ff } .over { fill: #f0883e } .reach { stroke: #e6edf3 }
  }
  text { font: 12px system-ui, sans-serif } .title { font-size: 14px; font-weight: 600 }`;

interface Row {
  readonly name: string;
  /** Position on the panel's scale. */
  readonly at: number;
  /** Position of the goal's mark on that scale. */
  readonly reachAt: number | undefined;
  readonly label: string;
}

/** Draws the chart. `subtitle` gives the place and time of the figures. */
export function barChart(title: string, subtitle: string, figures: readonly Figure[]): string {
  const ratios = figures.filter(({ panel }) => panel === 'ratio').map(ratioRow);
  const times = figures.filter(({ panel }) => panel === 'time').flatMap(timeRow);
  const parts: string[] = [
    `<text class="text title" x="16" y="26">${escaped(title)}</text>`,
    `<text class="quiet" x="16" y="44">${escaped(subtitle)}</text>`,
  ];
  let top = 74;
  for (const { heading, rows, tick } of [
    { heading: 'Time, ratio to the same code on V8 alone', rows: ratios, tick: (at: number) => `× ${at}` },
    { heading: 'Time, share of what it may take', rows: times, tick: (at: number) => `${at * 100} %` },
  ]) {
    if (rows.length === 0) continue;
    parts.push(...drawn(heading, rows, tick, top));
    top += (rows.length + 2) * ROW + 18;
  }
  parts.push(
    `<text class="quiet" x="16" y="${top - 6}">The upright mark is the goal; bars that pass it have another colour.</text>`,
  );
  const height = top + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
<style>${STYLE}
</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
${parts.join('\n')}
</svg>
`;
}

function ratioRow({ name, value, reach }: Figure): Row {
  return { name, at: value, reachAt: reach, label: `× ${written(value)}` };
}

function timeRow({ name, value, unit, reach }: Figure): Row[] {
  if (reach === undefined) return [];
  return [{ name, at: value / reach, reachAt: 1, label: `${written(value)} ${unit} of ${reach}` }];
}

function drawn(heading: string, rows: readonly Row[], tick: (at: number) => string, top: number): string[] {
  const most = Math.max(...rows.flatMap(({ at, reachAt = 0 }) => [at, reachAt]));
  const step = most > 4 ? 1 : most > 2 ? 0.5 : 0.25;
  const end = Math.ceil(most / step) * step;
  const x = (at: number): number => round(LEFT + (at / end) * PLOT);
  const bottom = top + 10 + rows.length * ROW;
  const parts = [`<text class="text" x="16" y="${top}" font-weight="600">${escaped(heading)}</text>`];
  for (let at = 0; at <= end + step / 2; at += step) {
    const isWhole = Number.isInteger(at);
    parts.push(
      `<line class="grid" x1="${x(at)}" x2="${x(at)}" y1="${top + 8}" y2="${bottom}" stroke-width="${isWhole ? 1.5 : 0.5}"/>`,
    );
    if (isWhole || end <= 1.5)
      parts.push(`<text class="quiet" x="${x(at)}" y="${bottom + 14}" text-anchor="middle">${tick(at)}</text>`);
  }
  for (const [index, { name, at, reachAt, label }] of rows.entries()) {
    const y = top + 12 + index * ROW;
    const isOver = reachAt !== undefined && at > reachAt;
    parts.push(
      `<text class="text" x="${LEFT - 10}" y="${y + BAR - 1}" text-anchor="end">${escaped(name)}</text>`,
      `<rect class="${isOver ? 'over' : 'bar'}" x="${LEFT}" y="${y}" width="${round(x(at) - LEFT)}" height="${BAR}" rx="2"/>`,
      `<text class="text" x="${x(Math.max(at, reachAt ?? 0)) + 8}" y="${y + BAR - 1}">${escaped(label)}</text>`,
    );
    if (reachAt !== undefined)
      parts.push(
        `<line class="reach" x1="${x(reachAt)}" x2="${x(reachAt)}" y1="${y - 3}" y2="${y + BAR + 3}" stroke-width="2"/>`,
      );
  }
  return parts;
}

/** Rounds to one digit behind the point. */
export const round = (value: number): number => Math.round(value * 10) / 10;

/** Escapes a text for use between tags and in attributes. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
