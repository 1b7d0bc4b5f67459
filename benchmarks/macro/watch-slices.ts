/**
 * Preloaded into a server (`node --import watch-slices.ts`): from one SIGUSR2 to the next it looks in each turn of the event
 * loop how long the turn before took, and then writes the longest, in ms, into the file that SVC_BENCH_SLICES names.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

let waiting: NodeJS.Immediate | undefined;
let longestMs = 0;
let lookedMs = 0;

function look(): void {
  const nowMs = performance.now();
  longestMs = Math.max(longestMs, nowMs - lookedMs);
  lookedMs = nowMs;
  waiting = setImmediate(look);
}

if (isMainThread) {
  process.on('SIGUSR2', () => {
    if (waiting === undefined) {
      longestMs = 0;
      lookedMs = performance.now();
      waiting = setImmediate(look);
      return;
    }
    clearImmediate(waiting);
    waiting = undefined;
    const report = process.env['SVC_BENCH_SLICES'] ?? '';
    writeFileSync(`${report}.new`, String(longestMs));
    renameSync(`${report}.new`, report);
  });
}
