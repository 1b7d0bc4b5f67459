/**
 * A database that returns to its state of some transactions ago: its machine has crashed with `synchronous_commit =
 * off`, or an asynchronous replica has taken its place. Changes committed long before must not be lost with the last
 * ones.
 */
import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import { familyNumber } from '../../plugins/storage-postgres/schema.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { countOf, fold, type MadeStorage, NEVER_FOLDED, openStorage, put } from '../support/postgres-storage.ts';

const ENTRIES = 5000;
/** Entry behind some steps of the fold, and before the one that is held up. */
const FOLDED = 1500;
const HELD_UP = 2000;

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

const name = (at: number): string => `k${String(at).padStart(6, '0')}`;

/** Opens a storage with entries in its log, to which the database will return. */
async function opened(t: TestContext, namespace: string): Promise<MadeStorage> {
  const made = await openStorage(t, { url: postgres.url, namespace, foldBytes: NEVER_FOLDED });
  for (let at = 0; at < ENTRIES; at++) put(made.storage, name(at));
  await made.storage.settled();
  await postgres.keep();
  return made;
}

const rowsOf = async (table: string, namespace: string): Promise<number> =>
  Number((await postgres.query(`SELECT count(*) FROM ${table} WHERE namespace = '${namespace}'`))[0]?.['count']);

/** Makes writers of that entry wait until the database returns to its earlier state. */
async function holdUp(namespace: string, key: string): Promise<void> {
  const client = new pg.Client(postgres.url);
  client.on('error', () => undefined);
  await client.connect();
  await client.query('BEGIN');
  const row = [namespace, familyNumber('blob'), Buffer.from(key), Buffer.alloc(1)];
  await client.query('INSERT INTO svc_entries VALUES ($1, $2, $3, 0, $4)', row);
}

/** Asserts that another process finds all entries when that one has ended. */
async function mustHaveAll(t: TestContext, ended: PostgresStorage, namespace: string): Promise<void> {
  ended.abandon();
  const { storage } = await openStorage(t, { url: postgres.url, namespace });
  assert.equal(await countOf(storage, 'k'), ENTRIES);
  storage.abandon();
}

test('a fold whose first steps are lost does them again', async (t) => {
  const { storage, failures } = await opened(t, 'within');
  await holdUp('within', name(HELD_UP));
  const folding = fold(storage).catch(() => undefined);
  while ((await rowsOf('svc_entries', 'within')) < FOLDED) await sleep(1);
  assert.ok((await rowsOf('svc_log', 'within')) > 0, 'it was still going on');
  await postgres.goBack();
  await folding;
  await fold(storage);
  assert.deepEqual([await rowsOf('svc_log', 'within'), failures], [0, []]);
  assert.equal(await countOf(storage, 'k'), ENTRIES);
  await mustHaveAll(t, storage, 'within');
});

test('a server ends when the last steps of a fold are lost behind it, and the next one reads the log', async (t) => {
  const { storage, failures } = await opened(t, 'behind');
  await fold(storage);
  assert.equal(await rowsOf('svc_log', 'behind'), 0);
  await postgres.goBack();
  assert.ok((await rowsOf('svc_log', 'behind')) > 0, 'it is back');
  await assert.rejects(storage.range('blob', new Uint8Array(0)), { code: 'state-corrupt' });
  assert.match(
    String(failures[0]),
    /has the tables up to unit 0 of namespace 'behind', and unit 1 was brought into them/,
  );
  await mustHaveAll(t, storage, 'behind');
});

test('a server ends when the newest units are lost, and when there are units that it has not committed', async (t) => {
  const { storage, failures } = await opened(t, 'newest');
  put(storage, 'later');
  await storage.settled();
  await postgres.goBack();
  await assert.rejects(storage.range('blob', new Uint8Array(0)), { code: 'state-corrupt' });
  assert.match(String(failures[0]), /has unit 1 as the newest of namespace 'newest', and unit 2 was committed/);
  await mustHaveAll(t, storage, 'newest');
  const other = await openStorage(t, { url: postgres.url, namespace: 'newest', foldBytes: NEVER_FOLDED });
  await postgres.query("INSERT INTO svc_log SELECT namespace, 9, 0, 9, bytes FROM svc_log WHERE namespace = 'newest'");
  await postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'svc'");
  put(other.storage, 'later');
  while (other.failures.length === 0) await sleep(10);
  assert.match(String(other.failures[0]), /has unit 9 as the newest/);
  assert.equal(other.storage.durable, 1);
});
