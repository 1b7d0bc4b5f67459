/**
 * Measures HTTP's pauses under a minute of durable updates, against those of bare node:http in the same minute.
 *
 *   node benchmarks/macro/durable-pauses.bench.ts [--seconds 60] [--slices 6] [--connections 64] [--dir FOLDER]
 *       [--quick]
 *
 * A process of its own requests `/health` every 5 ms, without waiting for the answers, so that every request within a
 * pause shows it. svc (one actor, `--fsync always`) and bare node:http are loaded in turn, a slice of the time each,
 * `--seconds` of load for each in all: 64 connections, as fast as they answer. Neither is loaded faster than it can
 * serve, so both are busy all the time. While svc is loaded, an idle bare node:http is asked as well: its pauses are
 * those that the machine itself causes for programs beside svc.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator, type Request } from './load.ts';
import { type ProbeReport, startProbe } from './pause-probe.ts';
import { quantile } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { freePort, type ServerProcess, startProcess } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const EVERY_MS = 5;
const START_MS = 20_000;
const WARM_UP_SECONDS = 2;
const GOAL_MS = 50;

const values = optionsOf({
  seconds: { type: 'string', default: '60' },
  slices: { type: 'string', default: '6' },
  connections: { type: 'string', default: '64' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const slices = values.quick ? 1 : Number(values.slices);
const sliceSeconds = values.quick ? 2 : Math.max(1, Math.round(Number(values.seconds) / slices));
const connections = Number(values.connections);

await using scratch = await scratchFolder(values.dir);
await using servers = new AsyncDisposableStack();
await printSitting(loadGenerator, `${slices} slices of ${sliceSeconds} s each, ${connections} connections`);

const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), 1);
const args = ['--state', join(scratch.path, 'state'), '--fsync', 'always'];
const svc = servers.use(await startSvc({ manifest, args }));
const bare = servers.use(await startBare());
const neighbour = servers.use(await startBare());
const inc: Request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS };
const post: Request = { method: 'POST', path: '/', body: NO_ARGUMENTS };
const besideSvc = servers.use(startProbe(EVERY_MS, [svc.origin, neighbour.origin]));
const besideBare = servers.use(startProbe(EVERY_MS, [bare.origin]));
if (!values.quick) {
  await load(svc.origin, inc, connections, WARM_UP_SECONDS);
  await load(bare.origin, post, connections, WARM_UP_SECONDS);
}

const pauses = { svc: [] as number[], neighbour: [] as number[], bare: [] as number[] };
let ownPauseMs = 0;
let updates = 0;
for (let slice = 0; slice < slices; slice++) {
  const ofSvc = await slicing(besideSvc, svc, inc);
  updates += ofSvc.requests;
  pauses.svc.push(...(ofSvc.samplesMs[0] ?? []));
  pauses.neighbour.push(...(ofSvc.samplesMs[1] ?? []));
  const ofBare = await slicing(besideBare, bare, post);
  pauses.bare.push(...(ofBare.samplesMs[0] ?? []));
  ownPauseMs = Math.max(ownPauseMs, ofSvc.ownPauseMs, ofBare.ownPauseMs);
}
print();

async function startBare(): Promise<ServerProcess> {
  const port = await freePort();
  const file = fileURLToPath(new URL('http-floor.ts', import.meta.url));
  const command = { file: process.execPath, args: [file, String(port)], readyPath: '/', readyDeadlineMs: START_MS };
  return startProcess(`http://127.0.0.1:${port}`, command);
}

async function slicing(
  probe: ReturnType<typeof startProbe>,
  server: ServerProcess,
  request: Request,
): Promise<ProbeReport & { readonly requests: number }> {
  probe.begin();
  const { requests, errors } = await load(server.origin, request, connections, sliceSeconds);
  const report = await probe.end();
  if (errors + report.errors > 0) throw new Error(`${server.origin}: ${errors + report.errors} answers were not 2xx`);
  return { ...report, requests };
}

function print(): void {
  const cells = (samples: readonly number[]): string[] => [
    String(samples.length),
    ...[0.5, 0.99, 0.999, 1].map((share) => quantile(samples, share).toFixed(2)),
    String(samples.filter((ms) => ms > GOAL_MS).length),
  ];
  const row = (name: string, columns: readonly string[]): void =>
    console.log(name.padEnd(46) + columns.map((column) => column.padStart(10)).join(''));
  row('GET /health every 5 ms, ms', ['asked', 'p50', 'p99', 'p99.9', 'longest', `> ${GOAL_MS}`]);
  row('svc, loaded', cells(pauses.svc));
  row('bare node:http, loaded', cells(pauses.bare));
  row('bare node:http, idle, while svc is loaded', cells(pauses.neighbour));
  console.log(
    `\n${Math.round(updates / (slices * sliceSeconds))} durable updates/s; the probe itself stood still for ${ownPauseMs.toFixed(1)} ms at most\n`,
  );
  const longest = quantile(pauses.svc, 1);
  const floor = quantile(pauses.bare, 1);
  const goal = { is: 'at most', reach: GOAL_MS, aim: Math.round(floor * 10) / 10 } as const;
  printFigure('longest pause of HTTP under durable load', longest, 'ms', '', goal);
  printFigure('/ bare node:http under load', longest / floor, '×');
  printFigure('/ bare node:http, idle beside it', longest / quantile(pauses.neighbour, 1), '×');
}
