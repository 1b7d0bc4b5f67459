/** A process that stands still for longer than its lease, and sources and databases that are slow. */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import plugin from '../../plugins/storage-postgres/index.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import {
  LEASE_MS,
  makeStorage,
  type MadeStorage,
  NEVER_FOLDED,
  openStorage,
  put,
  type StorageOptions,
} from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

/** Pauses the thread as a stopped process that goes on later. */
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

/** Makes a database in which nothing can be written to the log; also returns a function that ends that. */
async function fullDatabase(
  t: TestContext,
  more: Partial<StorageOptions>,
): Promise<MadeStorage & { readonly mend: () => Promise<unknown> }> {
  const url = await postgres.createDatabase();
  const database = url.slice(url.lastIndexOf('/') + 1);
  const made = await openStorage(t, { url, namespace: 'svc', foldBytes: NEVER_FOLDED, ...more });
  await postgres.query(
    `CREATE FUNCTION is_full() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql;
     CREATE TRIGGER is_full BEFORE INSERT ON svc_log EXECUTE FUNCTION is_full()`,
    database,
  );
  return { ...made, mend: () => postgres.query('DROP TRIGGER is_full ON svc_log', database) };
}

suite('sources and databases that are slow', { concurrency: true }, () => {
  test('a write that is not answered is told once, and when it is: a lock of somebody else fails nothing', async (t) => {
    const url = await postgres.createDatabase();
    const { storage, failures, logged } = await openStorage(t, { url, namespace: 'late', foldBytes: NEVER_FOLDED });
    put(storage, 'first');
    await storage.settled();
    assert.deepEqual(logged, []);
    const other = new pg.Client(url);
    await other.connect();
    await other.query('BEGIN; LOCK TABLE svc_log');
    put(storage, 'second');
    while (logged.length === 0) await sleep(50);
    assert.equal(storage.durable, 1);
    await other.query('COMMIT');
    await other.end();
    await storage.settled();
    assert.deepEqual([storage.durable, failures, logged.length], [2, [], 2]);
    assert.match(
      logged[0] ?? '',
      /^the database .* has not answered what is written for 5 s: requests wait until it does$/,
    );
    assert.match(logged[1] ?? '', /^the database .* has answered it after \d+\.\d s$/);
  });

  test('what waits has a bound while the database is away, and a large unit is none of its own', async (t) => {
    const { storage, failures, logged, mend } = await fullDatabase(t, { waitingBytesMax: 2 ** 20 });
    await mend();
    const large = new Uint8Array(3 * 2 ** 20);
    for (const key of ['a', 'b']) {
      put(storage, key, large);
      await nextTurn();
    }
    await storage.settled();
    assert.deepEqual([storage.durable, failures], [2, []]);
    const full = await fullDatabase(t, { waitingBytesMax: 2 ** 20 });
    put(full.storage, 'first');
    while (full.logged.length === 0) await sleep(5);
    for (const expected of [0, 1]) {
      put(full.storage, 'large', large);
      await nextTurn();
      await nextTurn();
      assert.equal(full.failures.length, expected, 'the first is more than it may be, and nothing waited before');
    }
    assert.match(String(full.failures[0]), /1 MiB wait for the database, which does not take them/);
    assert.deepEqual(logged, []);
  });

  test('the database is back when everything that waited for it has gone on, and figures wait for nothing', async (t) => {
    const { storage, logged, mend } = await fullDatabase(t, {});
    put(storage, 'a');
    while (logged.length === 0) await sleep(5);
    await storage.figures();
    await sleep(100);
    assert.match(logged.join('\n'), /^.* does not take what is written \(full\)[^\n]*$/, 'once, and no more');
    await mend();
    await storage.settled();
    assert.deepEqual([storage.durable, logged.length], [1, 2]);
    assert.match(logged[1] ?? '', /is back after/);
  });

  test('a start says what it waits for, again and again, and ends when it is told to', async (t) => {
    const abort = new AbortController();
    // A database of its own: other cases run beside this one, which stops it.
    const own = await startPostgres();
    t.after(() => own[Symbol.asyncDispose]());
    const { url } = own;
    const one = await openStorage(t, { url, namespace: 'start', foldBytes: NEVER_FOLDED });
    put(one.storage, 'large', new Uint8Array(3 * 2 ** 20));
    await one.storage.settled();
    await one.storage.close();
    const { storage, context, notes } = makeStorage(t, { url, namespace: 'start', signal: abort.signal });
    await storage.own(context);
    await own.stop('crash');
    const opening = storage.open();
    opening.catch(() => undefined);
    while (notes.filter((note) => note === 'the database does not answer').length < 3) await sleep(10);
    abort.abort();
    await assert.rejects(opening, { code: 'storage-failed' });
    storage.abandon();
    await own.start();
    const again = await openStorage(t, { url, namespace: 'start' });
    const read = again.notes.filter((note) => /^reading the state from the database: \d+ bytes of its log$/.test(note));
    assert.ok(read.length >= 3, again.notes.join('\n'));
  });

  test('one who waits for the last writes of the owner before says so, and ends when it is told to', async (t) => {
    const { url } = postgres;
    const one = await openStorage(t, { url, namespace: 'writing' });
    await one.storage.close();
    const row = "WHERE namespace = 'writing' FOR SHARE";
    const locked = postgres.query(`BEGIN; SELECT 1 FROM svc_fence ${row}; SELECT pg_sleep(2); COMMIT`);
    await sleep(100);
    const abort = new AbortController();
    const { storage, context, notes } = makeStorage(t, {
      url,
      namespace: 'writing',
      leaseMs: 20_000,
      signal: abort.signal,
    });
    const owning = storage.own(context);
    owning.catch(() => undefined);
    while (!notes.includes('waiting for what the last owner has begun to write')) await sleep(5);
    await sleep(100);
    abort.abort();
    let isLocked = true;
    void locked.then(() => (isLocked = false));
    await assert.rejects(owning, { message: 'the server was told to stop' });
    assert.ok(isLocked, 'at once');
    await locked;
  });

  test('a stop has time for what waits for the database', async (t) => {
    const { storage, mend } = await fullDatabase(t, {});
    put(storage, 'a');
    const { stopDeadlineMs = 0 } = plugin;
    assert.ok(stopDeadlineMs > 10 * 60_000, 'what plugins have by default is too short');
    const ended = storage.end(new AbortController().signal);
    await sleep(100);
    await mend();
    await ended;
    assert.equal(storage.durable, 1);
  });
});
