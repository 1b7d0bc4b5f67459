/**
 * Measures durable updates a second with timelines against without them.
 *
 *   node benchmarks/macro/durable-timeline.bench.ts [--rounds 9] [--seconds 3] [--dir FOLDER] [--quick]
 *
 * Two servers with `--fsync always` and 64 actors each, in one scratch folder, are up at the same time and loaded in
 * turn, round after round, in changing order; ratios are taken within a round, and their median is shown. Timelines
 * have no gap.
 */
import { join } from 'node:path';
import { optionsOf } from '../options.ts';
import { compiled, COUNTER, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const ACTORS = 64;
const CONNECTIONS = 64;
const KINDS = ['off', 'on'] as const;

const values = optionsOf({
  rounds: { type: 'string', default: '9' },
  seconds: { type: 'string', default: '3' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const seconds = values.quick ? 1 : Number(values.seconds);

type Kind = (typeof KINDS)[number];

await using scratch = await scratchFolder(values.dir);
await printSitting(loadGenerator, `${rounds} × ${seconds} s`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), ACTORS);
await using servers = new AsyncDisposableStack();
const started = await Promise.all(KINDS.map((kind) => startSvc({ manifest, args: argsOf(kind) })));
const running = new Map<Kind, SvcProcess>(KINDS.map((kind, at) => [kind, servers.use(started[at] ?? never())]));
const samples = new Map<Kind, { readonly perSecond: number; readonly cpuMicroseconds: number }[]>(
  KINDS.map((kind) => [kind, []]),
);
for (let round = 0; round < rounds + 1; round++) {
  for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
    const sample = await measure(running.get(kind) ?? never());
    // The first round is the warm-up.
    if (round > 0 || values.quick) samples.get(kind)?.push(sample);
  }
}
for (const kind of KINDS) {
  const of = samples.get(kind) ?? never();
  const perSecond = median(of.map((sample) => sample.perSecond)).toFixed(1);
  const cpu = median(of.map((sample) => sample.cpuMicroseconds)).toFixed(1);
  console.log(`  timeline ${kind.padEnd(4)}${perSecond.padStart(9)} req/s ${cpu.padStart(8)} µs CPU`);
}
const page = await (await fetch(`${running.get('on')?.origin ?? never()}/metrics`)).text();
const [, gaps] = /^svc_timeline_gaps_total (\d+)$/m.exec(page) ?? [];
const [, noted] = /^svc_timeline_messages_total (\d+)$/m.exec(page) ?? [];
if (gaps !== '0' || Number(noted) === 0) throw new Error(`timelines have ${gaps} gaps and ${noted} messages`);
const [off, on] = KINDS.map((kind) => samples.get(kind) ?? never());
const ratios = off?.map(({ perSecond }, round) => (on?.[round]?.perSecond ?? Number.NaN) / perSecond) ?? [];
printFigure(
  `timeline on / off, durable updates, ${ACTORS} actors`,
  median(ratios),
  '×',
  `by round: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`,
  { is: 'at least', reach: 0.85, aim: 0.95 },
);

function argsOf(kind: Kind): readonly string[] {
  const state = ['--state', join(scratch.path, `state ${kind}`), '--fsync', 'always'];
  return kind === 'off' ? state : [...state, '--timeline', '3600'];
}

async function measure(server: SvcProcess): Promise<{ readonly perSecond: number; readonly cpuMicroseconds: number }> {
  const messages = Array.from({ length: ACTORS }, (_, at) => ({ path: `/call/a${at}/inc` }));
  const request: Request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS, messages };
  const before = server.cpuMicroseconds() ?? Number.NaN;
  const result = await load(server.origin, request, CONNECTIONS, seconds);
  if (result.errors > 0 || result.requests === 0) throw new Error(`${result.errors} answers were not 2xx`);
  const cpuMicroseconds = ((server.cpuMicroseconds() ?? Number.NaN) - before) / result.requests;
  return { perSecond: result.requestsPerSecond, cpuMicroseconds };
}

function never(): never {
  throw new Error('a kind without a server');
}
