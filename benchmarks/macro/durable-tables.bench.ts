/**
 * Measures durable updates a second with tables in SQLite against tables in RocksDB, with starts and memory.
 *
 *   node benchmarks/macro/durable-tables.bench.ts [--rounds 7] [--seconds 2] [--dir FOLDER] [--quick]
 *
 * Two servers with `--fsync always` and 64 actors each, in one scratch folder, are up at the same time and loaded in
 * turn, round after round, in changing order; ratios are taken within a round, and their medians are shown. One case
 * changes a number, which the tables see seldom. In the other, actors are kept by their logs, and each message carries
 * 16 KiB: rows come into the tables and go again for as long as the load lasts. The server's start is measured behind
 * SIGKILL, and behind a stop.
 */
import { join } from 'node:path';
import { optionsOf } from '../options.ts';
import { compiled, COUNTER, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { memoryOf, startSvc, type SvcProcess } from './svc-process.ts';

const ACTORS = 64;
const CONNECTIONS = 64;
const KINDS = ['rocksdb', 'sqlite'] as const;
const KEPT_BYTES = 16_384;

const values = optionsOf({
  rounds: { type: 'string', default: '7' },
  seconds: { type: 'string', default: '2' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const seconds = values.quick ? 1 : Number(values.seconds);

type Kind = (typeof KINDS)[number];

interface Case {
  readonly name: string;
  readonly flags: readonly string[];
  readonly body: Uint8Array;
}

interface Sample {
  readonly perSecond: number;
  readonly p99Ms: number;
  readonly cpuMicroseconds: number;
}

const CASES: readonly Case[] = [
  { name: 'a number changes', flags: [], body: NO_ARGUMENTS },
  { name: '16 KiB are logged', flags: ['--snapshot-below', '0'], body: blobOf(KEPT_BYTES) },
];

await using scratch = await scratchFolder(values.dir);
await printSitting(loadGenerator, `${rounds} × ${seconds} s`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), ACTORS);
for (const one of CASES) await compare(one);

/** Returns an argument in Candid that the method does not look at: a blob. */
function blobOf(length: number): Uint8Array {
  // One type, a vector of nat8; one argument; its length as LEB128 of three bytes.
  const head = Buffer.from([...Buffer.from('DIDL'), 1, 0x6d, 0x7b, 1, 0, 0x80, 0x80, 0x01]);
  return Buffer.concat([head, Buffer.alloc(length, 7)]);
}

function argsOf({ flags, name }: Case, kind: Kind): readonly string[] {
  const state = join(scratch.path, `${kind} ${name}`);
  return ['--state', state, '--fsync', 'always', '--tables', kind, ...flags];
}

async function compare(one: Case): Promise<void> {
  await using servers = new AsyncDisposableStack();
  const started = await Promise.all(KINDS.map((kind) => startSvc({ manifest, args: argsOf(one, kind) })));
  const running = new Map<Kind, SvcProcess>(KINDS.map((kind, at) => [kind, servers.use(started[at] ?? never())]));
  const samples = new Map<Kind, Sample[]>(KINDS.map((kind) => [kind, []]));
  for (let round = 0; round < rounds + 1; round++) {
    for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
      const sample = await measure(running.get(kind) ?? never(), one);
      // The first round is the warm-up.
      if (round > 0 || values.quick) samples.get(kind)?.push(sample);
    }
  }
  console.log(one.name);
  for (const kind of KINDS) await printKind(one, kind, running.get(kind) ?? never(), samples.get(kind) ?? never());
  const [rocksdb, sqlite] = KINDS.map((kind) => samples.get(kind) ?? never());
  const ratios = rocksdb?.map(({ perSecond }, round) => (sqlite?.[round]?.perSecond ?? Number.NaN) / perSecond) ?? [];
  printFigure(
    `SQLite / RocksDB, durable updates, ${ACTORS} actors: ${one.name}`,
    median(ratios),
    '×',
    `by round: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`,
    { is: 'at least', reach: 0.9, aim: 1 },
  );
  console.log();
}

async function measure(server: SvcProcess, { body }: Case): Promise<Sample> {
  const messages = Array.from({ length: ACTORS }, (_, at) => ({ path: `/call/a${at}/inc` }));
  const request: Request = { method: 'POST', path: '/call/a0/inc', body, messages };
  const before = server.cpuMicroseconds() ?? Number.NaN;
  const result = await load(server.origin, request, CONNECTIONS, seconds);
  if (result.errors > 0 || result.requests === 0) throw new Error(`${result.errors} answers were not 2xx`);
  const cpuMicroseconds = ((server.cpuMicroseconds() ?? Number.NaN) - before) / result.requests;
  return { perSecond: result.requestsPerSecond, p99Ms: result.p99Ms, cpuMicroseconds };
}

async function printKind(one: Case, kind: Kind, server: SvcProcess, samples: readonly Sample[]): Promise<void> {
  const { peakMib } = memoryOf(server.pid);
  await server.kill();
  const again = await startSvc({ manifest, args: argsOf(one, kind) });
  const stopMs = await again.stop();
  const last = await startSvc({ manifest, args: argsOf(one, kind) });
  await last.kill();
  const middle = (of: (sample: Sample) => number): string => median(samples.map(of)).toFixed(1).padStart(9);
  console.log(
    `  ${kind.padEnd(8)}${middle((sample) => sample.perSecond)} req/s${middle((sample) => sample.p99Ms)} ms p99` +
      `${middle((sample) => sample.cpuMicroseconds)} µs CPU   ${Math.round(peakMib)} MiB at most, start ` +
      `${Math.round(again.readyMs)} ms behind a kill, stop ${Math.round(stopMs)} ms, start behind it ${Math.round(last.readyMs)} ms`,
  );
}

function never(): never {
  throw new Error('a kind of tables without a server');
}
