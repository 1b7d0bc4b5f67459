/**
 * What do throughput and latency become when more actors are hosted than may be live, and what does waking one take?
 *
 *   node benchmarks/macro/scheduler-live-cap.bench.ts [--live-cap 100] [--ratios 1,10,100] [--connections 64]
 *       [--seconds 4] [--rounds 3] [--wakes 3000] [--dir FOLDER] [--quick]
 *
 * A server for each ratio of hosted to live actors, all with `--state` and the same `--live-cap`, hosts that many example
 * counters (64-bit). All are up at the same time and take durable `inc`s in turn, round after round: to actors picked
 * uniformly, and by Zipf's law (exponent 0.99: the k-th most wanted is wanted 1/k^0.99 as often as the first). Medians over
 * the rounds; `slower` is against the first ratio with the same traffic in the same round; `woken` is the share of messages
 * that found their actor asleep, `evictions` how many were put to sleep for them, by the server's own numbers, which also
 * have the messages that were under way when the load ended.
 *
 * Then waking, 64-bit and 32-bit counters, ten times as many hosted as live: one connection asks an actor that sleeps (`get`), and at
 * once asks it again. The difference of the medians is what waking adds; p99 is that of the first answers less the median
 * of the second ones, so it has what the machine and HTTP add as well. Beside it what the server measured itself
 * (svc_wake_seconds), interpolated within its buckets.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { Client, NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median, quantile } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { metricsOf, startSvc, type SvcProcess } from './svc-process.ts';

const ZIPF_EXPONENT = 0.99;
/** Requests that are picked beforehand, and sent again from the beginning when all have been. */
const PICKED = 65_536;
const WAKE_RATIO = 10;

