/**
 * Measures certified updates, queries and `read_state` of Internet Computer clients, beside `/call` of the same server.
 *
 *   node benchmarks/macro/agents.bench.ts [--seconds 4] [--rounds 3] [--dir FOLDER]
 *
 * A client needs 20 to 40 ms of processor time to verify one certificate, more than the server to make it. So requests
 * are made and signed before a load, each is sent once, by wrk (a Debian package), and a sample of the answers is
 * verified behind each load. Times of the main thread are those of the thread that has the process's id.
 */
import { join } from 'node:path';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import {
  certified,
  cborOf,
  contentOf,
  envelopeOf,
  newSigner,
  readContent,
  rootKeyOf,
  send,
} from '../../test/subsystems/agents/raw-agent.ts';
import { signatureOf } from '../../subsystems/certification/curve/index.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import type { Goal } from '../figures.ts';
import { optionsOf } from '../options.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { load, type LoadResult, type Request } from './load.ts';
import { startProbe } from './pause-probe.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { mainThreadMicrosecondsOf } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const values = optionsOf({
  seconds: { type: 'string', default: '4' },
  rounds: { type: 'string', default: '3' },
  dir: { type: 'string' },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

const CBOR = 'application/cbor';
/** Requests made for each second of a load, by the greatest rate that is expected of it. */
const MADE_A_SECOND = 16_000;
const VERIFIED_A_LOAD = 3;
const PROBE_MS = 5;
const SIGNATURES = 50;

interface Loaded extends LoadResult {
  /** Microseconds of the main thread a request. */
  readonly mainMicroseconds: number;
}

await using scratch = await scratchFolder(values.dir);
await using servers = new AsyncDisposableStack();
await printSitting(`${rounds} × ${seconds} s`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), 1);
const inMemory = servers.use(await startSvc({ manifest, args: [] }));
const durable = servers.use(await startSvc({ manifest, args: ['--state', join(scratch.path, 'state')] }));
const actor = await actorOf(inMemory);
const signer = newSigner();
const CALL = `/api/v4/canister/${actor.principal}/call`;
const QUERY = `/api/v3/canister/${actor.principal}/query`;
const READ = `/api/v3/canister/${actor.principal}/read_state`;

await oneByOne();
for (const connections of [64, 256] as const) await updates(connections);
await signedUpdates();
await queries();
await beside();
await reads();

/** Prints the latency of one update at a time beside the time of the signature that it waits for. */
async function oneByOne(): Promise<void> {
  const secret = bls12_381.utils.randomSecretKey();
  const times: number[] = [];
  for (let at = 0; at < SIGNATURES; at++) {
    const start = performance.now();
    signatureOf(Buffer.from(`message ${at}`), secret);
    times.push(performance.now() - start);
  }
  const signMs = median(times);
  printFigure('a signature of the root key', signMs, 'ms');
  for (const [name, server, moreMs] of [
    ['in memory', inMemory, 1],
    ['--state', durable, 1.2],
  ] as const) {
    const loaded = await measured(server, () => certifiedCalls(2000), 1);
    const p50 = median(loaded.map(({ p50Ms }) => p50Ms));
    const goal: Goal = { is: 'at most', reach: signMs + moreMs };
    printFigure(`certified update, 1 connection, ${name}: p50`, p50, 'ms', '', goal);
  }
}

async function updates(connections: 64 | 256): Promise<void> {
  const goal: Goal = { is: 'at least', reach: connections === 64 ? 6000 : 10_000 };
  const loaded = await measured(inMemory, () => certifiedCalls(MADE_A_SECOND), connections);
  printRate(`certified updates, anonymous, ${connections} connections`, loaded, goal);
}

async function signedUpdates(): Promise<void> {
  await using probe = startProbe(PROBE_MS, [inMemory.origin]);
  const pauses: number[] = [];
  const loaded = await measured(
    inMemory,
    () => certifiedCalls(MADE_A_SECOND / 2, true),
    64,
    async (run) => {
      probe.begin();
      const result = await run();
      const { samplesMs } = await probe.end();
      pauses.push(...(samplesMs[0] ?? []));
      return result;
    },
  );
  printRate('certified updates, Ed25519 senders, 64 connections', loaded, { is: 'at least', reach: 4500 });
  printFigure('  /health beside them: longest answer', Math.max(...pauses), 'ms');
}

