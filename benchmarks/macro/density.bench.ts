/**
 * Measures ten thousand actors with a hundred of them live: the cost to create, to call and to restart them, and their
 * memory while they sleep.
 *
 *   node benchmarks/macro/density.bench.ts [--actors 10000] [--few 1000] [--live-cap 100] [--rounds 3]
 *       [--persistence enhanced] [--dir FOLDER] [--quick]
 *
 * One manifest with `--actors` entries of the example counter. The actors are created, each is called once (64 under
 * way), the server is stopped gracefully and started again: the first time with much that RocksDB has only in its log,
 * then several times without. The benchmark prints the times and the peak of resident memory of each of the first two
 * processes (VmHWM), which has to stay under 2 GiB. For a sleeping actor's memory the server is started on that
 * directory and on one with `--few` actors, in turn; when collections free nothing more (collect-garbage.ts,
 * preloaded), the difference is divided by the number of additional actors: with a manifest of one actor, with the one
 * of all, and with that one after each actor has been called and put to sleep again. `heap` is the memory of the main
 * thread's JavaScript, with its buffers, and is the same in every round. `resident` is the whole process: it depends on
 * the past work more than on the number of actors, since garbage of the other threads, and memory that the C library
 * keeps, stay until there is need (2,000 actors called twenty times each take more than 10,000 called four times).
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOf } from '../options.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { Client, forEachOf } from './client.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { type Memory, memoryOf, metricsOf, startSvc, type SvcProcess } from './svc-process.ts';

const UNDER_WAY = 64;
const MEMORY_MAX_MIB = 2048;
const RESTARTS = 5;
const COLLECT = fileURLToPath(new URL('collect-garbage.ts', import.meta.url));
const COLLECTED_DEADLINE_MS = 60_000;

const values = optionsOf({
  actors: { type: 'string', default: '10000' },
  few: { type: 'string', default: '1000' },
  'live-cap': { type: 'string', default: '100' },
  rounds: { type: 'string', default: '3' },
  persistence: { type: 'string', default: 'enhanced' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const [many, few, liveCap] = values.quick
  ? [200, 50, 10]
  : [Number(values.actors), Number(values.few), Number(values['live-cap'])];
const rounds = values.quick ? 1 : Number(values.rounds);
const persistence = values.persistence as Persistence;

await using scratch = await scratchFolder(values.dir);
await printSitting(persistence, `${many} actors, ${liveCap} live`);
const wasm = await compiled(COUNTER, persistence);
const hosts = { many: await hostOf('many', many), few: await hostOf('few', few) };

const peaks: Memory[] = [];
await createAndCall(hosts.many, many);
const restarted = await startSvc(hosts.many);
{
  await using _ = restarted;
  using client = new Client(restarted.origin, 1);
  // `ready` means nothing before an answer has come.
  for (const at of [0, many - 1]) await expectOne(client, at);
  peaks.push(memoryOf(restarted.pid));
}
const againMs: number[] = [];
for (let round = 0; round < RESTARTS; round++) {
  await using svc = await startSvc(hosts.many);
  againMs.push(svc.readyMs);
  await svc.stop();
}
const restartGoal = { is: 'at most', reach: 1.2, aim: 0.8 } as const;
printFigure(`restart with ${many} actors, until ready, the first`, restarted.readyMs / 1000, 's', '', restartGoal);
printFigure('the same, later ones', median(againMs) / 1000, 's', `by round, ms: ${list(againMs, 0)}`, restartGoal);
const peakMib = Math.max(...peaks.map((memory) => memory.peakMib));
printFigure(
  'the most resident memory of both processes',
  peakMib,
  'MiB',
  `before and after the restart: ${list(
    peaks.map((memory) => memory.peakMib),
    0,
  )}`,
  {
    is: 'at most',
    reach: MEMORY_MAX_MIB,
    aim: MEMORY_MAX_MIB,
  },
);
if (peakMib > MEMORY_MAX_MIB) process.exitCode = 1;

await createAndCall(hosts.few, few, false);
const manifestOfOne = await manifestOf(scratch.path, 'one', wasm, 1);
await printAsleep('after a restart', { manifest: manifestOfOne, isCalled: false });
await printAsleep('with a manifest of all', { isCalled: false });
await printAsleep('called and put to sleep', { isCalled: true });

/** `manifest`: a manifest other than that of all actors. */
interface AsleepCase {
  readonly manifest?: string;
  readonly isCalled: boolean;
}

