/** What is not as it was written, in files of the database or in its rows: told, and neither tried for ever nor taken for good. */
import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { bytesOf, fold, type MadeStorage, NEVER_FOLDED, openStorage, put } from '../support/postgres-storage.ts';

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

const opened = (t: TestContext, url: string, namespace: string): Promise<MadeStorage> =>
  openStorage(t, { url, namespace, foldBytes: NEVER_FOLDED });

/** A database in which that is done whenever a row of the log is written. */
async function databaseWith(t: TestContext, body: string): Promise<MadeStorage> {
  const url = await postgres.createDatabase();
  const made = await opened(t, url, 'svc');
  await postgres.query(
    `CREATE FUNCTION on_log() RETURNS trigger AS $$ BEGIN ${body} END $$ LANGUAGE plpgsql;
     CREATE TRIGGER on_log BEFORE INSERT ON svc_log FOR EACH ROW EXECUTE FUNCTION on_log()`,
    url.slice(url.lastIndexOf('/') + 1),
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
  assert.match(await failureOf(await databaseWith(t, raised('54000'))), /^state-unwritable: .*refuses what is written/);
});

test('a read that meets a damaged block is refused, and all others go on', async (t) => {
  const { storage, failures } = await opened(t, postgres.url, 'block');
  const value = 'v'.repeat(1000);
  for (let at = 0; at < 2000; at++) put(storage, `k${String(at).padStart(4, '0')}`, value);
  await storage.settled();
  await fold(storage);
  // One key is looked up in the index.
  await postgres.query('ANALYZE svc_entries');
  await postgres.overwrite('svc_entries', 100);
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
