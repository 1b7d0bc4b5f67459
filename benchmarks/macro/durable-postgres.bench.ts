/**
 * Measures durable updates a second, and the wait of a single client, with the state in PostgreSQL and in a directory,
 * against fastify with `UPDATE … RETURNING` in that PostgreSQL.
 *
 *   node benchmarks/macro/durable-postgres.bench.ts [--rounds 7] [--seconds 2] [--quick]
 *
 * Debian's PostgreSQL on this machine with its own defaults (`synchronous_commit = on`, fsync), in a temporary
 * directory. svc runs with `--plugin storage=svc/storage-postgres`, and another svc with `--state` beside PostgreSQL's
 * own files. All are up at the same time and loaded in turn by 64 connections, or one; ratios are taken within a round,
 * and their medians are shown. There are 64 actors, or rows: the connections go through them in turn.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { startPostgres } from '../../test/support/postgres.ts';
import type { Goal } from '../figures.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Message, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { freePort, startProcess } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const ACTORS = 64;
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 2;
const FLOOR_START_MS = 20_000;

const values = optionsOf({
  rounds: { type: 'string', default: '7' },
  seconds: { type: 'string', default: '2' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const seconds = values.quick ? 1 : Number(values.seconds);

await using scratch = await scratchFolder(undefined);
await using postgres = await startPostgres({ isSynced: true });
await using servers = new AsyncDisposableStack();
await printSitting(loadGenerator, `${rounds} × ${seconds} s`);

const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), ACTORS);
const local = servers.use(await startSvc({ manifest, args: ['--state', join(scratch.path, 'state')] }));
const args = ['--plugin', 'storage=svc/storage-postgres', '--plugin-option', `storage.url=${postgres.url}`];
const svc = servers.use(await startSvc({ manifest, args }));
const port = await freePort();
process.env['PGURL'] = postgres.url;
const floor = servers.use(
  await startProcess(`http://127.0.0.1:${port}`, {
    file: process.execPath,
    args: [fileURLToPath(new URL('fastify-postgres.ts', import.meta.url)), String(port)],
    readyPath: '/',
    readyDeadlineMs: FLOOR_START_MS,
  }),
);

const every = (path: (at: number) => string): readonly Message[] =>
  Array.from({ length: ACTORS }, (_, at) => ({ path: path(at) }));
const inc: Request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS };
const update: Request = { method: 'POST', path: '/inc/0' };
interface Case {
  readonly label: string;
  readonly origin: string;
  readonly request: Request;
  readonly connections: number;
}

const incEach: Request = { ...inc, messages: every((at) => `/call/a${at}/inc`) };
const updateEach: Request = { ...update, messages: every((at) => `/inc/${at}`) };
const cases: readonly Case[] = [
  { label: 'svc, one actor', origin: svc.origin, request: inc, connections: CONNECTIONS },
  { label: 'fastify, one row', origin: floor.origin, request: update, connections: CONNECTIONS },
  { label: 'svc, 64 actors', origin: svc.origin, request: incEach, connections: CONNECTIONS },
  { label: 'fastify, 64 rows', origin: floor.origin, request: updateEach, connections: CONNECTIONS },
  { label: '--state, 64 actors', origin: local.origin, request: incEach, connections: CONNECTIONS },
  { label: '--state, one client', origin: local.origin, request: inc, connections: 1 },
  { label: 'fastify, one client', origin: floor.origin, request: update, connections: 1 },
];

for (const { origin, request, connections } of cases)
  await load(origin, request, connections, values.quick ? 1 : WARM_UP_SECONDS);
interface Sample {
  readonly rate: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}
const samples = new Map<string, Sample[]>();
for (let round = 0; round < rounds; round++) {
  for (const { label, origin, request, connections } of cases) {
    const { requests, errors, requestsPerSecond, p50Ms, p99Ms } = await load(origin, request, connections, seconds);
    if (errors > 0 || requests === 0) throw new Error(`${label}: ${errors} answers were not 2xx`);
    samples.set(label, [...(samples.get(label) ?? []), { rate: requestsPerSecond, p50Ms, p99Ms }]);
  }
}

console.log(
  ['', 'req/s', 'p50 ms', 'p99 ms'].map((head, at) => (at === 0 ? head.padEnd(20) : head.padStart(11))).join(''),
);
for (const [label, taken] of samples) {
  const columns = [
    median(taken.map(({ rate }) => rate)).toFixed(0),
    median(taken.map(({ p50Ms }) => p50Ms)).toFixed(2),
    median(taken.map(({ p99Ms }) => p99Ms)).toFixed(2),
  ];
  console.log(label.padEnd(20) + columns.map((column) => column.padStart(11)).join(''));
}
console.log();
const atLeast = (reach: number, aim: number) => ({ is: 'at least', reach, aim }) as const;
ratio('durable update, one actor / one row', 'svc, one actor', 'fastify, one row', 'rate', atLeast(3, 8));
ratio('durable update, 64 actors / 64 rows', 'svc, 64 actors', 'fastify, 64 rows', 'rate', atLeast(1, 1.5));
ratio('--state, 64 actors / 64 rows', '--state, 64 actors', 'fastify, 64 rows', 'rate', atLeast(2.2, 3));
const wait: Goal = { is: 'at most', reach: 0.85, aim: 0.7 };
ratio("--state, one client's latency / fastify's", '--state, one client', 'fastify, one client', 'p50Ms', wait);

function ratio(name: string, label: string, rival: string, of: keyof Sample, goal: Goal): void {
  const rivals = samples.get(rival) ?? [];
  const ratios = (samples.get(label) ?? []).map((sample, round) => sample[of] / (rivals[round]?.[of] ?? Number.NaN));
  const byRound = ratios.map((each) => each.toFixed(2)).join(' ');
  printFigure(name, median(ratios), '×', `by round: ${byRound}`, goal);
}