const { values } = parseArgs({
  options: {
    'live-cap': { type: 'string', default: '100' },
    ratios: { type: 'string', default: '1,10,100' },
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    wakes: { type: 'string', default: '3000' },
    dir: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
const liveCap = values.quick ? 10 : Number(values['live-cap']);
const ratios = values.quick ? [1, 10] : values.ratios.split(',').map(Number);
const connections = Number(values.connections);
const seconds = values.quick ? 1 : Number(values.seconds);
const rounds = values.quick ? 1 : Number(values.rounds);
const wakes = values.quick ? 200 : Number(values.wakes);

if (loadGenerator !== 'wrk') throw new Error('traffic to many actors needs wrk, a Debian package');

type Traffic = 'uniform' | 'Zipf';

/** Messages a second, with so many live. */
const LIVE_OF_GOALS = 100;
const GOALS: readonly {
  readonly ratio: number;
  readonly traffic: Traffic;
  readonly reach: number;
  readonly aim: number;
}[] = [
  { ratio: 10, traffic: 'uniform', reach: 8_000, aim: 12_000 },
  { ratio: 100, traffic: 'uniform', reach: 5_000, aim: 8_000 },
  { ratio: 100, traffic: 'Zipf', reach: 8_000, aim: 12_000 },
];

interface Case {
  readonly ratio: number;
  readonly traffic: Traffic;
  readonly svc: SvcProcess;
  readonly request: Request;
  readonly samples: Sample[];
}

interface Sample {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly evictions: number;
  /** Share of the messages. */
  readonly woken: number;
}

await using scratch = await scratchFolder(values.dir);
await printSitting(loadGenerator, `${liveCap} live at most, ${connections} connections, ${rounds} × ${seconds} s`);
{
  await using servers = new AsyncDisposableStack();
  const cases = await startAll(servers);
  for (const one of cases) await measure(one);
  for (let round = 0; round < rounds; round++) {
    for (const one of cases) one.samples.push(await measure(one));
  }
  print(cases);
}
for (const persistence of ['enhanced', 'classical'] as const) await measureWaking(persistence);

async function startAll(servers: AsyncDisposableStack): Promise<readonly Case[]> {
  const cases: Case[] = [];
  for (const ratio of ratios) {
    const hosted = ratio * liveCap;
    const svc = servers.use(await host(`ratio-${ratio}`, hosted, 'enhanced'));
    for (const traffic of ['uniform', 'Zipf'] as const) {
      const paths = pathsOf(hosted, traffic);
      cases.push({
        ratio,
        traffic,
        svc,
        request: { method: 'POST', path: '/', paths, body: NO_ARGUMENTS },
        samples: [],
      });
    }
  }
  return cases;
}

async function host(name: string, actors: number, persistence: Persistence): Promise<SvcProcess> {
  const manifest = await manifestOf(scratch.path, name, await compiled(COUNTER, persistence), actors);
  const args = ['--state', join(scratch.path, `state-${name}`), '--live-cap', String(liveCap)];
  return startSvc({ manifest, args });
}

/** The same ones in every run. */
function pathsOf(actors: number, traffic: Traffic): readonly string[] {
  let state = 7;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  // Wanted most are not those that were created first: names are dealt out at random.
  const names = Array.from({ length: actors }, (_, at) => at);
  for (let at = actors - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [names[at], names[other]] = [names[other] ?? 0, names[at] ?? 0];
  }
  let sum = 0;
  const upTo = names.map((_, at) => (sum += traffic === 'uniform' ? 1 : (at + 1) ** -ZIPF_EXPONENT));
  return Array.from({ length: PICKED }, () => {
    const wanted = random() * sum;
    const at = firstAtLeast(upTo, wanted);
    return `/call/a${names[at] ?? 0}/inc`;
  });
}

/** The place of the first of ascending numbers that is no smaller. */
function firstAtLeast(ascending: readonly number[], number: number): number {
  let low = 0;
  let high = ascending.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function measure({ ratio, traffic, svc, request }: Case): Promise<Sample> {
  const before = await metricsOf(svc.origin);
  const { requests, requestsPerSecond, p50Ms, p99Ms, errors } = await load(svc.origin, request, connections, seconds);
  const after = await metricsOf(svc.origin);
  if (errors > 0 || requests === 0) throw new Error(`${ratio}:1, ${traffic}: ${errors} answers were not 2xx`);
  const more = (name: string): number => (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  const live = after.get('svc_live_actors') ?? Number.NaN;
  // Those that were busy when the numbers were read may be over it for a moment.
  if (!(live <= liveCap + connections)) throw new Error(`${live} actors are live instead of ${liveCap} at most`);
  return {
    requestsPerSecond,
    p50Ms,
    p99Ms,
    evictions: more('svc_evictions_total'),
    woken: more('svc_wakeups_total') / requests,
  };
}

function print(cases: readonly Case[]): void {
  const row = (name: string, columns: readonly string[]): void =>
    console.log(name.padEnd(28) + columns.map((column) => column.padStart(11)).join(''));
  row('hosted : live, traffic', ['req/s', 'slower', 'p50 ms', 'p99 ms', 'woken', 'evictions']);
  for (const { ratio, traffic, samples } of cases) {
    const first = cases.find((one) => one.traffic === traffic)?.samples ?? [];
    const middle = (pick: (sample: Sample) => number): number => median(samples.map(pick));
    const slower = samples.map(
      (sample, round) => (first[round]?.requestsPerSecond ?? Number.NaN) / sample.requestsPerSecond,
    );
    row(`${ratio * liveCap} : ${liveCap}, ${traffic}`, [
      middle((sample) => sample.requestsPerSecond).toFixed(0),
      `${median(slower).toFixed(2)} ×`,
      middle((sample) => sample.p50Ms).toFixed(2),
      middle((sample) => sample.p99Ms).toFixed(2),
      `${(middle((sample) => sample.woken) * 100).toFixed(1)} %`,
      middle((sample) => sample.evictions).toFixed(0),
    ]);
  }
  console.log();
  for (const { ratio, traffic, samples } of cases) {
    const goal = GOALS.find((one) => one.ratio === ratio && one.traffic === traffic);
    if (goal === undefined || liveCap !== LIVE_OF_GOALS) continue;
    const rates = samples.map(({ requestsPerSecond }) => requestsPerSecond);
    const byRound = `by round: ${rates.map((rate) => rate.toFixed(0)).join(' ')}`;
    printFigure(`${ratio * liveCap} hosted, ${traffic}`, median(rates), '/s', byRound, { is: 'at least', ...goal });
  }
  console.log();
}

async function measureWaking(persistence: Persistence): Promise<void> {
  const hosted = liveCap * WAKE_RATIO;
  await using svc = await host(`wake-${persistence}`, hosted, persistence);
  using client = new Client(svc.origin, 1);
  const get = async (at: number): Promise<number> => {
    const { ms } = await client.send(`/query/a${at % hosted}/get`);
    return ms;
  };
  // What runs for the first time is slow for other reasons.
  for (let at = 0; at < hosted; at++) await get(at);
  const before = await metricsOf(svc.origin);
  const asleep: number[] = [];
  const awake: number[] = [];
  for (let at = 0; at < wakes; at++) {
    asleep.push(await get(at));
    awake.push(await get(at));
  }
  const after = await metricsOf(svc.origin);
  const more = (name: string): number => (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  const woken = more('svc_wakeups_total');
  if (woken !== wakes) throw new Error(`${wakes} actors were to be woken, and ${woken} were`);
  const bits = persistence === 'enhanced' ? '64-bit' : '32-bit';
  const usual = median(awake);
  printFigure(
    `wake, ${bits}: first answer − second, p50`,
    median(asleep) - usual,
    'ms',
    `second answer ${usual.toFixed(3)} ms`,
    {
      is: 'at most',
      reach: 0.3,
      aim: 0.15,
    },
  );
  printFigure(
    `wake, ${bits}: p99 of the first − p50 of the second`,
    quantile(asleep, 0.99) - usual,
    'ms',
    `p99 of the second − its p50: ${(quantile(awake, 0.99) - usual).toFixed(2)} ms`,
    { is: 'at most', reach: 2, aim: 1 },
  );
  const buckets = [...after.keys()]
    .flatMap((name) => /^svc_wake_seconds_bucket\{le="(.*)"\}$/.exec(name)?.[1] ?? [])
    .map((bound) => ({ boundMs: Number(bound) * 1000, count: more(`svc_wake_seconds_bucket{le="${bound}"}`) }));
  const own = [0.5, 0.99].map((share) => interpolated(buckets, share).toFixed(2)).join(' / ');
  const mean = (more('svc_wake_seconds_sum') / more('svc_wake_seconds_count')) * 1000;
  console.log(
    `  the server's own: p50 / p99 ${own} ms, mean ${mean.toFixed(3)} ms; ${more('svc_evictions_total')} evictions\n`,
  );
}

/** A quantile of cumulative buckets, as if values lay evenly within each. `+Inf` has the bound NaN. */
function interpolated(buckets: readonly { readonly boundMs: number; readonly count: number }[], share: number): number {
  const wanted = share * (buckets.at(-1)?.count ?? 0);
  let below = { boundMs: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= wanted) {
      const part = (wanted - below.count) / (bucket.count - below.count);
      return below.boundMs + (bucket.boundMs - below.boundMs) * part;
    }
    below = bucket;
  }
  return Number.NaN;
}
