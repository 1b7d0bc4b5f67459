/**
 * Loaded into a server that is tested (`--import`): writes down when flushes of the step log were slow. A disk that other
 * machines use, too, takes a second for a few hundred bytes now and then, and nobody who waits for that has waited for the server.
 *
 * A line for each flush of at least SLOW_FLUSH_MS: milliseconds since 1970 when it began, and how long it took.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const path = process.env['SVC_TEST_FLUSHES'];
const SLOW_FLUSH_MS = 20;

if (!isMainThread && path !== undefined) {
  const { fdatasyncSync } = fs;
  fs.fdatasyncSync = (descriptor) => {
    const begin = performance.now();
    fdatasyncSync(descriptor);
    const ms = performance.now() - begin;
    if (ms >= SLOW_FLUSH_MS) fs.appendFileSync(path, `${performance.timeOrigin + begin} ${ms}\n`);
  };
  syncBuiltinESMExports();
}
