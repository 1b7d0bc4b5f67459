/**
 * Measures the cost of telling ten thousand clients of a hundred changes a second.
 *
 *   node benchmarks/macro/watch.bench.ts [--watchers 1,100,10000] [--changes 100] [--seconds 10]
 *
 * All clients watch the same query of one actor, in memory; changes come from one client at an even pace. The benchmark
 * shows executions of the query a second, the processor time of the server's process (all of its threads, without the
 * cost of the changes alone, which is measured first), the number of frames for each watcher, and the time from the
 * last change until all watchers have it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { printFigure, printSitting } from './sitting.ts';
import { metricsOf, startSvc, type SvcProcess } from './svc-process.ts';

const EXAMPLES = fileURLToPath(new URL('../../config/examples/actors.json', import.meta.url));
const values = optionsOf({
  watchers: { type: 'string', default: '1,100,10000' },
  changes: { type: 'string', default: '100' },
  seconds: { type: 'string', default: '10' },
});
const changes = Number(values.changes);
const seconds = Number(values.seconds);

interface Told {
  readonly events: number;
  readonly least: number;
  readonly most: number;
}

/** Sends changes at an even pace; returns the value after the last one. */
async function change(origin: string): Promise<number> {
  const startedMs = performance.now();
  let last = 0;
  for (let n = 0; n < changes * seconds; n++) {
    const response = await fetch(`${origin}/call-json/counter/inc`, { method: 'POST', body: '[]' });
    [last] = (await response.json()) as [number];
    const aheadMs = startedMs + ((n + 1) * 1000) / changes - performance.now();
    if (aheadMs > 0) await sleep(aheadMs);
  }
  return last;
}

async function cpuShareOf<T>(svc: SvcProcess, work: () => Promise<T>): Promise<readonly [T, number]> {
  const before = svc.cpuMicroseconds() ?? 0;
  const startedMs = performance.now();
  const result = await work();
  return [result, ((svc.cpuMicroseconds() ?? 0) - before) / 10 / (performance.now() - startedMs)];
}

await printSitting(`${changes} changes/s`);
await using svc = await startSvc({ manifest: EXAMPLES, args: [] });
const { hostname: host, port } = new URL(svc.origin);
await change(svc.origin);
const [, alone] = await cpuShareOf(svc, () => change(svc.origin));
console.log(`${changes} changes/s alone: ${alone.toFixed(1)} % of a core`);

const executions = async (): Promise<number> =>
  (await metricsOf(svc.origin)).get('svc_actor_messages_total{actor="counter"}') ?? 0;

for (const count of values.watchers.split(',').map(Number)) {
  const clients = new Worker(new URL('./watch-clients.ts', import.meta.url), {
    workerData: { host, port: Number(port), target: '/watch/counter/get', count },
  });
  await once(clients, 'message');
  const told = async (): Promise<Told> => {
    const answer = once(clients, 'message');
    clients.postMessage('');
    return ((await answer) as [Told])[0];
  };
  while ((await told()).events < count) await sleep(20);
  const [eventsBefore, executedBefore] = [(await told()).events, await executions()];
  const [last, share] = await cpuShareOf(svc, () => change(svc.origin));
  const changedMs = performance.now();
  while ((await told()).least < last) await sleep(5);
  const lagMs = performance.now() - changedMs;
  const queries = (await executions()) - executedBefore - changes * seconds;
  const events = (await told()).events - eventsBefore;
  await clients.terminate();
  const asked = { is: 'at most', reach: changes, aim: changes } as const;
  const heard = `${(events / count / seconds).toFixed(1)} events/s each, all told ${lagMs.toFixed(0)} ms after the last change`;
  printFigure(`${count} watchers: executions`, queries / seconds, '/s', heard, asked);
  const goal = { is: 'at most', reach: 60, aim: 30 } as const;
  printFigure(`${count} watchers: CPU of a core beside the changes`, share - alone, '%', '', goal);
}
