/**
 * Measures durable updates a second, against workerd's durable increments, and the time of one beyond the disk's flush.
 *
 *   node benchmarks/macro/durable-updates.bench.ts [--rounds 7] [--seconds 2] [--persistence enhanced]
 *       [--dir FOLDER] [--quick]
 *
 * svc runs with `--state` and `--fsync always`, workerd with Durable Objects in SQLite, both in folders of one scratch
 * folder (`--dir`: on the disk that is to be measured). All are up at the same time and loaded in turn, round after
 * round; ratios are taken within a round, and their medians are shown. There are 64 actors: the connections go through
 * them in turn. Before and after one connection alone is measured, the disk's own flush is timed: a write of 512 B into
 * a preallocated file, and its fdatasync; the median latency less that time is the server's own part. While others use
 * the disk, that difference means nothing.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { flushP50Ms } from './flush-floor.ts';
import { load, loadGenerator, type LoadResult, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { freePort, type ServerProcess, startProcess } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';
import { workerdBinary } from './workerd-process.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const ACTORS = 64;
const CONNECTIONS = 64;
const RIVAL_START_MS = 20_000;
const WARM_UP_SECONDS = 2;
/** Flushes that differ more from one time to another are not the disk's own. */
const STEADY_RATIO = 1.5;

const values = optionsOf({
  rounds: { type: 'string', default: '7' },
  seconds: { type: 'string', default: '2' },
  persistence: { type: 'string', default: 'enhanced' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const seconds = values.quick ? 1 : Number(values.seconds);

type Label = 'svc one' | 'svc many' | 'svc alone' | 'workerd one' | 'workerd many' | 'floor' | 'floor alone';

interface Case {
  readonly label: Label;
  readonly server: ServerProcess;
  readonly request: Request;
  readonly connections: number;
}

interface Sample extends LoadResult {
  readonly cpuMicroseconds: number;
}

await using scratch = await scratchFolder(values.dir);
await using servers = new AsyncDisposableStack();
const persistence = values.persistence as Persistence;
await printSitting(loadGenerator, persistence, `${rounds} × ${seconds} s`);
const cases = (await startAll()).filter(({ request }) => request.messages === undefined || loadGenerator === 'wrk');
if (loadGenerator !== 'wrk') process.stderr.write('several actors need wrk: they are left out\n');
for (const { server, request, connections } of cases) {
  await load(server.origin, request, connections, values.quick ? 1 : WARM_UP_SECONDS);
}

/** Flushes before and after one connection alone, by round. */
const flushesMs: [number, number][] = [];
const samples = new Map<Label, Sample[]>(cases.map(({ label }) => [label, []]));
for (let round = 0; round < rounds; round++) {
  for (const one of cases) {
    if (one.label !== 'svc alone') samples.get(one.label)?.push(await measure(one));
    else {
      const before = flushP50Ms(scratch.path, seconds * 500);
      samples.get(one.label)?.push(await measure(one));
      flushesMs.push([before, flushP50Ms(scratch.path, seconds * 500)]);
    }
  }
}
print();

async function startAll(): Promise<readonly Case[]> {
  const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, persistence), ACTORS);
  const args = ['--state', join(scratch.path, 'state'), '--fsync', 'always'];
  const svc = servers.use(await startSvc({ manifest, args }));
  const inc = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS } as const;
  const everyActor = Array.from({ length: ACTORS }, (_, at) => ({ path: `/call/a${at}/inc` }));
  const port = await freePort();
  const fastify = await startProcess(`http://127.0.0.1:${port}`, {
    file: process.execPath,
    args: [here('fastify-floor.ts'), String(port)],
    readyPath: '/',
    readyDeadlineMs: RIVAL_START_MS,
  });
  const floor = servers.use(fastify);
  const by: Request = { method: 'POST', path: '/', body: Buffer.from('{"by":1}'), contentType: 'application/json' };
  const all: Case[] = [
    { label: 'svc one', server: svc, request: inc, connections: CONNECTIONS },
    { label: 'svc many', server: svc, request: { ...inc, messages: everyActor }, connections: CONNECTIONS },
    { label: 'svc alone', server: svc, request: inc, connections: 1 },
    { label: 'floor', server: floor, request: by, connections: CONNECTIONS },
    { label: 'floor alone', server: floor, request: by, connections: 1 },
  ];
  const workerd = await startWorkerd();
  if (workerd === undefined) return all;
  const post = { method: 'POST', path: '/a0' } as const;
  const everyObject = Array.from({ length: ACTORS }, (_, at) => ({ path: `/a${at}` }));
  return [
    ...all,
    { label: 'workerd one', server: workerd, request: post, connections: CONNECTIONS },
    { label: 'workerd many', server: workerd, request: { ...post, messages: everyObject }, connections: CONNECTIONS },
  ];
}

