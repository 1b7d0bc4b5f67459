/** Damage in the database's files or rows: it is reported, and the storage neither retries for ever nor accepts it. */
import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { ServerError } from '../../kernel/index.ts';
import type { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import { CHUNK_ROWS, PIECE_BYTES, SQL } from '../../plugins/storage-postgres/schema.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import {
  bytesOf,
  fold,
  makeStorage,
  type MadeStorage,
  NEVER_FOLDED,
  openStorage,
  put,
} from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

const opened = (t: TestContext, url: string, namespace: string): Promise<MadeStorage> =>
  openStorage(t, { url, namespace, foldBytes: NEVER_FOLDED });

const nameOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1);

/** Makes a database in which `body` runs whenever a row of the log is written. */
async function databaseWith(t: TestContext, body: string): Promise<MadeStorage> {
  const url = await postgres.createDatabase();
  const made = await opened(t, url, 'svc');
  await postgres.query(
    `CREATE FUNCTION on_log() RETURNS trigger AS $$ BEGIN ${body} END $$ LANGUAGE plpgsql;
     CREATE TRIGGER on_log BEFORE INSERT ON svc_log FOR EACH ROW EXECUTE FUNCTION on_log()`,
    nameOf(url),
  );
  return made;
}

const raised = (code: string): string => `RAISE EXCEPTION 'raised' USING ERRCODE = '${code}';`;

async function failureOf({ storage, failures }: MadeStorage): Promise<string> {
  put(storage, 'a');
  while (failures.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  return `${failures[0]?.code}: ${failures[0]?.message}`;
}

test('a commit that meets damage or a limit ends the process', async (t) => {
  assert.match(await failureOf(await databaseWith(t, raised('XX001'))), /^state-corrupt: .*is damaged \(raised\)/);
  assert.match(await failureOf(await databaseWith(t, raised('54000'))), /^state-unwritable: .*refuses a write/);
});

test('a read that meets a damaged block is refused, and all others go on', async (t) => {
  const url = await postgres.createDatabase();
  const database = nameOf(url);
  const { storage, failures } = await opened(t, url, 'block');
  const value = 'v'.repeat(1000);
  for (let at = 0; at < 2000; at++) put(storage, `k${String(at).padStart(4, '0')}`, value);
  await storage.settled();
  await fold(storage);
  // A single key is looked up in the index.
  await postgres.query('ANALYZE svc_entries', database);
  await postgres.overwrite('svc_entries', 100, database);
  const get = (key: string): Promise<Uint8Array | undefined> => storage.get('blob', bytesOf(key));
  assert.equal((await get('k0000'))?.length, value.length);
  await assert.rejects(storage.values('blob', bytesOf('')), {
    code: 'state-corrupt',
    message: /is damaged .*block 100/,
  });
  assert.equal((await get('k0000'))?.length, value.length);
  put(storage, 'later');
  await storage.settled();
  assert.deepEqual(failures, []);
});

const ID = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 3, 1, 1]);

/** Writes bytes from the beginning of the first page of the heap on. */
function patch(storage: PostgresStorage, bytes: Uint8Array): void {
  const entry = Buffer.alloc(10);
  entry.writeUInt16LE(1, 4);
  entry.writeUInt16LE(bytes.length, 8);
  storage.unit.patch('heap', ID, 1, Buffer.concat([entry, bytes]));
  storage.markDirty();
}

