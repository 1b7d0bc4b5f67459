/**
 * Failures between the storage and its database: connections cut at any byte, a database that goes and comes, that
 * fills up, that is not the right one.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ServerError, systemClock } from '../../kernel/index.ts';
import { Connection } from '../../plugins/storage-postgres/connection.ts';
import { withSslMode } from '../../plugins/storage-postgres/connection-url.ts';
import { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import { prepareSchema } from '../../plugins/storage-postgres/schema.ts';
import { PASSWORD_ROLE, type Postgres, startPostgres } from '../support/postgres.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { seeded } from '../support/seeded.ts';

const LEASE_MS = 500;
const ALL = new Uint8Array(0);
const key = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

interface Opened {
  readonly storage: PostgresStorage;
  readonly failures: ServerError[];
  readonly logged: string[];
}

async function open(t: TestContext, url: string, namespace: string, foldBytes = 1): Promise<Opened> {
  const failures: ServerError[] = [];
  const logged: string[] = [];
  const note = (message: string): void => void logged.push(message);
  const storage = new PostgresStorage({
    url,
    namespace,
    leaseMs: LEASE_MS,
    clock: systemClock,
    log: { info: note, warn: note },
    onFailure: (error) => void failures.push(error),
    foldBytes,
  });
  t.after(() => storage.abandon());
  await storage.own({ readiness: { waiting: () => undefined }, signal: new AbortController().signal });
  await storage.open();
  return { storage, failures, logged };
}

/** Returns the reason why the storage cannot start, which is one line. */
async function refusal(t: TestContext, url: string): Promise<string> {
  const error = await open(t, url, 'svc').then(
    () => assert.fail('it was opened'),
    (reason: unknown) => reason as ServerError,
  );
  assert.ok(error.message.length > 20 && !error.message.includes('\n'), error.message);
  assert.match(error.code, /^state-/);
  return error.message;
}

