/**
 * Measures the cost of an outcall beyond that of a bare undici request.
 *
 *   node benchmarks/macro/outcalls.bench.ts [--calls 2000] [--rounds 5] [--bytes 300] [--warm-up 60000] [--quick]
 *
 * An actor requests a small document from a local server, again and again, in one message: each outcall is the actor's
 * call, the management canister, the request, its answer and the actor's callback. Beside it a process that only runs
 * undici's `request` in a loop sends as many requests to the same server. Both begin warm (`--warm-up`), and take
 * turns. The cost is wall time and CPU time (all threads) of one outcall less those of one request: medians of the
 * rounds. A transform adds a query of the actor to each. A third server keeps state (`--state`): its outcalls wait for
 * the disk's flush before they leave.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { optionsOf } from '../options.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { report } from '../figures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { cpuMicrosecondsOf } from './server-process.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const BARE = '--bare';
const REACH_MS = 1;
const REACH_CPU_US = 150;
/**
 * Outcalls before the measurement: V8 compiles hot code step by step, and its own threads take up to 90 µs of each
 * meanwhile. The last step comes after some 50,000 outcalls, of which the main thread and the executor then take a
 * sixth less. The times of the first outcalls, and of those after `EARLY_CALLS`, are reported separately.
 */
const FIRST_CALLS = 300;
const EARLY_CALLS = 6000;
const WARM_UP_CALLS = 60_000;

const ASKER = `
persistent actor {
  type Header = { name : Text; value : Text };
  type Response = { status : Nat; headers : [Header]; body : Blob };
  type Args = { response : Response; context : Blob };
  transient let management = actor "aaaaa-aa" : actor {
    http_request : ({ url : Text; max_response_bytes : ?Nat64; method : { #get; #head; #post }; headers : [Header]; body : ?Blob;
      transform : ?{ function : shared query Args -> async Response; context : Blob } }) -> async Response;
  };
  public query func tidy({ response } : Args) : async Response { { response with headers = [] } };
  public func ask(url : Text, times : Nat, isTransformed : Bool) : async Nat {
    var bytes = 0;
    var left = times;
    while (left > 0) {
      left -= 1;
      let transform = if (isTransformed) ?{ function = tidy; context = "" : Blob } else null;
      let response = await management.http_request({
        url; max_response_bytes = ?10_000; method = #get; headers = []; body = null; transform;
      });
      bytes += response.body.size();
    };
    bytes;
  };
};`;

interface Cost {
  readonly ms: number;
  readonly cpuUs: number;
}
type Ask = (times: number) => Promise<Cost>;

if (process.argv[2] === BARE) await askBare(process.argv[3] ?? '');
else await compare();

/** The process with bare requests: it gets their number, and answers with their cost. */
async function askBare(url: string): Promise<void> {
  const { request } = await import('undici');
  process.on('message', (times: number) => {
    void (async () => {
      const before = process.cpuUsage();
      const startedMs = performance.now();
      for (let left = times; left > 0; left--) {
        const { body } = await request(url, { headers: { 'user-agent': 'ic/1.0', 'accept-encoding': 'identity' } });
        await body.arrayBuffer();
      }
      const ms = performance.now() - startedMs;
      const { user, system } = process.cpuUsage(before);
      process.send?.({ ms: ms / times, cpuUs: (user + system) / times } satisfies Cost);
    })();
  });
  process.on('disconnect', () => process.exit());
}

