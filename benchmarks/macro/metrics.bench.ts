/**
 * Measures the cost of history and of the numbers of `/metrics`: requests with them against without, and the main
 * thread while `/metrics` or `/inspect` of 10,000 actors is made.
 *
 *   node benchmarks/macro/metrics.bench.ts [--actors 10000] [--pages 20] [--connections 16] [--seconds 2]
 *       [--rounds 5] [--dir FOLDER] [--quick]
 *
 * Three servers in memory, one with `--no-metrics`, one with `--history 0` as well (no switch turns the log of jobs or
 * actors' output off), are loaded in turn, round after round; the first one's page is read once a second meanwhile,
 * fifteen times as often as Prometheus does by default. Medians of the rounds' ratios are shown.
 *
 * Then comes one server with many actors, nearly all asleep, whose main thread measures in each turn the time of the
 * turn before (watch-slices.ts): while a page is read, and for the same time while none is, to show the machine's own
 * influence.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOf } from '../options.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { metricsOf, startSvc, type SvcProcess } from './svc-process.ts';
import { type Slices, slicesDuring } from './watch-slices.ts';

const WATCH = fileURLToPath(new URL('watch-slices.ts', import.meta.url));
const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');
const WARM_UP_SECONDS = 2;

const values = optionsOf({
  actors: { type: 'string', default: '10000' },
  pages: { type: 'string', default: '20' },
  connections: { type: 'string', default: '16' },
  seconds: { type: 'string', default: '2' },
  rounds: { type: 'string', default: '5' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const connections = Number(values.connections);
const [actors, pages, seconds, rounds] = values.quick
  ? [200, 3, 1, 1]
  : [Number(values.actors), Number(values.pages), Number(values.seconds), Number(values.rounds)];

await using scratch = await scratchFolder(values.dir);
await printSitting(loadGenerator, `${connections} connections`, `${actors} actors`);
const wasm = await compiled(COUNTER, 'enhanced');
await requestsWithAndWithout();
await pagesOfMany();

async function requestsWithAndWithout(): Promise<void> {
  const manifest = await manifestOf(scratch.path, 'one', wasm, 1);
  await using shown = await startSvc({ manifest, args: [] });
  await using hidden = await startSvc({ manifest, args: ['--no-metrics'] });
  await using bare = await startSvc({ manifest, args: ['--no-metrics', '--history', '0'] });
  const others: readonly (readonly [string, SvcProcess])[] = [
    ['metrics', hidden],
    ['history and metrics', bare],
  ];
  const cases: readonly (readonly [string, Request])[] = [
    ['reads', { method: 'POST', path: '/query/a0/get', body: NO_ARGUMENTS }],
    ['updates', { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS }],
  ];
  for (const [, request] of cases)
    for (const svc of [shown, hidden, bare]) await load(svc.origin, request, connections, WARM_UP_SECONDS);
  const reading = setInterval(() => void metricsOf(shown.origin), 1000);
  for (const [name, request] of cases) {
    for (const [what, without] of others) {
      const throughput: number[] = [];
      const cpu: number[] = [];
      for (let round = 0; round < rounds; round++) {
        // The first in a round finds another state of the machine than the second.
        const isShownFirst = round % 2 === 0;
        const first = await measured(isShownFirst ? shown : without, request);
        const second = await measured(isShownFirst ? without : shown, request);
        const [on, off] = isShownFirst ? [first, second] : [second, first];
        throughput.push(on.perSecond / off.perSecond - 1);
        cpu.push(on.cpuMicroseconds / off.cpuMicroseconds - 1);
      }
      const goal = { is: 'at least', reach: -3, aim: -1 } as const;
      printFigure(`throughput of ${name} with ${what}, against without`, 100 * median(throughput), '%', '', goal);
      printFigure(`processor time of one of these ${name}`, 100 * median(cpu), '%');
    }
  }
  clearInterval(reading);
}

async function measured(
  svc: SvcProcess,
  request: Request,
): Promise<{ readonly perSecond: number; readonly cpuMicroseconds: number }> {
  const before = svc.cpuMicroseconds() ?? Number.NaN;
  const { requests, requestsPerSecond, errors } = await load(svc.origin, request, connections, seconds);
  if (errors > 0) throw new Error(`${errors} answers were not 2xx`);
  const after = svc.cpuMicroseconds() ?? Number.NaN;
  return { perSecond: requestsPerSecond, cpuMicroseconds: (after - before) / requests };
}

async function pagesOfMany(): Promise<void> {
  const manifest = await manifestOf(scratch.path, 'many', wasm, actors);
  const report = join(scratch.path, 'slices');
  await using svc = await startSvc({
    manifest,
    args: ['--state', join(scratch.path, 'state'), '--live-cap', '100'],
    nodeArgs: ['--import', WATCH],
    environment: { SVC_BENCH_SLICES: report },
  });
  for (const path of ['/metrics', '/inspect']) {
    const page = async (): Promise<void> => void (await (await fetch(svc.origin + path)).arrayBuffer());
    const took: number[] = [];
    const slices: Slices[] = [];
    const quiet: Slices[] = [];
    for (let turn = 0; turn < pages; turn++) {
      const startMs = performance.now();
      slices.push(await slicesDuring(svc.pid, report, page));
      took.push(performance.now() - startMs);
      quiet.push(await slicesDuring(svc.pid, report, () => sleep(took.at(-1))));
    }
    const goal = { is: 'at most', reach: 10, aim: 5 } as const;
    const longest = (of: readonly Slices[]): number => median(of.map(({ longestMs }) => longestMs));
    const noise = `${longest(quiet).toFixed(1)} while none is read; least ${Math.min(...slices.map(({ longestMs }) => longestMs)).toFixed(1)}`;
    printFigure(`longest slice of the main thread, ${path} of ${actors} actors`, longest(slices), 'ms', noise, goal);
    const { length } = await (await fetch(svc.origin + path)).text();
    printFigure('its size', length / 2 ** 20, 'MiB');
  }
}
