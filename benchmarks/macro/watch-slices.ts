/**
 * Preloaded into a server (`node --import watch-slices.ts`): from one SIGUSR2 to the next it measures in each turn of
 * the event loop the time of the turn before, and then writes the longest turn and the longest processor time, as
 * `Slices` in JSON, into the file that SVC_BENCH_SLICES names.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';

const REPORT_DEADLINE_MS = 10_000;

/** Figures of the main thread's turns. */
export interface Slices {
  /** Longest turn. */
  readonly longestMs: number;
  /** Longest turn by processor time of the thread, to which other work of the machine adds little. */
  readonly longestCpuMs: number;
}

/** Returns the server's figures for the time of `work`. `file` is the server's SVC_BENCH_SLICES. */
export async function slicesDuring(pid: number, file: string, work: () => Promise<unknown>): Promise<Slices> {
  process.kill(pid, 'SIGUSR2');
  await sleep(20);
  await work();
  process.kill(pid, 'SIGUSR2');
  const until = performance.now() + REPORT_DEADLINE_MS;
  while (performance.now() < until) {
    try {
      const slices = JSON.parse(readFileSync(file, 'utf8')) as Slices;
      rmSync(file);
      return slices;
    } catch {
      await sleep(5);
    }
  }
  throw new Error('the server did not tell of its slices');
}

let waiting: NodeJS.Immediate | undefined;
let longest = { longestMs: 0, longestCpuMs: 0 };
let looked = { ms: 0, cpuMs: 0 };

function now(): { readonly ms: number; readonly cpuMs: number } {
  const { user, system } = process.threadCpuUsage();
  return { ms: performance.now(), cpuMs: (user + system) / 1000 };
}

function look(): void {
  const at = now();
  longest.longestMs = Math.max(longest.longestMs, at.ms - looked.ms);
  longest.longestCpuMs = Math.max(longest.longestCpuMs, at.cpuMs - looked.cpuMs);
  looked = at;
  waiting = setImmediate(look);
}

const report = process.env['SVC_BENCH_SLICES'];
if (isMainThread && report !== undefined) {
  process.on('SIGUSR2', () => {
    if (waiting === undefined) {
      longest = { longestMs: 0, longestCpuMs: 0 };
      looked = now();
      waiting = setImmediate(look);
      return;
    }
    clearImmediate(waiting);
    waiting = undefined;
    writeFileSync(`${report}.new`, JSON.stringify(longest));
    renameSync(`${report}.new`, report);
  });
}
