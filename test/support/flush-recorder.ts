/**
 * Loaded into a tested server (`--import`) to record slow flushes of the step log and of the tables. A disk that other
 * machines share sometimes takes a second for a few hundred bytes; such a wait is not the server's fault if a bystander
 * waited just as long (hindrances.ts).
 *
 * Writes a line `flush FROM MS` for each flush of at least SLOW_FLUSH_MS: its start in milliseconds since 1970, and its
 * duration.
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
