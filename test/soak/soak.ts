/**
 * Works a host of 200 actors for long, with all that happens to one: calls, traps, upgrades, evictions, websites,
 * watchers, outcalls, and in the first eighth kills and restarts. Then one server goes on, which fills its caches. Its
 * memory, descriptors, disk and latency have to stay flat in the second half, and each counter must have what its
 * callers were told.
 *
 *   npm run soak [-- SECONDS [FILE]]
 *
 * FILE is a page with charts; by default it lies in the folder for temporary files.
 */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningServer, startServer } from '../support/server.ts';
import { COUNTERS, FETCHERS, type Host, NOTES, runClients, Tally, WEBSITES, WRITER, WRITERS } from './clients.ts';
import { complaintOf, type Point, type Series, trendOf } from './flat.ts';
import { pageOf } from './page.ts';

const EXAMPLES = join(import.meta.dirname, '../../config/examples');
/** Few enough that actors are put to sleep and woken all the time. */
const LIVE_CAP = 60;
/** Ends of servers, as shares of the whole time: by kill and in order, by turns. */
const RESTARTS = [1 / 24, 2 / 24, 3 / 24];
const SAMPLES = 240;
const SAMPLE_MS_MIN = 250;
/** A run of this length has its caches filled by its half; a shorter one may still grow more. */
const LONG_SECONDS = 300;
/** The tables take over a log that has reached 48 MiB, and what is written meanwhile is half as much at most. */
const LOG_MIB_MAX = 72;
/** RocksDB merges the tables' files when those that are garbage take about twice as much as the rest. */
const TABLES_MIB = 60;
/** Live actors have different sizes. */
const ACTORS_MIB = 20;
/** Garbage that an actor has made at the end of a message: Motoko collects it when there are tens of megabytes. */
const GARBAGE_BYTES = 1024;
const MIB = 1024 ** 2;

interface SoakOptions {
  readonly seconds: number;
  /** Environment of the servers besides that of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Ends of servers, as shares of the whole time; default: RESTARTS. */
  readonly ends?: readonly number[];
}

interface Soaked {
  readonly series: readonly Series[];
  /** Moments of restarts, in seconds. */
  readonly restarts: readonly number[];
  readonly done: ReadonlyMap<string, number>;
  /** Reasons why the host has not passed; none: it has. */
  readonly complaints: readonly string[];
}

export async function soak({ seconds, env = {}, ends: restartsAt = RESTARTS }: SoakOptions): Promise<Soaked> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-soak-'));
  const ends: (() => Promise<void>)[] = [];
  const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
  const outside = await startOutside(owner);
  const state = join(folder, 'state');
  await writeFile(join(folder, 'writer.wasm'), WRITER);
  await writeFile(join(folder, 'actors.json'), manifestText());
  const start = (): Promise<RunningServer> =>
    startServer(owner, {
      manifestFile: join(folder, 'actors.json'),
      args: ['--state', state, '--live-cap', String(LIVE_CAP), '--log-json'],
      env,
    });
  try {
    return await run({ seconds, start, outside, restartsAt });
  } finally {
    for (const end of ends) await end();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Run {
  readonly seconds: number;
  readonly start: () => Promise<RunningServer>;
  readonly outside: string;
  readonly restartsAt: readonly number[];
}

async function run({ seconds, start, outside, restartsAt }: Run): Promise<Soaked> {
  let server = await start();
  const host: { -readonly [K in keyof Host]: Host[K] } = { origin: server.origin, isOver: false };
  const tally = new Tally();
  const samples = new Samples();
  const complaints: string[] = [];
  const restarts: number[] = [];
  const working = runClients(host, tally, outside);
  const beganMs = performance.now();
  const elapsed = (): number => (performance.now() - beganMs) / 1000;
  while (elapsed() < seconds) {
    const next = restartsAt[restarts.length];
    if (next !== undefined && elapsed() > next * seconds) {
      host.origin = undefined;
      if (restarts.length % 2 === 0) await server.kill();
      else complaints.push(...(await endOf(server)));
      server = await start();
      restarts.push(elapsed());
      host.origin = server.origin;
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(SAMPLE_MS_MIN, (seconds * 1000) / SAMPLES)));
    await samples.take(elapsed(), { pid: server.process.pid ?? 0, origin: server.origin, tally });
  }
  host.isOver = true;
  await working;
  complaints.push(...(await lostCounts(server, tally)), ...(await endOf(server)), ...wrongText(tally));
  const series = samples.series(seconds);
  for (const each of series) {
    const complaint = complaintOf(each);
    if (complaint !== undefined) complaints.push(complaint);
  }
  return { series, restarts, done: tally.done, complaints };
}

async function endOf(server: RunningServer): Promise<readonly string[]> {
  const code = await server.stop();
  return code === 0 ? [] : [`a server ended with ${code}: ${server.output.stderr.slice(-4000)}`];
}

function wrongText({ wrong }: Tally): readonly string[] {
  return wrong.length === 0 ? [] : [`${wrong.length} requests went wrong, such as: ${wrong.slice(0, 3).join('; ')}`];
}

