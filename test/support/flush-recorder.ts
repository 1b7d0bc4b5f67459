/**
 * Loaded into a server that is tested (`--import`): writes down when flushes of the step log or of the tables were slow. A disk
 * that other machines use, too, takes a second for a few hundred bytes now and then, and nobody who waits for that has waited for
 * the server, if a bystander waited just as long (hindrances.ts).
 *
 * A line `flush FROM MS` for each of at least SLOW_FLUSH_MS: milliseconds since 1970 when it began, and how long it took.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread, threadName } from 'node:worker_threads';

const path = process.env['SVC_TEST_FLUSHES'];
const SLOW_FLUSH_MS = 20;

function timed<T>(flush: () => T): T {
  const begin = performance.now();
  const result = flush();
  const ms = performance.now() - begin;
  if (path !== undefined && ms >= SLOW_FLUSH_MS)
    fs.appendFileSync(path, `flush ${performance.timeOrigin + begin} ${ms}\n`);
  return result;
}

if (!isMainThread && path !== undefined) {
  const { fdatasyncSync } = fs;
  fs.fdatasyncSync = (descriptor) => timed(() => fdatasyncSync(descriptor));
  syncBuiltinESMExports();
  if (threadName === 'storage') {
    // RocksDB flushes by itself.
    const { default: binding } = await import('@nxtedition/rocksdb/binding.js');
    const batchWrite: typeof binding.batch_write = binding.batch_write.bind(binding);
    binding.batch_write = (db, batch, options) =>
      options.sync ? timed(() => batchWrite(db, batch, options)) : batchWrite(db, batch, options);
  }
}