/** Starts a proxy to the database that can be cut after so many bytes, in either direction. */
async function startProxy(
  t: TestContext,
): Promise<{ readonly url: string; readonly cutAfter: (bytes: number) => void }> {
  const sockets = new Set<Socket>();
  let left = Number.POSITIVE_INFINITY;
  const cut = (): void => {
    left = Number.POSITIVE_INFINITY;
    for (const socket of sockets) socket.destroy();
  };
  const pass = (from: Socket, to: Socket): void => {
    sockets.add(from.on('error', () => undefined).on('close', () => (sockets.delete(from), to.destroy())));
    from.on('data', (bytes: Buffer) => {
      to.write(bytes.subarray(0, Math.min(left, bytes.length)));
      left -= bytes.length;
      // The bytes passed on arrive first: the end comes behind them.
      if (left <= 0) setImmediate(cut);
    });
  };
  const server = createServer((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    pass(near, far);
    pass(far, near);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    cut();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { url: postgres.url.replace(`:${postgres.port}/`, `:${port}/`), cutAfter: (bytes) => (left = bytes) };
}

test('connections cut at any byte lose nothing that was told, and do nothing twice', async (t) => {
  const { url, cutAfter } = await startProxy(t);
  const seeds = new ProofSeeds(40);
  const { storage, failures } = await open(t, url, 'cut');
  let given = 0;
  let told = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    // The cut comes between the middle of the first message and some commits and folds; sometimes a large unit is on
    // its way.
    cutAfter(1 + random.below(random.oneIn(2) ? 600 : 60_000));
    const units = 3 + random.below(10);
    for (let count = 0; count < units; count++) {
      const number = ++given;
      storage.unit.put('queue', key('count'), key(String(number)));
      storage.unit.put('blob', key(`n${String(number).padStart(6, '0')}`), key(String(number)));
      if (random.oneIn(20)) storage.unit.put('module', key('large'), new Uint8Array(3 * 2 ** 20).fill(number));
      storage.markDirty();
      storage.whenDurable(storage.current, () => {
        assert.equal(number, told + 1, 'in order, each once');
        told = number;
      });
      if (random.oneIn(2)) await new Promise((resolve) => setImmediate(resolve));
    }
    if (random.oneIn(3)) assert.equal((await storage.values('blob', ALL)).ends.length, given, 'reads wait, too');
  }
  await storage.settled();
  assert.deepEqual([told, failures], [given, []]);
  storage.abandon();
  const { storage: again } = await open(t, postgres.url, 'cut');
  assert.equal(Buffer.from((await again.get('queue', key('count'))) ?? ALL).toString(), String(given));
  const numbers = (await again.range('blob', ALL)).map(([, value]) => Number(Buffer.from(value).toString()));
  assert.deepEqual(
    numbers,
    Array.from({ length: given }, (_, at) => at + 1),
  );
});

test('a commit whose answer was lost is found, whatever isolation transactions have by default', async (t) => {
  const { url, cutAfter } = await startProxy(t);
  const name = (await postgres.createDatabase()).replace(/.*\//, '');
  await postgres.query(`ALTER DATABASE ${name} SET default_transaction_isolation = 'repeatable read'`);
  const { storage, failures } = await open(t, url.replace(/[^/]*$/, name), 'svc');
  // The statement goes on in the database when the connection is gone.
  await postgres.query(
    `CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(0.6); RETURN NEW; END $$ LANGUAGE plpgsql;
     CREATE TRIGGER slow AFTER INSERT ON svc_log FOR EACH ROW EXECUTE FUNCTION slow()`,
    name,
  );
  storage.unit.put('queue', key('a'), key('1'));
  storage.markDirty();
  await sleep(200);
  cutAfter(1);
  let isTold = false;
  storage.whenDurable(storage.newest, () => (isTold = true));
  while (!isTold && failures.length === 0) await sleep(10);
  assert.deepEqual([isTold, failures], [true, []]);
});

test('while the database is away nothing is told as durable; it goes on when the database does', async (t) => {
  const { storage, failures, logged } = await open(t, postgres.url, 'away');
  const put = (value: string): void => {
    storage.unit.put('queue', key('a'), key(value));
    storage.markDirty();
  };
  put('1');
  await storage.settled();
  await postgres.stop('crash');
  put('2');
  let isTold = false;
  storage.whenDurable(storage.current, () => (isTold = true));
  let isLetGo = false;
  await sleep(LEASE_MS);
  storage.whenDurable(storage.durable, () => (isLetGo = true));
  await sleep(LEASE_MS / 2);
  assert.deepEqual([isTold, isLetGo], [false, false], 'nor does leave what was only read');
  assert.ok((await storage.figures()).unitsCommitted >= 1, 'figures need no database');
  await postgres.start();
  await storage.settled();
  while (!isLetGo) await sleep(10);
  assert.equal(Buffer.from((await storage.get('queue', key('a'))) ?? ALL).toString(), '2');
  assert.ok(isTold);
  assert.deepEqual(failures, []);
  assert.match(logged.join('\n'), /does not take what is written .*\n.*is back after/);
});

test('a database that is full is waited for', async (t) => {
  const url = await postgres.createDatabase();
  const name = url.slice(url.lastIndexOf('/') + 1);
  const { storage, failures } = await open(t, url, 'full');
  await postgres.query(
    `CREATE FUNCTION is_full() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql;
     CREATE TRIGGER is_full BEFORE INSERT ON svc_log EXECUTE FUNCTION is_full()`,
    name,
  );
  storage.unit.put('queue', key('a'), key('1'));
  storage.markDirty();
  let isTold = false;
  storage.whenDurable(storage.current, () => (isTold = true));
  await sleep(200);
  assert.equal(isTold, false);
  await postgres.query('DROP TRIGGER is_full ON svc_log', name);
  await storage.settled();
  assert.deepEqual([isTold, failures], [true, []]);
});

test('what a start cannot use is one line that says what to do, and shows no password', async (t) => {
  const { url } = postgres;
  const secret = 'p%40ss-word';
  for (const [wrong, expected] of [
    ['not a url', /storage.url is no URL like postgres:/],
    [`mysql://me:${secret}@127.0.0.1/x`, /storage.url is no URL like postgres:/],
    [
      url.replace(/\/postgres$/, '/nowhere').replace('postgres@', `postgres:${secret}@`),
      /"nowhere" does not exist.*createdb/,
    ],
    [`postgres://postgres:${secret}@127.0.0.1:1/x`, /cannot be reached .*is it running/],
    [`${url.replace('postgres@', `postgres:${secret}@`)}?sslmode=require`, /refuses TLS/],
    [`${url}?sslrootcert=/nowhere.pem`, /names a file that cannot be read .*nowhere\.pem/],
    [`${url}?sslmod=verify-full`, /has a parameter behind \? that is not one of .*sslmode/],
    [`${url}?sslmode=verify`, /has a sslmode, of its own or of PGSSLMODE, that is none of .*verify-full/],
    [withSslMode(url, 'allow'), /has a sslmode, of its own or of PGSSLMODE, that is none of/],
    [`${url}?ssl=require`, /has a parameter ssl that is none of true, 1, 0, no-verify: .*sslmode/],
    [`${url}?ssl=false`, /has a parameter ssl that is none of/],
    [url.replace('postgres@', 'post%zzgres@'), /has a % that begins no percent-encoding/],
    [url.replace('postgres@', `postgres:?${secret}@`), /storage.url /],
  ] as const) {
    const message = await refusal(t, wrong);
    assert.match(message, expected);
    assert.ok(!message.includes(secret) && !message.includes('p@ss-word'), message);
  }
  await postgres.query(`CREATE ROLE ${PASSWORD_ROLE} LOGIN PASSWORD 'right'`);
  const as = (password: string): string => url.replace('postgres@', `${PASSWORD_ROLE}:${password}@`);
  const refused = await refusal(t, as(secret));
  assert.match(refused, /refuses the password .*PGPASSWORD/);
  assert.ok(!refused.includes(secret) && !refused.includes('p@ss-word'), refused);
  assert.match(await refusal(t, url.replace('postgres@', `${PASSWORD_ROLE}@`)), /asks for a password.*set PGPASSWORD/);
  assert.match(await refusal(t, as('right')), /does not let this user make or use the tables/);
});

test('tables of a version of the schema that there is not yet, or never was, are left alone', async (t) => {
  for (const [version, expected] of [
    [99, /version 99 of the schema, and this svc has version 4: use the newer svc/],
    [0, /version 0 of the schema.*restore a backup/],
  ] as const) {
    const url = await postgres.createDatabase();
    const name = url.slice(url.lastIndexOf('/') + 1);
    await postgres.query(`CREATE TABLE svc_schema (version integer); INSERT INTO svc_schema VALUES (${version})`, name);
    assert.match(await refusal(t, url), expected);
    assert.equal((await postgres.query("SELECT 1 FROM pg_tables WHERE tablename LIKE 'svc%'", name)).length, 1);
  }
});

test('tables of an older schema are taken over step by step, by one of those that start together', async (t) => {
  const url = await postgres.createDatabase();
  const options = { url, clock: systemClock, idleTransactionMs: 10_000 };
  const first = await Connection.open(options);
  const second = await Connection.open(options);
  t.after(() => Promise.all([first.end(), second.end()]));
  await prepareSchema(first, []);
  const steps = [
    ['ALTER TABLE svc_log ADD COLUMN a integer'],
    ['ALTER TABLE svc_log ADD COLUMN b integer', 'UPDATE svc_log SET b = a'],
  ];
  const torn = [...steps.slice(0, 1), ['ALTER TABLE svc_log ADD COLUMN b integer', 'not a statement']];
  await assert.rejects(prepareSchema(first, torn));
  const version = async (): Promise<unknown> => (await first.run('SELECT version FROM svc_schema')).rows;
  assert.deepEqual(await version(), [[2]], 'a step that fails leaves what was there before it');
  await Promise.all([prepareSchema(first, steps), prepareSchema(second, steps)]);
  assert.deepEqual(await version(), [[3]]);
  await first.run('SELECT a, b FROM svc_log');
  await assert.rejects(prepareSchema(first, steps.slice(0, 1)), { code: 'state-newer', message: /use the newer svc/ });
});