/** Compares each counter with what its callers were told. */
async function lostCounts(server: RunningServer, { answered, lost }: Tally): Promise<readonly string[]> {
  const complaints: string[] = [];
  for (let at = 0; at < COUNTERS; at++) {
    const { body } = await server.post(`/query-json/counter-${at}/get`);
    const [count = Number.NaN] = JSON.parse(body) as number[];
    const [least = 0, more = 0] = [answered[at], lost[at]];
    if (!(count >= least && count <= least + more))
      complaints.push(`counter-${at} has ${count}: ${least} were answered, ${more} lost`);
  }
  return complaints;
}

interface Sampled {
  readonly pid: number;
  readonly origin: string;
  readonly tally: Tally;
}

class Samples {
  readonly #memory: Point[] = [];
  readonly #actors: Point[] = [];
  readonly #descriptors: Point[] = [];
  readonly #disk: Point[] = [];
  readonly #log: Point[] = [];
  readonly #latency: Point[] = [];
  readonly #requests: Point[] = [];

  async take(at: number, { pid, origin, tally }: Sampled): Promise<void> {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    this.#descriptors.push({ at, value: readdirSync(`/proc/${pid}/fd`).length });
    const page = await (await fetch(`${origin}/metrics`)).text();
    const bytesOf = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1]);
    const actors = bytesOf('svc_memory_bytes') / MIB;
    this.#actors.push({ at, value: actors });
    this.#memory.push({ at, value: Number(/^VmRSS:\s*(\d+)/m.exec(status)?.[1]) / 1024 - actors });
    this.#requests.push({ at, value: [...tally.done.values()].reduce((sum, each) => sum + each, 0) });
    const logBytes = bytesOf('svc_log_bytes');
    this.#log.push({ at, value: logBytes / MIB });
    this.#disk.push({ at, value: (bytesOf('svc_state_bytes') - logBytes) / MIB });
    const sorted = tally.latencies.toSorted((one, other) => one - other);
    tally.latencies = [];
    const median = sorted[sorted.length >> 1];
    if (median !== undefined) this.#latency.push({ at, value: median });
  }

  /** A short run is judged more leniently: caches are still being filled. */
  series(seconds: number): readonly Series[] {
    const isLong = seconds >= LONG_SECONDS;
    const garbage = (trendOf(this.#requests).growth * GARBAGE_BYTES) / MIB;
    const actors = { mayGrow: 0.05, mayGrowBy: ACTORS_MIB + garbage };
    return [
      { name: "Memory besides actors'", unit: 'MiB', points: this.#memory, mayGrow: 0.05, mayGrowBy: isLong ? 0 : 250 },
      // Clients make no actor larger, but for garbage.
      { name: 'Memory of actors', unit: 'MiB', points: this.#actors, ...actors },
      { name: 'Number of descriptors', unit: 'open', points: this.#descriptors, mayGrow: isLong ? 0.05 : 0.3 },
      // A saw, too.
      { name: 'State in tables', unit: 'MiB', points: this.#disk, mayGrow: 0.1, mayGrowBy: TABLES_MIB },
      // The log is a saw: it grows until the tables take it over.
      { name: 'Step log', unit: 'MiB', points: this.#log, mayGrow: 0, mayGrowBy: LOG_MIB_MAX },
      { name: 'Median of calls', unit: 'ms', points: this.#latency, mayGrow: isLong ? 0.3 : 3 },
    ];
  }
}

function manifestText(): string {
  const actors: Record<string, { main: string } | { wasm: string }> = {};
  const add = (name: string, count: number, main: string): void => {
    for (let at = 0; at < count; at++) actors[`${name}-${at}`] = { main: join(EXAMPLES, main) };
  };
  add('counter', COUNTERS, 'counter/Counter.mo');
  add('website', WEBSITES, 'website/Website.mo');
  add('notes', NOTES, 'notes/Notes.mo');
  add('fetcher', FETCHERS, 'fetcher/Fetcher.mo');
  for (let at = 0; at < WRITERS; at++) actors[`writer-${at}`] = { wasm: './writer.wasm' };
  return JSON.stringify({ actors });
}

/** Starts the server that actors ask; returns its address. */
async function startOutside(owner: { after(end: () => Promise<void>): void }): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"hello":"soak"}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  owner.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const USAGE = `npm run soak [-- SECONDS [FILE]]
  SECONDS    length of the run; default: 600
  FILE       page for the charts; default: one in the folder for temporary files
`;

if (import.meta.main) {
  const [first = '600', file = join(tmpdir(), 'svc-soak.html'), ...more] = process.argv.slice(2);
  const seconds = Number(first);
  if (!(seconds > 0 && Number.isFinite(seconds)) || more.length > 0) {
    const isAsked = first === '--help';
    (isAsked ? process.stdout : process.stderr).write(USAGE);
    process.exit(isAsked ? 0 : 2);
  }
  const { series, restarts, done, complaints } = await soak({ seconds });
  await writeFile(file, pageOf(`Soak of ${seconds} s, 200 actors`, series, restarts));
  for (const [kind, count] of done) console.log(`${kind}: ${count}`);
  for (const complaint of complaints) console.log(`FAILED ${complaint}`);
  console.log(`charts: ${file}`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}
