/**
 * Measures the bytes that a durable `inc` writes to the disk, with log, tables and compaction together.
 *
 *   node benchmarks/macro/durable-bytes.bench.ts [--updates 100000] [--connections 64] [--persistence enhanced]
 *       [--dir FOLDER] [--quick]
 *
 * The bytes come from the counters of the block device under the scratch folder (`--dir`). On a device of its own (a
 * file system on a loop device will do, see benchmarks/README.md) that is exact; otherwise the machine has to be quiet:
 * its idle writing is measured before, and printed as a possible error. There are two parts: from an empty directory,
 * whose log grows to its usual number of files, and the same number of updates again, up to a graceful stop. The
 * divisor is the counter's own count, which is a little more than `--updates`. The benchmark also prints the bytes of
 * the durable units, which are the stored data themselves, and the bytes that the process handed to the page cache
 * (`write_bytes` of /proc/PID/io: whole folios for preallocated files).
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOf } from '../options.ts';
import { COUNTER, compiled, manifestOf } from './actor-fixtures.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { Client, NO_ARGUMENTS } from './client.ts';
import { load, loadGenerator } from './load.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { metricsOf, startSvc } from './svc-process.ts';

const SECTOR_BYTES = 512;
const IDLE_MS = 3000;
const KIB = 1024;

const values = optionsOf({
  updates: { type: 'string', default: '100000' },
  connections: { type: 'string', default: '64' },
  persistence: { type: 'string', default: 'enhanced' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const updates = values.quick ? 5000 : Number(values.updates);
const connections = Number(values.connections);

await using scratch = await scratchFolder(values.dir);
const persistence = values.persistence as Persistence;
await printSitting(loadGenerator, persistence, `${updates} updates, ${connections} connections`);
const statistics = deviceStatistics(scratch.path);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, persistence), 1);
const args = ['--state', join(scratch.path, 'state'), '--fsync', 'always'];
await using svc = await startSvc({ manifest, args });

const idleStart = deviceBytes();
await sleep(IDLE_MS);
const idleBytesPerMs = (deviceBytes() - idleStart) / IDLE_MS;

const first = await part(false);
const second = await part(true);
const goal = { is: 'at most', reach: 2, aim: 0.6 } as const;
print('the first', first);
print('the next', second);
printFigure('bytes to the disk per inc, with the graceful stop', second.device / second.counted / KIB, 'KiB', '', goal);
printFigure(
  'the same without what the idle machine writes',
  (second.device - second.idle) / second.counted / KIB,
  'KiB',
);

interface Part {
  readonly counted: number;
  readonly device: number;
  readonly idle: number;
  readonly units: number;
  readonly process: number;
  readonly seconds: number;
}

async function part(stops: boolean): Promise<Part> {
  const start = performance.now();
  const before = { device: deviceBytes(), units: await unitBytes(), process: processBytes() };
  using client = new Client(svc.origin, 1);
  const from = await client.natural('/query/a0/get');
  const request = { method: 'POST', path: '/call/a0/inc', body: NO_ARGUMENTS } as const;
  let acknowledged = 0;
  while (acknowledged < updates) {
    const { requests, errors } = await load(svc.origin, request, connections, 1);
    if (errors > 0) throw new Error(`${errors} answers were not 2xx`);
    acknowledged += requests;
  }
  // Updates under way at the end of the load count, too.
  const counted = (await client.natural('/query/a0/get')) - from;
  if (counted < acknowledged) throw new Error(`${acknowledged} updates were acknowledged, and ${counted} counted`);
  const seconds = (performance.now() - start) / 1000;
  const after = { units: await unitBytes(), process: processBytes() };
  if (stops) await svc.stop();
  const device = deviceBytes() - before.device;
  return {
    counted,
    device,
    idle: idleBytesPerMs * (performance.now() - start),
    units: after.units - before.units,
    process: after.process - before.process,
    seconds,
  };
}

function print(which: string, { counted, device, idle, units, process: handed, seconds }: Part): void {
  const kib = (bytes: number): string => (bytes / counted / KIB).toFixed(3);
  console.log(`${which} ${counted} updates, ${Math.round(counted / seconds)}/s, KiB each:`);
  console.log(`  block device ${kib(device)} (of which an idle machine would write ${kib(idle)})`);
  console.log(`  units made durable ${kib(units)}, handed to the page cache ${kib(handed)}\n`);
}

async function unitBytes(): Promise<number> {
  return (await metricsOf(svc.origin)).get('svc_commit_bytes_total') ?? Number.NaN;
}

function processBytes(): number {
  return Number(/^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${svc.pid}/io`, 'utf8'))?.[1]);
}

/** Returns the bytes that the device was given so far, after everything in the system's memory was written. */
function deviceBytes(): number {
  execFileSync('sync', ['-f', scratch.path]);
  return Number(readFileSync(statistics, 'utf8').trim().split(/\s+/)[6]) * SECTOR_BYTES;
}

/** Returns the counters of the block device on which a folder lies. */
function deviceStatistics(folder: string): string {
  const { dev } = statSync(folder);
  const [major, minor] = [(dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xfff00)];
  const path = `/sys/dev/block/${major}:${minor}/stat`;
  try {
    readFileSync(path);
  } catch (error) {
    throw new Error(`${folder} lies on no block device (${major}:${minor}): choose another folder with --dir`, {
      cause: error,
    });
  }
  return path;
}