async function printAsleep(when: string, { manifest, isCalled }: AsleepCase): Promise<void> {
  const heap: number[] = [];
  const resident: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const withMany = await asleep({ ...hosts.many, manifest: manifest ?? hosts.many.manifest }, many, isCalled);
    const withFew = await asleep({ ...hosts.few, manifest: manifest ?? hosts.few.manifest }, few, isCalled);
    heap.push((withMany.heapBytes - withFew.heapBytes) / (many - few));
    resident.push((withMany.residentBytes - withFew.residentBytes) / (many - few));
  }
  const goal = { is: 'at most', reach: 1024, aim: 400 } as const;
  printFigure(`memory of a sleeping actor, heap, ${when}`, median(heap), 'B', `by round: ${list(heap, 0)}`, goal);
  printFigure(`the same, resident, ${when}`, median(resident), 'B', `by round: ${list(resident, 0)}`);
}

async function hostOf(name: string, actors: number): Promise<Parameters<typeof startSvc>[0]> {
  const manifest = await manifestOf(scratch.path, name, wasm, actors);
  const args = ['--state', join(scratch.path, `state-${name}`), '--live-cap', String(liveCap)];
  return { manifest, args };
}

async function createAndCall(host: Parameters<typeof startSvc>[0], actors: number, isShown = true): Promise<void> {
  await using svc = await startSvc(host);
  using client = new Client(svc.origin, UNDER_WAY);
  const start = performance.now();
  const counts = await callEach(client, actors);
  if (counts.size !== 1 || !counts.has(1)) throw new Error(`actors counted ${[...counts].join(', ')} instead of 1`);
  const ms = performance.now() - start;
  const live = (await metricsOf(svc.origin)).get('svc_live_actors') ?? Number.NaN;
  if (!(live <= liveCap)) throw new Error(`${live} actors are live instead of ${liveCap} at most`);
  peaks.push(memoryOf(svc.pid));
  const stopMs = await svc.stop();
  if (isShown) {
    printFigure(
      `create ${actors} actors, until ready`,
      svc.readyMs / 1000,
      's',
      `${(svc.readyMs / actors).toFixed(2)} ms each`,
    );
    printFigure('call each, 64 under way', ms / 1000, 's', `${(ms / actors).toFixed(3)} ms each`);
    printFigure('stop gracefully', stopMs / 1000, 's');
  }
}

/** Calls all actors; returns the set of their counts. */
async function callEach(client: Client, actors: number): Promise<ReadonlySet<number>> {
  const counts = new Set<number>();
  await forEachOf(actors, UNDER_WAY, async (at) => {
    counts.add(await client.natural(`/call/a${at}/inc`));
  });
  return counts;
}

async function expectOne(client: Client, at: number): Promise<void> {
  const count = await client.natural(`/query/a${at}/get`);
  if (count !== 1) throw new Error(`a${at} holds ${count} instead of 1 after the restart`);
}

interface Asleep {
  readonly heapBytes: number;
  readonly residentBytes: number;
}

/** Measures a server in which no actor was called since its start, or each one once. */
async function asleep(host: Parameters<typeof startSvc>[0], actors: number, isCalled: boolean): Promise<Asleep> {
  const report = join(scratch.path, 'memory.json');
  const nodeArgs = ['--expose-gc', '--import', COLLECT];
  await using svc = await startSvc({ ...host, nodeArgs, environment: { SVC_BENCH_MEMORY: report } });
  if (isCalled) {
    using client = new Client(svc.origin, UNDER_WAY);
    await callEach(client, actors);
  }
  const figures = await collected(svc, report);
  rmSync(report);
  // The page is read afterwards: for ten thousand actors it takes memory to write.
  const sleeping = (await metricsOf(svc.origin)).get('svc_sleeping_actors');
  const expected = isCalled ? actors - liveCap : actors;
  if (!(sleeping !== undefined && sleeping >= expected))
    throw new Error(`${sleeping} of ${actors} actors sleep instead of ${expected}`);
  return figures;
}

async function collected({ pid }: SvcProcess, report: string): Promise<Asleep> {
  process.kill(pid, 'SIGUSR2');
  const until = performance.now() + COLLECTED_DEADLINE_MS;
  while (performance.now() < until) {
    try {
      const { heapUsed, external } = JSON.parse(readFileSync(report, 'utf8')) as NodeJS.MemoryUsage;
      return { heapBytes: heapUsed + external, residentBytes: memoryOf(pid).residentMib * 2 ** 20 };
    } catch {
      await sleep(50);
    }
  }
  throw new Error('the server did not collect its garbage');
}

function list(numbers: readonly number[], digits: number): string {
  return numbers.map((number) => number.toFixed(digits)).join(' ');
}
