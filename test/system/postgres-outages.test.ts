/** A database that goes away and comes back, with an owner and a standby. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { join } from 'node:path';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { makeStorage, openStorage, put } from '../support/postgres-storage.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const LEASE_MS = 2_000;
/** Time by which the owner is connected later than the standby. */
const LATER_MS = 600;

/** Starts a database for one case: others run beside it, which stop theirs at other times. */
async function ownPostgres(t: TestContext): Promise<Postgres> {
  const postgres = await startPostgres();
  t.after(() => postgres[Symbol.asyncDispose]());
  return postgres;
}

async function away(postgres: Postgres, how: 'crash' | 'fast', ms: number): Promise<void> {
  await postgres.stop(how);
  await sleep(ms);
  await postgres.start();
}

/** A proxy to the database that opens later than the database does: its client is connected again after the others. */
async function slowWay(t: TestContext, postgres: Postgres): Promise<{ readonly url: string; isShut: boolean }> {
  const way = { url: '', isShut: false };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const onward = connect(postgres.port, '127.0.0.1');
    for (const each of [socket, onward]) sockets.add(each.on('error', () => undefined));
    if (way.isShut) socket.destroy();
    socket.pipe(onward).on('close', () => socket.destroy());
    onward.pipe(socket).on('close', () => onward.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  way.url = postgres.url.replace(`:${postgres.port}/`, `:${(server.address() as AddressInfo).port}/`);
  return way;
}

suite('a database that goes away and comes back', { concurrency: true }, () => {
  test('an owner that lives keeps its namespace over outages shorter and longer than its lease', async (t) => {
    const postgres = await ownPostgres(t);
    const options = { url: postgres.url, namespace: 'outages', leaseMs: LEASE_MS };
    const way = await slowWay(t, postgres);
    const owner = await openStorage(t, { ...options, url: way.url });
    const standby = makeStorage(t, options);
    let isTaken = false;
    const owning = standby.storage.own(standby.context).then(() => (isTaken = true));
    while (!standby.notes.includes('standby, the namespace has another owner')) await sleep(10);
    const outages = [
      ['fast', 1.4],
      ['crash', 0.8],
      ['fast', 0.2],
      ['crash', 3],
    ] as const;
    for (const [at, [how, leases]] of outages.entries()) {
      way.isShut = true;
      await away(postgres, how, leases * LEASE_MS);
      await sleep(LATER_MS);
      way.isShut = false;
      put(owner.storage, `behind ${at}`);
      while (owner.storage.durable <= at && owner.failures.length === 0) await sleep(10);
      // Sometimes the next outage begins while the standby still counts.
      await sleep(at === 1 ? 0 : 1.5 * LEASE_MS);
      assert.deepEqual([owner.failures, isTaken], [[], false], `${how} for ${leases} leases`);
    }
    assert.match(standby.logged.join('\n'), /does not answer.*\n.*answers again/);
    // Now the owner is dead; the standby's clock has seen outages, and goes on from the last beat.
    const diedMs = performance.now();
    owner.storage.abandon();
    await owning;
    assert.ok(performance.now() - diedMs >= LEASE_MS / 2, 'not before its lease has run out');
    await standby.storage.open();
    const found = await standby.storage.range('blob', new Uint8Array(0));
    assert.equal(found.length, outages.length, 'nothing is lost');
  });

  test('a database that takes no writes for a while is no sign that the owner is dead', async (t) => {
    const postgres = await ownPostgres(t);
    const options = { url: postgres.url, namespace: 'svc', leaseMs: LEASE_MS };
    const owner = await openStorage(t, options);
    const standby = makeStorage(t, options);
    let isTaken = false;
    standby.storage.own(standby.context).then(
      () => (isTaken = true),
      () => undefined,
    );
    while (!standby.notes.includes('standby, the namespace has another owner')) await sleep(10);
    await postgres.query(
      `CREATE FUNCTION is_full() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql;
     CREATE TRIGGER is_full BEFORE UPDATE ON svc_owner EXECUTE FUNCTION is_full()`,
    );
    await sleep(2.2 * LEASE_MS);
    await postgres.query('DROP TRIGGER is_full ON svc_owner');
    await sleep(2 * LEASE_MS);
    put(owner.storage, 'behind');
    await owner.storage.settled();
    assert.deepEqual([owner.failures, isTaken], [[], false]);
  });

  test('calls that come while the database is away are executed once, by the owner of before', async (t) => {
    const postgres = await ownPostgres(t);
    const source = await readFile(new URL('../../config/examples/counter/Counter.mo', import.meta.url), 'utf8');
    const manifestFile = join(await temporaryDirectory(), 'actors.json');
    await writeFile(manifestFile.replace('actors.json', 'counter.wasm'), (await compileMotoko(source)).wasm);
    await writeFile(manifestFile, JSON.stringify({ actors: { counter: { wasm: 'counter.wasm' } } }));
    const options = [`storage.url=${postgres.url}`, 'storage.namespace=calls', `storage.lease-ms=${LEASE_MS}`];
    const args = ['--plugin', 'storage=svc/storage-postgres', ...options.flatMap((each) => ['--plugin-option', each])];
    const start = async (until: 'listening' | 'ready'): Promise<Host> =>
      new Host(await startServer(t, { manifestFile, args, until }));
    const owner = await start('ready');
    const standby = await start('listening');
    const isWaiting = { status: 503, body: 'starting: standby, the namespace has another owner' };
    await standby.until(async () => assert.deepEqual(await standby.server.get('/health/ready'), isWaiting));
    const answers: string[] = [];
    const call = async (): Promise<void> => {
      const { status, body } = await owner.server.post('/call-json/counter/inc');
      answers.push(`${status} ${body}`);
    };
    await call();
    for (const [how, leases] of [
      ['fast', 1.4],
      ['crash', 0.8],
    ] as const) {
      const outage = away(postgres, how, leases * LEASE_MS);
      await sleep(200);
      await Promise.all([outage, call(), call(), call()]);
      await sleep(1.5 * LEASE_MS);
      assert.deepEqual(await standby.server.get('/health/ready'), isWaiting);
      await call();
    }
    assert.deepEqual(
      answers.toSorted((a, b) => a.localeCompare(b)),
      Array.from({ length: 9 }, (_, at) => `200 [${at + 1}]`),
    );
    assert.equal(owner.server.process.exitCode, null, owner.server.output.stderr);
  });
});
