/**
 * Measures reads and updates of a real actor through HTTP, against the least that fastify can do and against workerd,
 * on this machine in this sitting.
 *
 *   node benchmarks/macro/http.bench.ts [--connections 1,16,64] [--seconds 2] [--rounds 3] [--json]
 *
 * svc runs as its users run it: `node config/svc.js` with the example counter, in memory. All servers are up at the
 * same time and are loaded in turn, round after round, so that a slow minute of the machine hits all of them; medians
 * over the rounds are shown. On a shared machine the ratios and the processor time a request mean more than the
 * requests a second. workerd takes part if it is installed: `npm install --prefix benchmarks`.
 */
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import type { Goal } from '../figures.ts';
import { load, loadGenerator, type LoadResult, type Request } from './load.ts';
import { freePort, type ServerProcess, startProcess } from './server-process.ts';
import { printFigure } from './sitting.ts';
import { workerdBinary } from './workerd-process.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');
/** Motoko examples are compiled at the first start. */
const COLD_START_MS = 120_000;
const RIVAL_START_MS = 20_000;
const WARM_UP_SECONDS = 2;

interface Case {
  readonly label: string;
  readonly server: ServerProcess;
  readonly request: Request;
}

interface Figures extends LoadResult {
  readonly cpuMicroseconds: number | undefined;
}

const values = optionsOf({
  connections: { type: 'string', default: '1,16,64' },
  seconds: { type: 'string', default: '2' },
  rounds: { type: 'string', default: '3' },
  json: { type: 'boolean', default: false },
});
const connectionCounts = values.connections.split(',').map(Number);
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

await using servers = new AsyncDisposableStack();
const cases = await startAll(servers);
for (const { server, request } of cases) await load(server.origin, request, 16, WARM_UP_SECONDS);

const samples = new Map<string, Figures[]>();
for (let round = 0; round < rounds; round++) {
  for (const connections of connectionCounts) {
    for (const { label, server, request } of cases) {
      const key = keyOf(label, connections);
      samples.set(key, [...(samples.get(key) ?? []), await measure(server, request, connections)]);
    }
  }
}
const errors = [...samples].filter(([, figures]) => figures.some((figure) => figure.errors > 0));
print();
for (const [key] of errors) complain(`${key}: some answers were not 2xx; its figures mean nothing`);
process.exitCode = errors.length === 0 ? 0 : 1;

async function startAll(stack: AsyncDisposableStack): Promise<readonly Case[]> {
  const started: Case[] = [];
  const start = async (
    file: string,
    argsOf: (port: number) => readonly string[],
    readyPath: string,
    readyDeadlineMs: number,
  ) => {
    const port = await freePort();
    return stack.use(
      await startProcess(`http://127.0.0.1:${port}`, { file, args: argsOf(port), readyPath, readyDeadlineMs }),
    );
  };
  const svc = await start(
    process.execPath,
    (port) => [
      here('../../config/svc.js'),
      '--manifest',
      here('../../config/examples/actors.json'),
      '--listen',
      `127.0.0.1:${port}`,
    ],
    '/health/ready',
    COLD_START_MS,
  );
  const raw = (path: string): Request => ({ method: 'POST', path, body: NO_ARGUMENTS });
  const json = (path: string): Request => ({ method: 'POST', path, body: Buffer.from('[]') });
  started.push(
    { label: 'svc read', server: svc, request: raw('/query/counter/get') },
    { label: 'svc update', server: svc, request: raw('/call/counter/inc') },
    { label: 'svc read json', server: svc, request: json('/query-json/counter/get') },
    { label: 'svc update json', server: svc, request: json('/call-json/counter/inc') },
  );
  const floor = await start(process.execPath, (port) => [here('fastify-floor.ts'), String(port)], '/', RIVAL_START_MS);
  const by = Buffer.from('{"by":1}');
  started.push({
    label: 'fastify floor',
    server: floor,
    request: { method: 'POST', path: '/', body: by, contentType: 'application/json' },
  });
  const binary = workerdBinary();
  if (binary === undefined) complain('workerd is not installed (npm install --prefix benchmarks): it is left out');
  else {
    const workerd = await start(
      binary,
      (port) => ['serve', here('workerd/config.capnp'), `--socket-addr=http=127.0.0.1:${port}`],
      '/',
      RIVAL_START_MS,
    );
    started.push(
      { label: 'workerd read', server: workerd, request: { method: 'GET', path: '/' } },
      { label: 'workerd update', server: workerd, request: { method: 'POST', path: '/' } },
    );
  }
  return started;
}

