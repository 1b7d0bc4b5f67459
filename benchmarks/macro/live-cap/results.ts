/** Figures of loads: medians over the rounds as text, and all rounds as JSON and CSV. */
import { median } from '../quantile.ts';

/** One load of one server. */
export interface Sample {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly requests: number;
  readonly seconds: number;
  /** Number of actors put to sleep meanwhile, by the server's own numbers. */
  readonly evictions: number;
  /** Number of actors woken meanwhile. */
  readonly wakes: number;
}

/** Loads of one kind, one a round. */
export interface Row {
  /** `ours`, or the plugin beside it; `running` for a server that was not started here. */
  readonly server: string;
  readonly hosted: number;
  readonly live: number;
  readonly traffic: string;
  readonly samples: readonly Sample[];
}

interface Middle {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly wakesPerMessage: number;
  readonly evictionsPerSecond: number;
  readonly wakesPerSecond: number;
}

/** Returns the medians over the rounds. */
export function middleOf({ samples }: Row): Middle {
  const middle = (pick: (sample: Sample) => number): number => median(samples.map(pick));
  return {
    requestsPerSecond: middle((sample) => sample.requestsPerSecond),
    p50Ms: middle((sample) => sample.p50Ms),
    p99Ms: middle((sample) => sample.p99Ms),
    wakesPerMessage: middle((sample) => sample.wakes / sample.requests),
    evictionsPerSecond: middle((sample) => sample.evictions / sample.seconds),
    wakesPerSecond: middle((sample) => sample.wakes / sample.seconds),
  };
}

/**
 * Returns the lines of a table. `slower`: against the fewest actors with the same traffic on the same server, round by
 * round.
 */
export function tableOf(rows: readonly Row[]): readonly string[] {
  const isOneServer = new Set(rows.map(({ server }) => server)).size === 1;
  const labels = rows.map(
    (row) => `${row.hosted} : ${row.live}, ${row.traffic}${isOneServer ? '' : `, ${row.server}`}`,
  );
  const width = Math.max(28, ...labels.map((label) => label.length + 2));
  const line = (name: string, columns: readonly string[]): string =>
    name.padEnd(width) + columns.map((column) => column.padStart(11)).join('');
  return [
    line('hosted : live, traffic', ['req/s', 'slower', 'p50 ms', 'p99 ms', 'woken', 'evictions']),
    ...rows.map((row, at) => {
      const middle = middleOf(row);
      return line(labels[at] ?? '', [
        middle.requestsPerSecond.toFixed(0),
        `${slowerOf(row, rows).toFixed(2)} ×`,
        middle.p50Ms.toFixed(2),
        middle.p99Ms.toFixed(2),
        `${(middle.wakesPerMessage * 100).toFixed(1)} %`,
        median(row.samples.map(({ evictions }) => evictions)).toFixed(0),
      ]);
    }),
  ];
}

function slowerOf(row: Row, rows: readonly Row[]): number {
  const first = rows.find(({ server, traffic }) => server === row.server && traffic === row.traffic)?.samples ?? [];
  return median(
    row.samples.map(
      ({ requestsPerSecond }, round) => (first[round]?.requestsPerSecond ?? Number.NaN) / requestsPerSecond,
    ),
  );
}

/** Returns lines that compare a plugin with the server's own part, round by round. */
export function comparisonOf(rows: readonly Row[]): readonly string[] {
  return rows.flatMap((row) => {
    const ours = rows.find(
      (other) => other.server === 'ours' && other.hosted === row.hosted && other.traffic === row.traffic,
    );
    if (ours === undefined || ours === row) return [];
    const ratios = row.samples.map(
      ({ requestsPerSecond }, round) => requestsPerSecond / (ours.samples[round]?.requestsPerSecond ?? Number.NaN),
    );
    return [
      `${row.hosted} : ${row.live}, ${row.traffic}: ${row.server} has ${median(ratios).toFixed(2)} × our throughput`,
    ];
  });
}

/** Returns the content of `--json FILE`. */
export function jsonOf(about: Readonly<Record<string, unknown>>, rows: readonly Row[]): string {
  return `${JSON.stringify({ ...about, rows: rows.map((row) => ({ ...row, median: middleOf(row) })) }, null, 2)}\n`;
}

const COLUMNS = [
  'server',
  'hosted',
  'live',
  'traffic',
  'round',
  'requests',
  'seconds',
  'requests_per_second',
  'p50_ms',
];
const MORE_COLUMNS = ['p99_ms', 'wakes', 'evictions'];

/** Returns one line a load, for spreadsheets (RFC 4180). */
export function csvOf(rows: readonly Row[]): string {
  const lines = rows.flatMap(({ server, hosted, live, traffic, samples }) =>
    samples.map((sample, round) => [
      server,
      hosted,
      live,
      traffic,
      round + 1,
      sample.requests,
      sample.seconds,
      sample.requestsPerSecond,
      sample.p50Ms,
      sample.p99Ms,
      sample.wakes,
      sample.evictions,
    ]),
  );
  return [[...COLUMNS, ...MORE_COLUMNS], ...lines].map((cells) => `${cells.map(cellOf).join(',')}\r\n`).join('');
}

function cellOf(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
