/** A process that stands still for longer than its lease, and sources and databases that take their time. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { LEASE_MS, NEVER_FOLDED, openStorage, put } from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

/** As a process that is stopped and goes on. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test('a pause within the transaction of a large unit is got over when nobody else wants the namespace', async (t) => {
  const made = await openStorage(t, { url: postgres.url, namespace: 'paused', foldBytes: NEVER_FOLDED });
  const { storage, failures, logged } = made;
  put(storage, 'large', new Uint8Array(32 * 2 ** 20));
  const pieces = "query LIKE 'INSERT INTO svc_log VALUES%' AND xact_start IS NOT NULL AND application_name = 'svc'";
  for (;;) {
    await nextTurn();
    if ((await postgres.query(`SELECT 1 FROM pg_stat_activity WHERE ${pieces}`)).length > 0) break;
  }
  assert.equal(storage.durable, 0);
  pause(3 * LEASE_MS);
  await storage.settled();
  assert.deepEqual([storage.durable, failures], [1, []]);
  assert.match(logged.join('\n'), /does not take what is written .*\n.*is back/);
});