async function measure(server: ServerProcess, request: Request, connections: number): Promise<Figures> {
  const before = server.cpuMicroseconds();
  const result = await load(server.origin, request, connections, seconds);
  const after = server.cpuMicroseconds();
  const isKnown = before !== undefined && after !== undefined && result.requests > 0;
  return { ...result, cpuMicroseconds: isKnown ? (after - before) / result.requests : undefined };
}

function print(): void {
  const labels = cases.map(({ label }) => label);
  const table = labels.flatMap((label) =>
    connectionCounts.map((connections) => ({
      label,
      connections,
      ...medianOf(samples.get(keyOf(label, connections)) ?? []),
    })),
  );
  if (values.json) {
    console.log(
      JSON.stringify({
        node: process.versions.node,
        cpu: cpus()[0]?.model,
        cores: cpus().length,
        loadGenerator,
        seconds,
        rounds,
        table,
      }),
    );
    return;
  }
  console.log(
    `Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, ${loadGenerator}, ${rounds} × ${seconds} s, medians\n`,
  );
  console.log(row('', 'conns', 'req/s', 'p50 ms', 'p99 ms', 'CPU µs', '/ floor', '/ workerd'));
  for (const { label, connections, requestsPerSecond, p50Ms, p99Ms, cpuMicroseconds } of table) {
    const against = (rival: string): string => {
      const other = medianOf(samples.get(keyOf(rival, connections)) ?? []).requestsPerSecond;
      return label === rival || !(other > 0) ? '' : (requestsPerSecond / other).toFixed(2);
    };
    const kind = label.includes('update') ? 'update' : 'read';
    console.log(
      row(
        label,
        String(connections),
        requestsPerSecond.toFixed(0),
        p50Ms.toFixed(3),
        p99Ms.toFixed(3),
        cpuMicroseconds?.toFixed(1) ?? '',
        against('fastify floor'),
        label.startsWith('svc') ? against(`workerd ${kind}`) : '',
      ),
    );
  }
  printGoals();
}

/** The ratios that have goals. */
function printGoals(): void {
  console.log();
  const of = (label: string, connections: number): Figures => medianOf(samples.get(keyOf(label, connections)) ?? []);
  const ratio = (name: string, [a, b]: readonly [string, string], pick: keyof Figures, goal: Goal): void => {
    for (const connections of connectionCounts.filter((each) => each > 1)) {
      const value = (of(a, connections)[pick] ?? Number.NaN) / (of(b, connections)[pick] ?? Number.NaN);
      printFigure(`${name}, ${connections} connections`, value, '', '', goal);
    }
  };
  const cpu: Goal = { is: 'at most', reach: 1.8, aim: 1.5 };
  ratio("CPU of a read / fastify's floor", ['svc read', 'fastify floor'], 'cpuMicroseconds', cpu);
  ratio("CPU of an update / fastify's floor", ['svc update', 'fastify floor'], 'cpuMicroseconds', cpu);
  const json: Goal = { is: 'at most', reach: 1.2, aim: 1.1 };
  ratio('CPU of /call-json / /call', ['svc update json', 'svc update'], 'cpuMicroseconds', json);
  const floor: Goal = { is: 'at least', reach: 0.62, aim: 0.8 };
  ratio("read / fastify's floor", ['svc read', 'fastify floor'], 'requestsPerSecond', floor);
  if (!cases.some(({ label }) => label === 'workerd read')) return;
  ratio('read / workerd', ['svc read', 'workerd read'], 'requestsPerSecond', { is: 'at least', reach: 4.5, aim: 5.5 });
}

/** Prints a complaint to stderr, apart from the figures on stdout. */
function complain(text: string): void {
  process.stderr.write(`${text}\n`);
}

function row(label: string, ...columns: readonly string[]): string {
  return label.padEnd(16) + columns.map((column) => column.padStart(11)).join('');
}

function keyOf(label: string, connections: number): string {
  return `${label}, ${connections} connections`;
}

/** Returns the median of each figure. */
function medianOf(figures: readonly Figures[]): Figures {
  const median = (pick: (figure: Figures) => number | undefined): number => {
    const sorted = figures.map((figure) => pick(figure) ?? Number.NaN).toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  };
  const cpu = median((figure) => figure.cpuMicroseconds);
  return {
    requests: median((figure) => figure.requests),
    requestsPerSecond: median((figure) => figure.requestsPerSecond),
    p50Ms: median((figure) => figure.p50Ms),
    p99Ms: median((figure) => figure.p99Ms),
    errors: median((figure) => figure.errors),
    cpuMicroseconds: Number.isNaN(cpu) ? undefined : cpu,
  };
}