async function startWorkerd(): Promise<ServerProcess | undefined> {
  const binary = workerdBinary();
  if (binary === undefined) {
    process.stderr.write('workerd is not installed (npm install --prefix benchmarks): no ratios to it\n');
    return undefined;
  }
  const state = join(scratch.path, 'workerd');
  await mkdir(state);
  const port = await freePort();
  const args = [
    'serve',
    here('workerd/durable.capnp'),
    `--socket-addr=http=127.0.0.1:${port}`,
    `--directory-path=state=${state}`,
  ];
  const command = { file: binary, args, readyPath: '/ready', readyDeadlineMs: RIVAL_START_MS };
  return servers.use(await startProcess(`http://127.0.0.1:${port}`, command));
}

async function measure({ label, server, request, connections }: Case): Promise<Sample> {
  const before = server.cpuMicroseconds() ?? Number.NaN;
  const result = await load(server.origin, request, connections, seconds);
  const after = server.cpuMicroseconds() ?? Number.NaN;
  if (result.errors > 0 || result.requests === 0) throw new Error(`${label}: ${result.errors} answers were not 2xx`);
  return { ...result, cpuMicroseconds: (after - before) / result.requests };
}

function print(): void {
  console.log(
    ['', 'req/s', 'p50 ms', 'p99 ms', 'CPU µs']
      .map((head, at) => (at === 0 ? head.padEnd(16) : head.padStart(11)))
      .join(''),
  );
  for (const [label, taken] of samples) {
    const columns = [
      median(taken.map((sample) => sample.requestsPerSecond)).toFixed(0),
      median(taken.map((sample) => sample.p50Ms)).toFixed(3),
      median(taken.map((sample) => sample.p99Ms)).toFixed(3),
      median(taken.map((sample) => sample.cpuMicroseconds)).toFixed(1),
    ];
    console.log(label.padEnd(16) + columns.map((column) => column.padStart(11)).join(''));
  }
  console.log(
    `\nflush of 512 B, preallocated: p50 ${median(flushesMs.flat()).toFixed(3)} ms (by round, before and after: ${list(flushesMs.flat(), 3)})\n`,
  );
  ratio('one actor, 64 connections / workerd', 'svc one', 'workerd one', { is: 'at least', reach: 11, aim: 13 });
  ratio('64 actors, 64 connections / workerd, 64 objects', 'svc many', 'workerd many', {
    is: 'at least',
    reach: 7,
    aim: 13,
  });
  ratio('one actor, 64 connections / fastify floor, nothing stored', 'svc one', 'floor');
  const beyond = samplesOf('svc alone').map(({ p50Ms }, round) => p50Ms - mean(flushesMs[round] ?? []));
  const isSteady = Math.max(...flushesMs.flat()) <= STEADY_RATIO * Math.min(...flushesMs.flat());
  const goal = isSteady && loadGenerator === 'wrk' ? ({ is: 'at most', reach: 0.1, aim: 0.06 } as const) : undefined;
  if (!isSteady) console.log('others use the disk: the difference to its flush says nothing in this sitting');
  if (loadGenerator !== 'wrk')
    console.log('autocannon rounds latencies to milliseconds: the difference says nothing without wrk');
  printFigure('1 connection: latency p50 − flush p50', median(beyond), 'ms', `by round: ${list(beyond, 3)}`, goal);
  const beyondFloor = beyond.map((ms, round) => ms - (samplesOf('floor alone')[round]?.p50Ms ?? Number.NaN));
  printFigure(
    'the same − fastify floor of 1 connection',
    median(beyondFloor),
    'ms',
    `by round: ${list(beyondFloor, 3)}`,
  );
}

function ratio(name: string, label: Label, rival: Label, goal?: Parameters<typeof printFigure>[4]): void {
  if (!samples.has(label) || !samples.has(rival)) return;
  const ratios = samplesOf(label).map(
    ({ requestsPerSecond }, round) => requestsPerSecond / (samplesOf(rival)[round]?.requestsPerSecond ?? Number.NaN),
  );
  printFigure(name, median(ratios), '×', `by round: ${list(ratios, 1)}`, goal);
}

function samplesOf(label: Label): readonly Sample[] {
  return samples.get(label) ?? [];
}

function list(numbers: readonly number[], digits: number): string {
  return numbers.map((number) => number.toFixed(digits)).join(' ');
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
