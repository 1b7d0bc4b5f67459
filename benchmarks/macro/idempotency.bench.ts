/**
 * What does an `Idempotency-Key` on every call cost, in memory and with `--state`?
 *
 *   node benchmarks/macro/idempotency.bench.ts [--rounds 7] [--seconds 2] [--connections 64] [--expire 1] [--dir FOLDER]
 *
 * A counter is incremented without a header, with a header of the same length that means nothing, and with a key that is new
 * each time. Keys expire after `--expire` seconds, so that forgetting them is measured, too. All servers are up at the same time
 * and loaded in turn, round after round; ratios are taken within a round, shown are their medians. The load comes from this
 * process, which on two cores is part of the limit: processor time a call means more than calls a second.
 */
import { mkdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
    expire: { type: 'string', default: '1' },
    dir: { type: 'string' },
  },
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
let keys = 0;
for (const [, server] of cases) for (const header of NAMES) await measure(server, header, 1);
for (const [name, server] of cases) {
  const samples = new Map<HeaderName, Sample[]>(NAMES.map((header) => [header, []]));
  for (let round = 0; round < rounds; round++) {
    // So that none is always the first.
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
  const startMs = performance.now();
  const endMs = startMs + forSeconds * 1000;
  const counts = await Promise.all(Array.from({ length: connections }, () => callUntil(server.origin, header, endMs)));
  const calls = counts.reduce((sum, count) => sum + count, 0);
  const elapsedMs = performance.now() - startMs;
  const after = server.cpuMicroseconds() ?? Number.NaN;
  return { perSecond: (calls / elapsedMs) * 1000, cpuMicroseconds: (after - before) / calls };
}

/** One connection that calls again as soon as it is answered. */
function callUntil(origin: string, header: HeaderName, endMs: number): Promise<number> {
  const { hostname, port, host } = new URL(origin);
  const head = `POST /call/a0/inc HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${NO_ARGUMENTS.length}\r\n`;
  const body = `\r\n${NO_ARGUMENTS.toString('latin1')}`;
  const name = HEADERS[header];
  const next = (): string =>
    name === '' ? '' : `${name}: 8e03978e-40d5-43dd-bc93-${String(++keys).padStart(12, '0')}\r\n`;
  return new Promise((resolve, reject) => {
    let count = 0;
    const socket = connect({ host: hostname, port: Number(port) });
    const call = (): void => void socket.write(head + next() + body, 'latin1');
    socket.on('error', reject);
    socket.setNoDelay(true);
    socket.once('connect', call);
    // Answers of a counter come in one piece.
    socket.on('data', (answer: Buffer) => {
      if (answer.toString('latin1', 9, 12) !== '200') {
        reject(new Error(answer.toString('latin1')));
        socket.destroy();
        return;
      }
      count++;
      if (performance.now() < endMs) call();
      else {
        socket.destroy();
        resolve(count);
      }
    });
  });
}
