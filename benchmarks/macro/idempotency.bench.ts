/**
 * Measures the cost of an `Idempotency-Key` on every call, in memory and with `--state`.
 *
 *   node benchmarks/macro/idempotency.bench.ts [--rounds 7] [--seconds 2] [--connections 64] [--expire 1]
 *       [--dir FOLDER]
 *
 * A counter is incremented without a header, with a header of the same length without a meaning, and with a key that is
 * new each time. Keys expire after `--expire` seconds, so that forgetting them is measured, too. All servers are up at
 * the same time and loaded in turn, round after round; ratios are taken within a round, and their medians are shown.
 * The load comes from wrk, which makes a header for each call, even if it then leaves the header out: on two cores the
 * load generator takes a part of the processor time that the server would have.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { optionsOf } from '../options.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const values = optionsOf({
  rounds: { type: 'string', default: '7' },
  seconds: { type: 'string', default: '2' },
  connections: { type: 'string', default: '64' },
  expire: { type: 'string', default: '1' },
  dir: { type: 'string' },
});
const connections = Number(values.connections);
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

const HEADERS = { none: '', 'another header': 'x-idempotency-kei', key: 'idempotency-key' } as const;
type HeaderName = keyof typeof HEADERS;
const NAMES = Object.keys(HEADERS) as HeaderName[];

interface Sample {
  readonly perSecond: number;
  readonly cpuMicroseconds: number;
}

await using scratch = await scratchFolder(values.dir);
await using servers = new AsyncDisposableStack();
await printSitting(`${rounds} × ${seconds} s, ${connections} connections`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), 1);
const expire = ['--idempotency-secs', values.expire];
await mkdir(join(scratch.path, 'work'), { recursive: true });
const cases: readonly (readonly [name: string, server: SvcProcess])[] = [
  ['in memory', servers.use(await startSvc({ manifest, args: expire }))],
  ['--state', servers.use(await startSvc({ manifest, args: ['--state', join(scratch.path, 'state'), ...expire] }))],
];
let loads = 0;
for (const [, server] of cases) for (const header of NAMES) await measure(server, header, 1);
for (const [name, server] of cases) {
  const samples = new Map<HeaderName, Sample[]>(NAMES.map((header) => [header, []]));
  for (let round = 0; round < rounds; round++) {
    // The order changes, so that no header is always the first.
    const order = NAMES.map((_, at) => NAMES[(at + round) % NAMES.length] ?? 'none');
    for (const header of order) samples.get(header)?.push(await measure(server, header, seconds));
  }
  const of = (header: HeaderName): readonly Sample[] => samples.get(header) ?? [];
  for (const header of NAMES) {
    const perSecond = median(of(header).map((sample) => sample.perSecond));
    const cpu = median(of(header).map((sample) => sample.cpuMicroseconds));
    printFigure(`${name}, ${header}`, perSecond, 'calls/s', `${cpu.toFixed(1)} µs of CPU a call`);
  }
  const ratio = (a: HeaderName, b: HeaderName, what: keyof Sample): number =>
    median(of(a).map((sample, at) => sample[what] / (of(b)[at]?.[what] ?? Number.NaN)));
  const goal = { is: 'at least', reach: 0.9, aim: 0.96 } as const;
  printFigure(`${name}: throughput with a key / without`, ratio('key', 'none', 'perSecond'), '', '', goal);
  printFigure(`${name}: throughput with a key / with another header`, ratio('key', 'another header', 'perSecond'), '');
  printFigure(`${name}: CPU with a key / without`, ratio('key', 'none', 'cpuMicroseconds'), '');
}

async function measure(server: SvcProcess, header: HeaderName, forSeconds: number): Promise<Sample> {
  const before = server.cpuMicroseconds() ?? Number.NaN;
  // The key has the length of a UUID; none comes twice.
  const prefix = `8e03978e-40d5-43dd-${String(++loads).padStart(4, '0')}-`;
  const numbered = { name: HEADERS[header] || HEADERS.key, prefix, isSent: header !== 'none' };
  const request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS, numbered } as const;
  const { requests, requestsPerSecond, errors } = await load(server.origin, request, connections, forSeconds);
  if (errors > 0) throw new Error(`${errors} calls of ${requests} were not answered with 2xx`);
  const after = server.cpuMicroseconds() ?? Number.NaN;
  return { perSecond: requestsPerSecond, cpuMicroseconds: (after - before) / requests };
}
