/**
 * Preloaded into a server (`node --expose-gc --import collect-garbage.ts`): at SIGUSR2 it collects all garbage of the main
 * thread, and writes what is left into the file that SVC_BENCH_MEMORY names.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';

const TIMES = 5;

if (isMainThread) {
  process.on('SIGUSR2', () => {
    void (async () => {
      // What one collection lets go of, finalizers release, and the next one frees.
      for (let time = 0; time < TIMES; time++) {
        globalThis.gc?.();
        await sleep(100);
      }
      const report = process.env['SVC_BENCH_MEMORY'] ?? '';
      writeFileSync(`${report}.new`, JSON.stringify(process.memoryUsage()));
      renameSync(`${report}.new`, report);
    })();
  });
}
