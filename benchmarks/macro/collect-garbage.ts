/**
 * Preloaded into a server (`node --expose-gc --import collect-garbage.ts`): at SIGUSR2 it collects the main thread's
 * garbage until nothing more is freed, and writes the remaining sizes into the file that SVC_BENCH_MEMORY names.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';

/** One collection releases buffers, which are freed some time after it. */
const PAUSE_MS = 200;
const TIMES_MAX = 50;
const STEADY_BYTES = 16 * 1024;
/** Collections in a row that free nothing. */
const STEADY_TIMES = 3;

if (isMainThread) process.on('SIGUSR2', () => void collect());

async function collect(): Promise<void> {
  let before = Number.POSITIVE_INFINITY;
  for (let time = 0, steady = 0; time < TIMES_MAX && steady < STEADY_TIMES; time++) {
    globalThis.gc?.();
    await sleep(PAUSE_MS);
    const { heapUsed, external } = process.memoryUsage();
    steady = Math.abs(before - heapUsed - external) < STEADY_BYTES ? steady + 1 : 0;
    before = heapUsed + external;
  }
  const report = process.env['SVC_BENCH_MEMORY'] ?? '';
  writeFileSync(`${report}.new`, JSON.stringify(process.memoryUsage()));
  renameSync(`${report}.new`, report);
}
