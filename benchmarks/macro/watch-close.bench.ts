/**
 * Measures the time without service when thousands of watchers leave at once, against node:http with as many streams.
 *
 *   node benchmarks/macro/watch-close.bench.ts [--watchers 3000] [--rounds 5]
 *
 * All connections are reset at the same moment. The longest turn of the main thread is shown, by processor time and by
 * the clock, as medians of the rounds; servers take turns.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { optionsOf } from '../options.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { freePort } from './server-process.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';
import { type Slices, slicesDuring } from './watch-slices.ts';

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const EXAMPLES = here('../../config/examples/actors.json');
/** Time in which all closes are served. */
const AFTER_MS = 500;

const values = optionsOf({ watchers: { type: 'string', default: '3000' }, rounds: { type: 'string', default: '5' } });
const count = Number(values.watchers);

interface Target {
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  readonly report: string;
  readonly seen: Slices[];
}

await using scratch = await scratchFolder(undefined);
await printSitting(`${count} watchers`);
const reports = ['svc', 'floor'].map((name) => join(scratch.path, name));
const [ofSvc = '', ofFloor = ''] = reports;
const nodeArgs = ['--import', here('watch-slices.ts')];
await using svc = await startSvc({
  manifest: EXAMPLES,
  args: [],
  nodeArgs,
  environment: { SVC_BENCH_SLICES: ofSvc },
});
const floorPort = await freePort();
const floor = spawn(process.execPath, [...nodeArgs, here('sse-floor.ts'), String(floorPort)], {
  env: { ...process.env, SVC_BENCH_SLICES: ofFloor },
  stdio: ['ignore', 'pipe', 'inherit'],
});
await once(floor.stdout, 'data');
try {
  const targets: readonly Target[] = [
    { name: 'svc', pid: svc.pid, port: Number(new URL(svc.origin).port), report: ofSvc, seen: [] },
    { name: 'node:http', pid: floor.pid ?? 0, port: floorPort, report: ofFloor, seen: [] },
  ];
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const target of round % 2 === 0 ? targets : targets.toReversed()) target.seen.push(await closing(target));
  }
  const longest = ({ seen }: Target, of: keyof Slices): number => median(seen.map((slices) => slices[of]));
  for (const target of targets) {
    const wall = `${longest(target, 'longestMs').toFixed(1)} ms by the clock`;
    printFigure(`${target.name}: longest turn when all go`, longest(target, 'longestCpuMs'), 'ms', wall);
  }
  const [ours, bare] = targets.map((target) => longest(target, 'longestCpuMs'));
  printFigure('svc / node:http', (ours ?? Number.NaN) / (bare ?? Number.NaN), '');
} finally {
  floor.kill('SIGKILL');
}

async function closing({ pid, port, report }: Target): Promise<Slices> {
  const clients = new Worker(new URL('./watch-clients.ts', import.meta.url), {
    workerData: { host: '127.0.0.1', port, target: '/watch/counter/get', count },
  });
  await once(clients, 'message');
  for (let events = 0; events < count;) {
    clients.postMessage('');
    const [told] = (await once(clients, 'message')) as [{ readonly events: number }];
    ({ events } = told);
    await sleep(20);
  }
  await sleep(AFTER_MS);
  return await slicesDuring(pid, report, async () => {
    await clients.terminate();
    await sleep(AFTER_MS);
  });
}
