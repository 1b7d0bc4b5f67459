/**
 * Measures the cost of a website beside that of a query.
 *
 *   node benchmarks/macro/gateway.bench.ts [--connections 1,16,64] [--seconds 2] [--rounds 3]
 *
 * One server, one actor with one page (benchmarks/fixtures/page.mo), in memory. `/query of a number` is the counter's
 * `get`; `/query of the page` is a POST to `http_request` of the record that the gateway makes of a GET, and so the
 * actor's own cost; then comes the GET, by its path and, under `--web`, at the root. All are loaded in turn, round
 * after round; medians are shown. The processor time is the whole process's.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { COUNTER } from './actor-fixtures.ts';
import { load, type LoadResult, type Request } from './load.ts';
import { printFigure } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const values = optionsOf({
  connections: { type: 'string', default: '1,16,64' },
  seconds: { type: 'string', default: '2' },
  rounds: { type: 'string', default: '3' },
});
const connectionCounts = values.connections.split(',').map(Number);
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

const folder = await mkdtemp(join(tmpdir(), 'svc-gateway-'));
const manifest = join(folder, 'actors.json');
const page = fileURLToPath(new URL('../fixtures/page.mo', import.meta.url));
await writeFile(manifest, JSON.stringify({ actors: { counter: { main: COUNTER }, page: { main: page } } }));
await using server = await startSvc({ manifest, args: ['--web', 'page', '--site-hosts', '--browser-guard'] });

const record = createCodec().websites.encodeRequest(
  { method: 'GET', url: '/', headers: ['Host', '127.0.0.1:7000'], body: new Uint8Array(0) },
  false,
);
const NUMBER = '/query of a number';
const PAGE = '/query of the page';
const cases: Readonly<Record<string, Request>> = {
  [NUMBER]: { method: 'POST', path: '/query/counter/get', body: Buffer.from('4449444c0000', 'hex') },
  [PAGE]: { method: 'POST', path: '/query/page/http_request', body: record },
  'GET /site/page/': { method: 'GET', path: '/site/page/' },
  'GET / with --web': { method: 'GET', path: '/' },
};

interface Figures extends LoadResult {
  readonly cpuMicroseconds: number;
}
const samples = new Map<string, Figures[]>();
for (const request of Object.values(cases)) await load(server.origin, request, 16, 2);
for (let round = 0; round < rounds; round++) {
  for (const connections of connectionCounts) {
    for (const [label, request] of Object.entries(cases)) {
      const before = server.cpuMicroseconds() ?? Number.NaN;
      const result = await load(server.origin, request, connections, seconds);
      const cpuMicroseconds = ((server.cpuMicroseconds() ?? Number.NaN) - before) / result.requests;
      const key = `${label} ${connections}`;
      samples.set(key, [...(samples.get(key) ?? []), { ...result, cpuMicroseconds }]);
      if (result.errors > 0) throw new Error(`${label}: ${result.errors} of ${result.requests} failed`);
    }
  }
}

const median = (label: string, connections: number, pick: (figures: Figures) => number): number => {
  const sorted = (samples.get(`${label} ${connections}`) ?? []).map(pick).toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
};
const columns = (...cells: readonly string[]): string => cells.map((cell) => cell.padStart(10)).join('');
console.log(''.padEnd(20) + columns('conns', 'req/s', 'p50 ms', 'p99 ms', 'CPU µs', '/ number', '/ page'));
for (const label of Object.keys(cases)) {
  for (const connections of connectionCounts) {
    const of = (pick: (figures: Figures) => number): number => median(label, connections, pick);
    const rate = of(({ requestsPerSecond }) => requestsPerSecond);
    const against = (other: string): number => rate / median(other, connections, (each) => each.requestsPerSecond);
    const latency = [of(({ p50Ms }) => p50Ms), of(({ p99Ms }) => p99Ms)].map((ms) => ms.toFixed(3));
    const cpu = of(({ cpuMicroseconds }) => cpuMicroseconds).toFixed(1);
    const ratios = [against(NUMBER), against(PAGE)].map((ratio) => ratio.toFixed(2));
    console.log(label.padEnd(20) + columns(String(connections), rate.toFixed(0), ...latency, cpu, ...ratios));
  }
}
console.log();
const middle = connectionCounts[connectionCounts.length >> 1] ?? Number.NaN;
for (const label of Object.keys(cases).filter((each) => each.startsWith('GET'))) {
  const rate = (of: string): number => median(of, middle, ({ requestsPerSecond }) => requestsPerSecond);
  const goal = { is: 'at least', reach: 0.6, aim: 0.8 } as const;
  printFigure(`${label} / ${NUMBER}, ${middle} connections`, rate(label) / rate(NUMBER), '', '', goal);
}
await rm(folder, { recursive: true });
