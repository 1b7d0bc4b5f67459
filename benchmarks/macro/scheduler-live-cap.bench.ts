/**
 * Measures throughput and latency when more actors are hosted than may be live, and the time to wake one.
 *
 *   node benchmarks/macro/scheduler-live-cap.bench.ts --help
 *
 * There is a server for each ratio of hosted to live actors, all with `--state` and the same `--live-cap`. They host
 * example counters (64-bit) or copies of the user's own actors (`--manifest`), or a running server is called (`--url`).
 * All are up at the same time and take messages in turn, round after round; `--plugin` puts a second server beside
 * each. Traffic picks actors uniformly, by Zipf's law (exponent 0.99: the k-th most wanted is wanted 1/k^0.99 as often
 * as the first), or mostly from a hot set. Medians over the rounds are shown; `slower` is against the first ratio with
 * the same traffic in the same round; `woken` is wakes a message, `evictions` the number of evicted actors, by the
 * server's own numbers, which also include the messages under way at the end of the load. Then waking is measured
 * (`live-cap/waking.ts`). `docs/live-cap.md` shows one run from question to picture.
 */
import { writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import type { Goal } from '../figures.ts';
import { refuse } from '../options.ts';
import { type Line, lineChart } from '../line-chart.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { NO_ARGUMENTS } from './client.ts';
import { type Host, type StartedHost, startHost, targetsOf } from './live-cap/hosting.ts';
import { liveCapOptions } from './live-cap/options.ts';
import { comparisonOf, csvOf, jsonOf, middleOf, type Row, type Sample, tableOf } from './live-cap/results.ts';
import { messagesOf, UNIFORM } from './live-cap/traffic.ts';
import { measureWaking, WAKE_RATIO } from './live-cap/waking.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { metricsOf } from './svc-process.ts';

const options = liveCapOptions();
const { liveCap, connections, rounds, seconds, token, kinds, thinkMs } = options;

/** Number of live actors for which the goals of the example counters, in messages a second, hold. */
const LIVE_OF_GOALS = 100;
const GOALS: readonly ({ readonly ratio: number; readonly traffic: string } & Omit<Goal, 'is'>)[] = [
  { ratio: 10, traffic: 'uniform', reach: 8_000, aim: 12_000 },
  { ratio: 100, traffic: 'uniform', reach: 5_000, aim: 8_000 },
  { ratio: 100, traffic: 'Zipf', reach: 8_000, aim: 12_000 },
];
const WAKE_GOALS = {
  median: { is: 'at most', reach: 0.3, aim: 0.15 },
  p99: { is: 'at most', reach: 2, aim: 1 },
} as const;
/** Goals are for durable `inc`s of the example counters, one after the other, and for nothing else. */
const isOurQuestion =
  options.manifest === undefined &&
  options.url === undefined &&
  options.plugin === undefined &&
  thinkMs === 0 &&
  kinds.every(({ method, share }) => share === (method === 'inc' ? 1 : 0));

interface Case extends Omit<Row, 'samples'> {
  readonly host: Host;
  readonly request: Request;
  readonly samples: Sample[];
}

await using scratch = await scratchFolder(options.dir);
await printSitting(loadGenerator, `${connections} connections, ${rounds} × ${seconds} s`);
const rows = options.url === undefined ? await startedRows() : await measured(await runningCases(options.url));
report(rows);
if (options.url === undefined && options.wakes > 0) await wake();

async function startedRows(): Promise<readonly Row[]> {
  await using servers = new AsyncDisposableStack();
  const cases: Case[] = [];
  for (const ratio of options.ratios) {
    const hosted = Math.round(ratio * liveCap);
    for (const server of ['ours', ...(options.plugin === undefined ? [] : [options.plugin])]) {
      const name = `ratio-${ratio}-${server === 'ours' ? 'ours' : 'plugin'}`;
      const host = servers.use(await start(name, hosted, 'enhanced', server === 'ours' ? undefined : server));
      cases.push(...casesOf(host, server, hosted, liveCap));
      process.stderr.write(`${hosted} actors are hosted (${server})\n`);
    }
  }
  // The result is awaited here, since the servers end with this function.
  return await measured(cases);
}

function start(name: string, hosted: number, persistence: Persistence, plugin?: string): Promise<StartedHost> {
  return startHost({ ...options, name, hosted, folder: scratch.path, persistence, plugin });
}

async function runningCases(url: string): Promise<readonly Case[]> {
  const targets = await targetsOf(url, kinds, token);
  const numbers = await metricsOf(url, token);
  const live = numbers.get('svc_live_actors') ?? targets.length;
  return casesOf({ origin: url, targets }, 'running', targets.length, live);
}

function casesOf(host: Host, server: string, hosted: number, live: number): Case[] {
  return options.traffic.map((traffic) => ({
    host,
    server,
    hosted,
    live,
    traffic: traffic.name,
    samples: [],
    request: {
      method: 'POST',
      path: '/',
      body: NO_ARGUMENTS,
      thinkMs,
      messages: messagesOf(host.targets, traffic, kinds),
      ...(token !== undefined && { token }),
    },
  }));
}

/** The first load of each case is not counted: it compiles code and wakes the wanted actors. */
async function measured(cases: readonly Case[]): Promise<readonly Row[]> {
  for (let round = -1; round < rounds; round++) {
    for (const [at, one] of cases.entries()) {
      const sample = await measure(one);
      if (round >= 0) one.samples.push(sample);
      const progress = round < 0 ? 'warming up' : `round ${round + 1} of ${rounds}`;
      if (process.stderr.isTTY) process.stderr.write(`\r${progress}, ${at + 1} of ${cases.length}   `);
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  return cases;
}

async function measure({ hosted, traffic, host, request, server }: Case): Promise<Sample> {
  const before = await metricsOf(host.origin, token);
  const result = await load(host.origin, request, connections, seconds);
  const after = await metricsOf(host.origin, token);
  const { requests, requestsPerSecond, p50Ms, p99Ms, errors } = result;
  if (errors > 0 || requests === 0) {
    refuse(
      `${hosted} hosted, ${traffic}: ${errors} of ${requests} answers were not 2xx; ${await exampleOf(host, request)}`,
    );
  }
  const more = (name: string): number => (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  const live = after.get('svc_live_actors') ?? Number.NaN;
  // Actors that were busy when the numbers were read may exceed the cap for a moment.
  if (server !== 'running' && !(live <= liveCap + connections)) {
    throw new Error(`${live} actors are live instead of ${liveCap} at most`);
  }
  const counts = { evictions: more('svc_evictions_total'), wakes: more('svc_wakeups_total') };
  return { requests, requestsPerSecond, p50Ms, p99Ms, seconds, ...counts };
}

/** Returns the first answer of a hundred messages that is not 2xx, in words. */
async function exampleOf({ origin }: Host, { messages = [], body }: Request): Promise<string> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  for (const message of messages.slice(0, 100)) {
    const response = await fetch(origin + message.path, {
      method: 'POST',
      headers,
      body: message.body ?? body ?? null,
    });
    const text = await response.text();
    if (!response.ok) return `${message.path} ${message.body ?? ''} answers ${response.status} ${text.slice(0, 500)}`;
  }
  return 'those asked again are: the server had too much to do, or closed connections';
}

function report(all: readonly Row[]): void {
  for (const line of [...tableOf(all), '', ...comparisonOf(all)]) console.log(line);
  if (isOurQuestion && liveCap === LIVE_OF_GOALS) all.forEach(printGoal);
  console.log();
  const machine = `${availableParallelism()} cores (${cpus()[0]?.model.trim() || process.arch})`;
  const sitting = { date: new Date().toISOString(), node: process.versions.node, machine, loadGenerator };
  if (options.json !== undefined)
    written(options.json, jsonOf({ sitting, options: { ...options, token: undefined } }, all));
  if (options.csv !== undefined) written(options.csv, csvOf(all));
  const subtitle = `${sitting.date.slice(0, 10)}, Node ${sitting.node}, ${machine}, ${connections} connections`;
  if (options.chart !== undefined) written(options.chart, chartOf(subtitle, all));
}

function printGoal({ hosted, traffic, samples }: Row): void {
  const goal = GOALS.find((one) => one.ratio === hosted / liveCap && one.traffic === traffic);
  if (goal === undefined) return;
  const rates = samples.map(({ requestsPerSecond }) => requestsPerSecond);
  const byRound = `by round: ${rates.map((rate) => rate.toFixed(0)).join(' ')}`;
  printFigure(`${hosted} hosted, ${traffic}`, median(rates), '/s', byRound, { is: 'at least', ...goal });
}

function written(file: string, text: string): void {
  writeFileSync(file, text);
  console.log(file);
}

function chartOf(subtitle: string, all: readonly Row[]): string {
  const series = [...new Set(all.map(({ server, traffic }) => `${traffic}${server === 'ours' ? '' : `, ${server}`}`))];
  const linesOf = (label: string, pick: (middle: ReturnType<typeof middleOf>) => number, isDashed = false): Line[] =>
    series.map((name, at) => ({
      name: `${name}${label}`,
      series: at,
      isDashed,
      points: all
        .filter(({ server, traffic }) => name === `${traffic}${server === 'ours' ? '' : `, ${server}`}`)
        .map((row) => ({ x: row.hosted / row.live, y: pick(middleOf(row)) })),
    }));
  return lineChart(
    `${kinds[0]?.method ?? ''}: throughput, answers and wakes under --live-cap`,
    subtitle,
    'hosted actors for each live one',
    [
      { heading: 'Messages a second', lines: linesOf('', (middle) => middle.requestsPerSecond) },
      {
        heading: 'Answers, ms',
        scale: 'logarithmic',
        lines: [...linesOf(' p50', (middle) => middle.p50Ms), ...linesOf(' p99', (middle) => middle.p99Ms, true)],
      },
      {
        heading: 'Actors put to sleep and woken, a second',
        lines: [
          ...linesOf(' evicted', (middle) => middle.evictionsPerSecond),
          ...linesOf(' woken', (middle) => middle.wakesPerSecond, true),
        ],
      },
    ],
  );
}

async function wake(): Promise<void> {
  const isOwn = options.manifest !== undefined;
  const [, read] = kinds;
  for (const persistence of isOwn ? (['enhanced'] as const) : (['enhanced', 'classical'] as const)) {
    await using host = await start(`wake-${persistence}`, liveCap * WAKE_RATIO, persistence);
    const able = host.targets.filter(({ methods }) => read !== undefined && methods.has(read.method));
    if (read === undefined || able.length === 0) return console.log('waking: left out; --read NAME says what to ask');
    const messages = able.flatMap((target) => messagesOf([target], UNIFORM, [{ ...read, share: 1 }], 1));
    const label = isOwn ? read.method : persistence === 'enhanced' ? '64-bit' : '32-bit';
    const goals = isOurQuestion ? WAKE_GOALS : undefined;
    await measureWaking({ origin: host.origin, token, messages, wakes: options.wakes, label, goals });
  }
}