async function compare(): Promise<void> {
  const values = optionsOf({
    calls: { type: 'string', default: '2000' },
    rounds: { type: 'string', default: '5' },
    bytes: { type: 'string', default: '300' },
    'warm-up': { type: 'string', default: String(WARM_UP_CALLS) },
    quick: { type: 'boolean', default: false },
  });
  const [calls, rounds, warmUp] = values.quick
    ? [200, 1, 300]
    : [Number(values.calls), Number(values.rounds), Number(values['warm-up'])];
  await using scratch = await scratchFolder(undefined);
  const document = JSON.stringify({ text: 'x'.repeat(Math.max(0, Number(values.bytes) - 11)) });
  const outside = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(document);
  });
  outside.listen(0, '127.0.0.1');
  await once(outside, 'listening');
  const url = `http://127.0.0.1:${(outside.address() as AddressInfo).port}/document`;

  const bare = fork(import.meta.filename, [BARE, url]);
  const { wasm } = await compileMotoko(ASKER);
  const manifest = join(scratch.path, 'actors.json');
  await writeFile(manifest, '{"actors":{}}');
  const servers = await Promise.all(
    [[], ['--state', join(scratch.path, 'state')]].map(async (args) => {
      const server = await startSvc({ manifest, args });
      const installed = await fetch(`${server.origin}/install/asker`, { method: 'POST', body: Buffer.from(wasm) });
      if (!installed.ok) throw new Error(await installed.text());
      return server;
    }),
  );
  const [inMemory, durable] = servers;
  if (inMemory === undefined || durable === undefined) throw new Error('two servers were started');
  const ways: readonly (readonly [name: string, ask: Ask])[] = [
    ['a bare undici request', (times) => askOf(bare, times)],
    ['an outcall', (times) => askThrough(inMemory, url, times, false)],
    ['an outcall with a transform', (times) => askThrough(inMemory, url, times, true)],
    ['an outcall with --state', (times) => askThrough(durable, url, times, false)],
  ];
  const costs = ways.map((): Cost[] => []);
  const first = [];
  for (const [, ask] of ways) first.push(await ask(FIRST_CALLS));
  // Only the two ways that are compared.
  const earlyCalls = Math.min(EARLY_CALLS, warmUp);
  const early = [];
  for (const [, ask] of ways.slice(0, 2)) {
    await ask(earlyCalls);
    early.push(await ask(calls));
    await ask(Math.max(1, warmUp - earlyCalls - calls));
  }
  for (let round = 0; round < rounds; round++)
    for (const [at, [, ask]] of ways.entries()) costs[at]?.push(await ask(calls));

  const [bareMs, bareCpuUs] = [
    median(costs[0]?.map(({ ms }) => ms) ?? []),
    median(costs[0]?.map(({ cpuUs }) => cpuUs) ?? []),
  ];
  for (const [at, [name]] of ways.entries()) {
    const ms = median(costs[at]?.map((cost) => cost.ms) ?? []);
    const cpuUs = median(costs[at]?.map((cost) => cost.cpuUs) ?? []);
    if (at === 0) {
      report({ panel: 'time', name, value: ms * 1000, unit: 'µs' });
      report({ panel: 'time', name: `${name}, CPU`, value: cpuUs, unit: 'µs' });
      continue;
    }
    // Only this way has a goal; the disk and the transform are more than the request.
    const isPromised = at === 1;
    const firstCpuUs = (first[at]?.cpuUs ?? Number.NaN) - (first[0]?.cpuUs ?? Number.NaN);
    report({ panel: 'time', name: `${name}, more CPU, the first ${FIRST_CALLS}`, value: firstCpuUs, unit: 'µs' });
    const earlyCpuUs = (early[at]?.cpuUs ?? Number.NaN) - (early[0]?.cpuUs ?? Number.NaN);
    if (isPromised)
      report({
        panel: 'time',
        name: `${name}, more CPU, after ${earlyCalls}`,
        value: earlyCpuUs,
        unit: 'µs',
      });
    report({
      panel: 'time',
      name: `${name}, more`,
      value: ms - bareMs,
      unit: 'ms',
      ...(isPromised && { reach: REACH_MS }),
    });
    report({
      panel: 'time',
      name: `${name}, more CPU`,
      value: cpuUs - bareCpuUs,
      unit: 'µs',
      ...(isPromised && { reach: REACH_CPU_US }),
    });
  }
  bare.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
  outside.closeAllConnections();
  outside.close();
}

async function askOf(bare: ChildProcess, times: number): Promise<Cost> {
  bare.send(times);
  const [cost] = (await once(bare, 'message')) as [Cost];
  return cost;
}

async function askThrough(
  { origin, pid }: SvcProcess,
  url: string,
  times: number,
  isTransformed: boolean,
): Promise<Cost> {
  const before = cpuMicrosecondsOf(pid) ?? Number.NaN;
  const startedMs = performance.now();
  const response = await fetch(`${origin}/call-json/asker/ask`, {
    method: 'POST',
    body: JSON.stringify([url, times, isTransformed]),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  const ms = performance.now() - startedMs;
  return { ms: ms / times, cpuUs: ((cpuMicrosecondsOf(pid) ?? Number.NaN) - before) / times };
}
