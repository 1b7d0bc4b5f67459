/**
 * Measures the duration of a message while a large heap is checkpointed in the background, against its usual duration.
 *
 *   node benchmarks/macro/durable-large-heap.bench.ts [--chunks 256] [--seconds 3] [--dir FOLDER] [--quick]
 *
 * One actor with a heap of 256 chunks of 4 MB, kept by its log. Its messages are timed over one connection, first
 * alone; then every page is changed and the log made so long that a checkpoint of all pages begins, and messages are
 * timed during that. The number of bytes committed meanwhile shows that the checkpoint was under way.
 */
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { compiled, manifestOf } from './actor-fixtures.ts';
import { Client, naturalArgument } from './client.ts';
import { quantile } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const LARGE = fileURLToPath(new URL('../fixtures/large.mo', import.meta.url));
/** A checkpoint begins when half of the budget is used up: this takes a few such messages. */
const REPLAY_BUDGET_SECONDS = 4;
const BURN_ROUNDS = 5_000_000;

const values = optionsOf({
  chunks: { type: 'string', default: '256' },
  seconds: { type: 'string', default: '3' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const chunks = values.quick ? 16 : Number(values.chunks);
const seconds = values.quick ? 1 : Number(values.seconds);

await printSitting(`${chunks} chunks of 4 MB`);
await using scratch = await scratchFolder(values.dir);
const manifest = await manifestOf(scratch.path, 'large', await compiled(LARGE, 'enhanced'), 1);
const args = [
  '--state',
  `${scratch.path}/state`,
  '--snapshot-below',
  '1000000',
  '--replay-budget-secs',
  `${REPLAY_BUDGET_SECONDS}`,
];
await using svc = await startSvc({ manifest, args });
using client = new Client(svc.origin, 1);
await client.send('/call/a0/reserve', naturalArgument(chunks));
for (let chunk = 0; chunk < chunks; chunk++) await client.send('/call/a0/add');
await settled();

const normal = await touches(seconds * 1000);
for (let chunk = 0; chunk < chunks; chunk++) await client.send('/call/a0/dirty', naturalArgument(chunk));
await settled();
for (let chunk = 0; chunk < chunks; chunk++) await client.send('/call/a0/dirty', naturalArgument(chunk));
const before = await sampleOf('svc_commit_bytes_total');
while ((await sampleOf('svc_replay_seconds')) < REPLAY_BUDGET_SECONDS / 2) {
  await client.send('/call/a0/burn', naturalArgument(BURN_ROUNDS));
}
const during = await touches(seconds * 1000);
const written = (await sampleOf('svc_commit_bytes_total')) - before;
if (written < chunks * 200_000) throw new Error(`no checkpoint was written: ${written} bytes were committed`);

const ms = (times: readonly number[], share: number): string => quantile(times, share).toFixed(2);
const shown = (times: readonly number[]): string =>
  `p50 ${ms(times, 0.5)}, p99 ${ms(times, 0.99)}, longest ${ms(times, 1)} ms`;
console.log(`alone: ${shown(normal)}; during the checkpoint (${(written / 2 ** 20).toFixed(0)} MiB): ${shown(during)}`);
const goal = { is: 'at most', reach: 2, aim: 1.2 } as const;
printFigure(
  'message during a checkpoint / alone, median',
  quantile(during, 0.5) / quantile(normal, 0.5),
  '×',
  '',
  goal,
);
printFigure('the same, mean', mean(during) / mean(normal), '×');

async function touches(forMs: number): Promise<number[]> {
  const times: number[] = [];
  for (const until = performance.now() + forMs; performance.now() < until;) {
    times.push((await client.send('/call/a0/touch')).ms);
  }
  return times.sort((a, b) => a - b);
}

/** Waits until no more bytes are committed. */
async function settled(): Promise<void> {
  let last = -1;
  for (;;) {
    const now = await sampleOf('svc_commit_bytes_total');
    if (now === last) return;
    last = now;
    await setTimeout(1000);
  }
}

async function sampleOf(name: string): Promise<number> {
  const page = await (await fetch(`${svc.origin}/metrics`)).text();
  const line = page.split('\n').find((text) => text.startsWith(`${name} `));
  if (line === undefined) throw new Error(`/metrics has no ${name}`);
  return Number(line.slice(name.length));
}

function mean(times: readonly number[]): number {
  return times.reduce((sum, time) => sum + time, 0) / times.length;
}
