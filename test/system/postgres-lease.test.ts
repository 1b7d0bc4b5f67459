/** The owner of a namespace when connections are lost, and the reports of a lost namespace. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../kernel/index.ts';
import { Lease } from '../../plugins/storage-postgres/lease.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { fold, LEASE_MS, makeStorage, openStorage, put } from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

const log = { info: () => undefined, warn: () => undefined };
const starting = { readiness: { waiting: () => undefined }, signal: new AbortController().signal };

const cutAll = (): Promise<unknown> =>
  postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'svc'");

async function ownerOf(namespace: string): Promise<unknown> {
  const [row] = await postgres.query(`SELECT owner FROM svc_owner WHERE namespace = '${namespace}'`);
  return row?.['owner'];
}

const take = (namespace: string): Promise<unknown> =>
  postgres.query(
    `UPDATE svc_owner SET owner = 'another', holder = 'another' WHERE namespace = '${namespace}';
     UPDATE svc_fence SET owner = 'another', fence = fence + 1 WHERE namespace = '${namespace}'`,
  );

test('a namespace is handed over also when its connections were just cut', async (t) => {
  // No beat comes in between that would notice the cut.
  const { storage, logged } = await openStorage(t, { url: postgres.url, namespace: 'handed', leaseMs: 20_000 });
  put(storage, 'a');
  await storage.settled();
  await cutAll();
  await sleep(100);
  await storage.close();
  assert.doesNotMatch(logged.join('\n'), /could not be handed over/);
  assert.equal(await ownerOf('handed'), null);
});

test('a beat that is answered when all is over holds nothing any more', async (t) => {
  const { url } = postgres;
  const lease = new Lease({ url, namespace: 'late', leaseMs: LEASE_MS, clock: systemClock, log });
  t.after(() => lease.abandon());
  await lease.acquire(starting, () => undefined);
  const row = "WHERE namespace = 'late' FOR UPDATE";
  const locked = postgres.query(`BEGIN; SELECT 1 FROM svc_owner ${row}; SELECT pg_sleep(0.4); COMMIT`);
  await sleep(250);
  // The beat waits, and the release waits behind it.
  const released = lease.release();
  let isHeld = false;
  lease.whenHeld(() => (isHeld = true));
  await Promise.all([locked, released]);
  assert.deepEqual([isHeld, lease.holds, await ownerOf('late')], [false, false, null]);
});

test('who is told that the lease holds again, and throws, ends the process', async (t) => {
  const { url } = postgres;
  const lease = new Lease({ url, namespace: 'throws', leaseMs: LEASE_MS, clock: systemClock, log });
  t.after(() => lease.abandon());
  await lease.acquire(starting, () => undefined);
  const thrown = Promise.withResolvers<unknown>();
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.once('unhandledRejection', thrown.resolve);
  t.after(() => others.forEach((listener) => process.on('unhandledRejection', listener)));
  lease.whenHeld(() => {
    throw new Error('within a beat');
  });
  assert.match(String(await Promise.race([thrown.promise, sleep(5 * LEASE_MS)])), /within a beat/);
});

test('a namespace that is lost before the storage is opened is not opened', async (t) => {
  const { storage, context } = makeStorage(t, { url: postgres.url, namespace: 'early' });
  await storage.own(context);
  await take('early');
  await sleep(LEASE_MS);
  await assert.rejects(storage.open(), { code: 'namespace-lost', message: /is owned by another now/ });
});

test('a backup is of a moment in which this process owned the namespace', async (t) => {
  const { url } = postgres;
  const { storage, failures } = await openStorage(t, { url, namespace: 'backed-up', leaseMs: 20_000 });
  put(storage, 'a');
  await storage.settled();
  // No beat notices that before, and the open sessions do not ask.
  await postgres.query("UPDATE svc_fence SET owner = 'another' WHERE namespace = 'backed-up'");
  await assert.rejects(fold(storage), { code: 'namespace-lost' });
  assert.equal(failures.length, 1);
  const idle = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'svc' AND state LIKE 'idle in transaction%'";
  while ((await postgres.query(idle)).length > 0) await sleep(10);
});