async function queries(): Promise<void> {
  const bodies = (): Uint8Array[] =>
    made(MADE_A_SECOND * 1.5, () => cborOf(envelopeOf(contentOf('query', actor.id, 'get'))));
  const request = (): Request => ({ method: 'POST', path: QUERY, contentType: CBOR, bodies: bodies() });
  const loaded = await measured(inMemory, request, 16);
  printRate('queries, 16 connections', loaded, { is: 'at least', reach: 12_000 });
}

/** Prints what `/call` keeps of its own rate beside 1,000 certified updates a second. */
async function beside(): Promise<void> {
  const call: Request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS };
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const alone = await load(inMemory.origin, call, 16, seconds);
    // Clients that wait for 25 ms on average, and for an answer in about 7.
    const others = load(inMemory.origin, { ...certifiedCalls(2000), thinkMs: 25 }, 32, seconds);
    const shared = await load(inMemory.origin, call, 16, seconds);
    const { requestsPerSecond } = checked(await others, 2000 * seconds);
    ratios.push(shared.requestsPerSecond / alone.requestsPerSecond);
    printFigure('  certified updates beside /call', requestsPerSecond, 'a second');
  }
  printFigure('/call beside about 1,000 of them a second / alone', median(ratios), '', '', {
    is: 'at least',
    reach: 0.9,
  });
}

async function reads(): Promise<void> {
  const body = cborOf(envelopeOf(readContent([[Buffer.from('subnet')]])));
  const loaded = await measured(inMemory, () => ({ method: 'POST', path: READ, contentType: CBOR, body }), 16);
  printRate('read_state ["subnet"], 16 connections', loaded, { is: 'at least', reach: 20_000 });
}

function printRate(name: string, loaded: readonly Loaded[], goal: Goal): void {
  const rate = median(loaded.map(({ requestsPerSecond }) => requestsPerSecond));
  const main = median(loaded.map(({ mainMicroseconds }) => mainMicroseconds));
  printFigure(name, rate, 'a second', `${main.toFixed(1)} µs of the main thread each`, goal);
}

/** Loads the server in rounds, and verifies a sample of answers behind each. */
async function measured(
  server: SvcProcess,
  request: () => Request,
  connections: number,
  around: (run: () => Promise<LoadResult>) => Promise<LoadResult> = (run) => run(),
): Promise<readonly Loaded[]> {
  const all: Loaded[] = [];
  for (let round = 0; round < rounds; round++) {
    const next = request();
    const before = mainThreadMicrosecondsOf(server.pid);
    const result = checked(await around(() => load(server.origin, next, connections, seconds)), next.bodies?.length);
    const mainMicroseconds = (mainThreadMicrosecondsOf(server.pid) - before) / result.requests;
    all.push({ ...result, mainMicroseconds });
    for (let at = 0; at < VERIFIED_A_LOAD; at++) await verifyOne(server);
  }
  return all;
}

function checked(result: LoadResult, bodies: number | undefined): LoadResult {
  const { requests, errors } = result;
  if (errors > 0) throw new Error(`${errors} of ${requests} requests were not answered with 2xx`);
  // A request that comes again is not executed again.
  if (bodies !== undefined && requests > bodies) throw new Error(`more than ${bodies} requests were sent`);
  return result;
}

async function verifyOne(server: SvcProcess): Promise<void> {
  const fetching = { fetch: (path: string, init?: RequestInit) => fetch(server.origin + path, init) };
  const rootKey = await rootKeyOf(fetching);
  const answer = await send(fetching, CALL, envelopeOf(contentOf('call', actor.id, 'inc')));
  if (answer.status !== 200) throw new Error(`an update was answered with ${answer.status}: ${answer.text}`);
  certified(answer, rootKey);
}

function certifiedCalls(aSecond: number, isSigned = false): Request {
  const body = (): Uint8Array =>
    isSigned
      ? cborOf(envelopeOf(contentOf('call', actor.id, 'inc', signer.principal), signer))
      : cborOf(envelopeOf(contentOf('call', actor.id, 'inc')));
  return { method: 'POST', path: CALL, contentType: CBOR, bodies: made(aSecond, body) };
}

function made(aSecond: number, one: () => Uint8Array): Uint8Array[] {
  return Array.from({ length: aSecond * seconds }, one);
}

async function actorOf(server: SvcProcess): Promise<{ readonly id: Uint8Array; readonly principal: string }> {
  const actors = (await (await fetch(`${server.origin}/actors`)).json()) as readonly { readonly id: string }[];
  const id = Buffer.from(actors[0]?.id ?? '', 'hex');
  return { id, principal: principalToText(id) };
}
