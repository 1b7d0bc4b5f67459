/**
 * Measures how long an actor does not answer while it moves to another shard, under 100 calls a second.
 *
 *   node benchmarks/macro/actor-moves.bench.ts [--moves 10] [--chunks 50]
 *
 * Two servers of one service over Debian's PostgreSQL on this machine, with its own defaults, in a temporary directory.
 * One actor is a counter, the other has a heap of 50 chunks of 4 MB. Calls are sent every 10 ms, to the two servers by
 * turns, whether earlier ones were answered or not. The figure of a move is the longest time between two answers.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileMotoko } from '../../test/support/motoko.ts';
import { startPostgres } from '../../test/support/postgres.ts';
import type { Goal } from '../figures.ts';
import { optionsOf } from '../options.ts';
import { COUNTER, manifestOf } from './actor-fixtures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const EVERY_MS = 10;
const CALM_MS = 500;
const SMALL: Goal = { is: 'at most', reach: 300, aim: 50 };
const LARGE: Goal = { is: 'at most', reach: 1500, aim: 300 };

const values = optionsOf({ moves: { type: 'string', default: '10' }, chunks: { type: 'string', default: '50' } });
const moves = Number(values.moves);
const chunks = Number(values.chunks);

await using scratch = await scratchFolder(undefined);
await using postgres = await startPostgres({ isSynced: true });
await using servers = new AsyncDisposableStack();
await printSitting(`${moves} moves, ${chunks} chunks of 4 MB`);
const { wasm } = await compileMotoko(await readFile(new URL('../fixtures/large.mo', import.meta.url), 'utf8'));
const manifest = await manifestOf(scratch.path, 'large', wasm, 1);
const given = [`storage.url=${postgres.url}`, 'storage.shards=2'].flatMap((each) => ['--plugin-option', each]);
const args = [
  '--plugin',
  'storage=svc/storage-postgres',
  ...given,
  '--cluster-listen',
  '127.0.0.1:0',
  '--cluster-processes',
  '1',
];
const environment = { SVC_CLUSTER_KEY: 'a key of thirty-two characters or more' };
const started = await Promise.all([0, 1].map(() => startSvc({ manifest, args, environment })));
const origins = started.map((server) => servers.use(server).origin);
await sleep(2_000);

const { wasm: counter } = await compileMotoko(await readFile(COUNTER, 'utf8'));
await post('/install/counter', counter);
await measure('a counter', '/call-json/counter/inc', 'counter', SMALL);
await post('/call-json/a0/reserve', `["${chunks}"]`);
for (let chunk = 0; chunk < chunks; chunk++) await post('/call-json/a0/add', '[]');
await measure(`a heap of ${chunks * 4} MB`, '/call-json/a0/touch', 'a0', LARGE);

async function measure(what: string, path: string, actor: string, goal: Goal): Promise<void> {
  const gaps: number[] = [];
  const longest: number[] = [];
  let refused = 0;
  for (let move = 0; move <= moves; move++) {
    const sent = new Set<Promise<void>>();
    const answeredMs: number[] = [];
    let [count, longestMs] = [0, 0];
    const timer = setInterval(() => {
      const startMs = performance.now();
      const call = post(path, '[]', count++).then((isAnswered) => {
        sent.delete(call);
        const nowMs = performance.now();
        longestMs = Math.max(longestMs, nowMs - startMs);
        if (isAnswered) answeredMs.push(nowMs);
        else refused++;
      });
      sent.add(call);
    }, EVERY_MS);
    await sleep(CALM_MS);
    const calm = answeredMs.length;
    if (!(await moved(actor, move % 2))) throw new Error(`${actor} does not move`);
    await sleep(CALM_MS);
    clearInterval(timer);
    await Promise.all(sent);
    // The first one may be there already, and warms up.
    if (move === 0) continue;
    const gap = Math.max(...answeredMs.slice(calm).map((ms, at) => ms - (answeredMs[calm + at - 1] ?? ms)));
    gaps.push(gap);
    longest.push(longestMs);
  }
  printFigure(`${what}: no answer, median`, median(gaps), 'ms', `at most ${Math.max(...gaps).toFixed(0)} ms`, goal);
  printFigure(`${what}: longest call, median`, median(longest), 'ms');
  printFigure(`${what}: requests refused`, refused, '');
}

/** Resolves with false if the actor could not be moved. */
async function moved(actor: string, shard: number): Promise<boolean> {
  for (let tries = 0; tries < 20; tries++) {
    const answer = await fetch(`${origins[0]}/x/cluster/move/${actor}`, { method: 'POST', body: `{"shard":${shard}}` });
    const text = await answer.text();
    if (answer.ok || text.includes('already')) return true;
  }
  return false;
}

/** Sends a request to one server and the other by turns. Resolves with whether it was answered as it should be. */
async function post(path: string, body: string | Uint8Array, turn = 0): Promise<boolean> {
  const init = { method: 'POST', body: typeof body === 'string' ? body : Buffer.from(body) };
  const answer = await fetch(`${origins[turn % origins.length]}${path}`, init);
  await answer.arrayBuffer();
  return answer.ok;
}
