/** A backup that is restored into PostgreSQL, and changes after it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastUnitChange } from '../../subsystems/storage/last-unit.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { backupOf, bytesOf, countOf, LEASE_MS, makeStorage, openStorage, put } from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

const LAST = 7;
const CHANGES = [lastUnitChange(LAST), { family: 'blob', key: bytesOf('old'), value: bytesOf('old') }] as const;

const cutAll = (): Promise<unknown> =>
  postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'svc'");

test('behind a restore units go on from the backup, and are kept when connections are cut before the first', async (t) => {
  const { url } = postgres;
  const namespace = 'restored';
  const { storage, failures, context } = makeStorage(t, { url, namespace });
  await storage.own(context);
  await storage.restore(backupOf(CHANGES), context);
  await storage.open();
  assert.deepEqual([storage.durable, storage.current], [LAST, LAST + 1]);
  await cutAll();
  put(storage, 'new');
  await storage.settled();
  assert.deepEqual([storage.durable, failures], [LAST + 1, []]);
  storage.abandon();
  const { storage: again } = await openStorage(t, { url, namespace });
  assert.deepEqual([again.durable, await countOf(again, 'new'), await countOf(again, 'old')], [LAST + 1, 1, 1]);
});

test('a backup that comes slowly is restored', async (t) => {
  const { url } = postgres;
  const { storage, context } = makeStorage(t, { url, namespace: 'slow' });
  await storage.own(context);
  await storage.restore(backupOf(CHANGES, 2 * LEASE_MS), context);
  await storage.open();
  assert.deepEqual([storage.durable, await countOf(storage)], [LAST, 1]);
});

test('a namespace that is taken during a restore is not restored into', async (t) => {
  const { url } = postgres;
  const { storage, context } = makeStorage(t, { url, namespace: 'taken' });
  await storage.own(context);
  const restored = storage.restore(backupOf(CHANGES, LEASE_MS / 2), context);
  const refused = assert.rejects(restored, { code: 'namespace-lost', message: /another server has taken .* 'taken'/ });
  await sleep(100);
  await postgres.query("UPDATE svc_fence SET fence = fence + 1 WHERE namespace = 'taken'");
  await refused;
  assert.deepEqual(await postgres.query("SELECT 1 FROM svc_entries WHERE namespace = 'taken'"), []);
});
