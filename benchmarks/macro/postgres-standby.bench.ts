/**
 * Measures the time until a standby is ready after the owner of a namespace of ten thousand actors was killed.
 *
 *   node benchmarks/macro/postgres-standby.bench.ts [--actors 10000] [--rounds 5] [--lease-ms 5000]
 *
 * Debian's PostgreSQL on this machine with its own defaults, in a temporary directory. Each actor has answered an
 * update and has its own state; a thousand may be live. In each round the owner is killed (SIGKILL) while a standby
 * waits; the time is from the kill until the standby is ready (`/health/ready`), and the figure is that time less the
 * lease. Then the last actor is called, to show that nothing is lost. The next standby is started beside the new owner.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOf } from '../options.ts';
import { startPostgres } from '../../test/support/postgres.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import { NO_ARGUMENTS } from './client.ts';
import { loadGenerator } from './load.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc, type SvcProcess } from './svc-process.ts';

const UNDER_WAY = 64;
const LIVE = 1000;
const POLL_MS = 5;
/** Limits of the time beyond the lease. */
const REACH_SECONDS = 2;
const AIM_SECONDS = 1;

const values = optionsOf({
  actors: { type: 'string', default: '10000' },
  rounds: { type: 'string', default: '5' },
  'lease-ms': { type: 'string', default: '5000' },
});
const actors = Number(values.actors);
const rounds = Number(values.rounds);
const leaseMs = Number(values['lease-ms']);

await using scratch = await scratchFolder(undefined);
await using postgres = await startPostgres({ isSynced: true });
await printSitting(loadGenerator, `${actors} actors, ${rounds} rounds, a lease of ${leaseMs} ms`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), actors);
const args = [
  '--plugin',
  'storage=svc/storage-postgres',
  '--plugin-option',
  `storage.url=${postgres.url}`,
  '--plugin-option',
  `storage.lease-ms=${leaseMs}`,
  // A process cannot have more than 6000 live actors.
  '--live-cap',
  String(LIVE),
];

let owner: SvcProcess = await startSvc({ manifest, args });
const processes: SvcProcess[] = [owner];
try {
  await updateAll(owner.origin);
  const beyond: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const standby = await startSvc({ manifest, args, isStandby: true });
    processes.push(standby);
    await sleep(leaseMs);
    const startMs = performance.now();
    await owner.kill();
    while (!(await isReady(standby.origin))) await sleep(POLL_MS);
    const tookMs = performance.now() - startMs;
    beyond.push((tookMs - leaseMs) / 1000);
    console.log(`round ${round + 1}: ready ${(tookMs / 1000).toFixed(2)} s after the kill`);
    await call(standby.origin, actors - 1);
    owner = standby;
  }
  const byRound = beyond.map((seconds) => seconds.toFixed(2)).join(' ');
  const name = `standby ready after a kill, beyond the lease, ${actors} actors`;
  printFigure(name, median(beyond), 's', `by round: ${byRound}`, {
    is: 'at most',
    reach: REACH_SECONDS,
    aim: AIM_SECONDS,
  });
} finally {
  for (const process of processes) await process.kill();
}

async function isReady(origin: string): Promise<boolean> {
  const response = await fetch(`${origin}/health/ready`).catch(() => undefined);
  await response?.arrayBuffer();
  return response?.ok ?? false;
}

async function call(origin: string, actor: number): Promise<void> {
  const response = await fetch(`${origin}/call/a${actor}/inc`, { method: 'POST', body: NO_ARGUMENTS });
  if (!response.ok) throw new Error(`a${actor}: ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
}

/** Sends one update to each actor. */
async function updateAll(origin: string): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < actors) await call(origin, next++);
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, client));
}