test('a page that is not as long as a page is refused under a patch, too, and not folded', async (t) => {
  const made = await opened(t, postgres.url, 'page');
  const { storage, failures } = made;
  patch(storage, new Uint8Array(4096).fill(7));
  await storage.settled();
  await fold(storage);
  const where = "WHERE namespace = 'page' AND family = 1";
  const length = 'octet_length(value) AS length';
  for (const value of ["value || '\\x00'", 'substring(value from 1 for 100)']) {
    await postgres.query(`UPDATE svc_entries SET value = ${value} ${where}`);
    patch(storage, bytesOf('abc'));
    await storage.settled();
    await assert.rejects(storage.canister(ID), { code: 'state-corrupt', message: /has \d+ bytes instead of 4096/ });
  }
  await assert.rejects(fold(storage), { code: 'state-corrupt' });
  assert.deepEqual(await postgres.query(`SELECT ${length} FROM svc_entries ${where}`), [{ length: 100 }]);
  while (failures.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(failures[0]?.code, 'state-corrupt');
});

/** Returns the reason why a namespace cannot be opened. The process would end. */
async function refusal(t: TestContext, namespace: string): Promise<string> {
  const { storage, context } = makeStorage(t, { url: postgres.url, namespace });
  await storage.own(context);
  const error: unknown = await storage.open().then(
    () => assert.fail('it was opened'),
    (reason: unknown) => reason,
  );
  storage.abandon();
  assert.ok(error instanceof ServerError && error.code === 'state-corrupt');
  return error.message;
}

test('a log that lacks its first or its last units is not recovered', async (t) => {
  const { storage } = await opened(t, postgres.url, 'log');
  for (let at = 1; at <= 5; at++) {
    put(storage, `k${at}`);
    await storage.settled();
  }
  storage.abandon();
  await postgres.query("DELETE FROM svc_log WHERE namespace = 'log' AND unit <= 2");
  assert.match(await refusal(t, 'log'), /svc_log has no unit 1 before unit 3/);
  await postgres.query("INSERT INTO svc_entries VALUES ('log', 0, '\\x55', 0, '\\x0000000000000006')");
  assert.match(await refusal(t, 'log'), /svc_log ends with unit 5, and unit 6 was committed/);
  await postgres.query("UPDATE svc_entries SET value = '\\x00' WHERE namespace = 'log'");
  assert.match(await refusal(t, 'log'), /has no number under meta\/U/);
});

test('a step of a fold that clears a prefix leaves no part of a value', async (t) => {
  const { storage } = await opened(t, postgres.url, 'cleared');
  const PIECES = 5;
  for (let at = 1; at < CHUNK_ROWS; at++) put(storage, `k${String(at).padStart(5, '0')}`);
  put(storage, 'kz', new Uint8Array(PIECES * PIECE_BYTES));
  await storage.settled();
  await fold(storage);
  const rows = async (): Promise<unknown> =>
    (await postgres.query("SELECT count(*)::int AS n FROM svc_entries WHERE namespace = 'cleared' AND family = 6"))[0];
  assert.deepEqual(await rows(), { n: CHUNK_ROWS - 1 + PIECES });
  const cleared = await clear(postgres, 'cleared');
  assert.deepEqual([cleared, await rows()], [CHUNK_ROWS - 1 + PIECES, { n: 0 }]);
});

/** Executes a step of a fold that clears the keys from `k` to `l`; returns the rows that it has removed. */
async function clear(database: Postgres, namespace: string): Promise<number> {
  const fence = `(SELECT fence FROM svc_fence WHERE namespace = '${namespace}')`;
  const values = [`'${namespace}'`, fence, '6', "'k'", "'l'"];
  const { text } = SQL.clearBetween;
  const [row] = await database.query(text.replaceAll(/\$(\d)/g, (_, at: string) => values[Number(at) - 1] ?? ''));
  return Number(row?.['count']);
}

test(
  'steps of a fold clear what PostgreSQL has no statistics of, in a fresh database, as quickly as all else',
  { timeout: 60_000 },
  async (t) => {
    await using fresh = await startPostgres({ settings: ['autovacuum=off'] });
    const { storage } = await opened(t, fresh.url, 'fresh');
    await fold(storage);
    storage.abandon();
    const ROWS = 5 * CHUNK_ROWS;
    await fresh.query(`INSERT INTO svc_entries SELECT 'fresh', family, convert_to('k' || to_char(n, 'FM000000'), 'UTF8'), 0,
      '\\x00' FROM generate_series(1, ${ROWS}) AS n, generate_series(5, 6) AS family`);
    for (let step = 0; step < 5; step++) assert.equal(await clear(fresh, 'fresh'), CHUNK_ROWS);
    assert.equal(await clear(fresh, 'fresh'), 0);
    const [left] = await fresh.query("SELECT count(*)::int AS n FROM svc_entries WHERE key LIKE 'k%'");
    assert.deepEqual(left, { n: ROWS }, 'the other family');
  },
);
