/**
 * How many durable updates a second with the state in PostgreSQL, against fastify with `UPDATE … RETURNING` in the same one?
 *
 *   node benchmarks/macro/durable-postgres.bench.ts [--rounds 7] [--seconds 2] [--quick]
 *
 * Debian's PostgreSQL on this machine with its own defaults (`synchronous_commit = on`, fsync), in a temporary directory.
 * svc runs with `--plugin storage=svc/storage-postgres`. Both are up at the same time and loaded in turn by 64 connections;
 * ratios are taken within a round, shown are their medians. 64 actors, or rows: the connections go through them in turn.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startPostgres } from '../../test/support/postgres.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { freePort, startProcess } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const ACTORS = 64;
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 2;
const FLOOR_START_MS = 20_000;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    quick: { type: 'boolean', default: false },
  },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const seconds = values.quick ? 1 : Number(values.seconds);

await using scratch = await scratchFolder(undefined);
await using postgres = await startPostgres({ isSynced: true });
await using servers = new AsyncDisposableStack();
await printSitting(loadGenerator, `${rounds} × ${seconds} s`);

const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), ACTORS);
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

const every = (path: (at: number) => string): readonly string[] => Array.from({ length: ACTORS }, (_, at) => path(at));
const inc: Request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS };
const update: Request = { method: 'POST', path: '/inc/0' };
const cases: readonly (readonly [label: string, origin: string, request: Request])[] = [
  ['svc, one actor', svc.origin, inc],
  ['fastify, one row', floor.origin, update],
  ['svc, 64 actors', svc.origin, { ...inc, paths: every((at) => `/call/a${at}/inc`) }],
  ['fastify, 64 rows', floor.origin, { ...update, paths: every((at) => `/inc/${at}`) }],
];

for (const [, origin, request] of cases) await load(origin, request, CONNECTIONS, values.quick ? 1 : WARM_UP_SECONDS);
const samples = new Map<string, { readonly rate: number; readonly p50Ms: number; readonly p99Ms: number }[]>();
for (let round = 0; round < rounds; round++) {
  for (const [label, origin, request] of cases) {
    const { requests, errors, requestsPerSecond, p50Ms, p99Ms } = await load(origin, request, CONNECTIONS, seconds);
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
ratio('durable update, one actor / one row', 'svc, one actor', 'fastify, one row', 3, 8);
ratio('durable update, 64 actors / 64 rows', 'svc, 64 actors', 'fastify, 64 rows', 1, 1.5);

function ratio(name: string, label: string, rival: string, reach: number, aim: number): void {
  const ratios = ratesOf(label).map((rate, round) => rate / (ratesOf(rival)[round] ?? Number.NaN));
  const byRound = ratios.map((each) => each.toFixed(1)).join(' ');
  printFigure(name, median(ratios), '×', `by round: ${byRound}`, { is: 'at least', reach, aim });
}

function ratesOf(label: string): readonly number[] {
  return (samples.get(label) ?? []).map(({ rate }) => rate);
}
