/**
 * Two servers, one namespace: its owner, the waiting standby, and the rights of a server that was stopped for a while.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SQL } from '../../plugins/storage-postgres/schema.ts';
import { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const MAIN = fileURLToPath(new URL('../../config/svc.js', import.meta.url));
const LEASE_MS = 1000;
/** Lease so long that a standby that waited for its end would show. */
const LONG_LEASE_MS = 120_000;
const STANDBY = { status: 503, body: 'starting: standby, the namespace has another owner' };

let postgres: Postgres;
let manifestFile = '';
before(async () => {
  postgres = await startPostgres();
  const source = await readFile(new URL('../../config/examples/counter/Counter.mo', import.meta.url), 'utf8');
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'counter.wasm'), (await compileMotoko(source)).wasm);
  manifestFile = join(directory, 'actors.json');
  await writeFile(manifestFile, JSON.stringify({ actors: { counter: { wasm: 'counter.wasm' } } }));
});
after(() => postgres[Symbol.asyncDispose]());

async function start(
  t: TestContext,
  namespace: string,
  leaseMs: number,
  until: 'listening' | 'ready',
  more: readonly string[] = [],
  command?: readonly [string, ...string[]],
): Promise<Host> {
  const options = [`storage.url=${postgres.url}`, `storage.namespace=${namespace}`, `storage.lease-ms=${leaseMs}`];
  const args = [
    '--plugin',
    'storage=svc/storage-postgres',
    ...options.flatMap((option) => ['--plugin-option', option]),
  ];
  return new Host(await startServer(t, { manifestFile, args: [...args, ...more], until, ...(command && { command }) }));
}

async function standby(t: TestContext, namespace: string, leaseMs: number): Promise<Host> {
  const host = await start(t, namespace, leaseMs, 'listening');
  await host.until(async () => assert.deepEqual(await host.server.get('/health/ready'), STANDBY));
  return host;
}

const inc = async ({ server }: Host): Promise<string> => {
  const { status, body } = await server.post('/call-json/counter/inc');
  return `${status} ${body}`;
};

/** Makes each look at the wall clock an hour before or after the last one. */
const JUMPING =
  'data:text/javascript,const now = Date.now; let at = 0; Date.now = () => now() + (at++ % 3 - 1) * 3600000;';

suite('two servers, one namespace', { concurrency: 2 }, () => {
  test('an owner that was stopped for longer than its lease answers nothing more, queries neither, and ends', async (t) => {
    const one = await start(t, 'stopped', LEASE_MS, 'ready');
    const other = await standby(t, 'stopped', LEASE_MS);
    assert.deepEqual(await other.server.post('/call-json/counter/inc'), {
      status: 503,
      body: (await other.server.post('/query-json/counter/get')).body,
    });
    // The log is written a little later than the report.
    await other.until(async () =>
      assert.match(other.server.output.stderr, new RegExp(`'stopped' is owned by \\S+ pid ${one.server.process.pid} `)),
    );
    assert.equal(await inc(one), '200 [1]');
    one.server.process.kill('SIGSTOP');
    // The requests wait in the server's sockets until it goes on.
    const late = Promise.allSettled([
      one.server.post('/query-json/counter/get'),
      one.server.get('/inspect').then(() => one.server.post('/query-json/counter/get')),
      one.server.post('/call-json/counter/inc'),
    ]);
    await other.ready();
    assert.equal(await inc(other), '200 [2]');
    const ended = once(one.server.process, 'close');
    // For a while the server cannot find out: it only knows how late it is.
    const rows = "WHERE namespace = 'stopped' FOR UPDATE";
    const locked = postgres.query(
      `BEGIN; SELECT 1 FROM svc_owner ${rows}; SELECT 1 FROM svc_fence ${rows}; SELECT pg_sleep(0.6); COMMIT`,
    );
    await sleep(100);
    one.server.process.kill('SIGCONT');
    await locked;
    const outcomes = await late;
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected', 'rejected'],
      JSON.stringify(outcomes),
    );
    const [code] = (await ended) as [number | null];
    assert.equal(code, 1);
    assert.match(
      one.server.output.stderr,
      new RegExp(`the server ends: the namespace 'stopped' is owned by \\S+ pid ${other.server.process.pid} now`),
    );
    assert.equal(await inc(other), '200 [3]', 'nothing that the other one began was committed');
  });

  test('a graceful stop hands the namespace over at once, to one of two standbys', async (t) => {
    const one = await start(t, 'handed', LONG_LEASE_MS, 'ready');
    const others = await Promise.all([standby(t, 'handed', LONG_LEASE_MS), standby(t, 'handed', LONG_LEASE_MS)]);
    assert.equal(await inc(one), '200 [1]');
    assert.equal(await one.server.stop(), 0, one.server.output.stderr);
    const isReady = async (host: Host): Promise<boolean> => (await host.server.get('/health/ready')).status === 200;
    let ready: readonly boolean[] = [];
    for (const deadline = Date.now() + 60_000; !ready.includes(true); await sleep(20)) {
      assert.ok(Date.now() < deadline, others.map(({ server }) => server.output.stderr).join('\n'));
      ready = await Promise.all(others.map(isReady));
    }
    const owner = others[ready.indexOf(true)];
    const waiting = others[ready.indexOf(false)];
    assert.ok(owner !== undefined && waiting !== undefined, 'both own it');
    assert.equal(await inc(owner), '200 [2]');
    assert.deepEqual(await waiting.server.get('/health/ready'), STANDBY);
    // A standby that is told to stop does so.
    assert.equal(await waiting.server.stop(), 0, waiting.server.output.stderr);
    assert.equal(await owner.server.stop(), 0, owner.server.output.stderr);
  });

  test('clocks that jump by hours make no owner and no standby lose its way', async (t) => {
    const command = [process.execPath, '--import', JUMPING, MAIN] as const;
    const one = await start(t, 'jumping', LEASE_MS, 'ready', [], command);
    const other = await start(t, 'jumping', LEASE_MS, 'listening', [], command);
    await other.until(async () => assert.deepEqual(await other.server.get('/health/ready'), STANDBY));
    assert.equal(await inc(one), '200 [1]');
    await sleep(2 * LEASE_MS);
    assert.deepEqual(await other.server.get('/health/ready'), STANDBY);
    assert.equal((await one.server.post('/query-json/counter/get')).body, '[1]');
    one.server.process.kill('SIGKILL');
    await other.ready();
    assert.equal(await inc(other), '200 [2]');
  });

  test('nothing asks the database what time it is', () => {
    for (const { name, text } of Object.values(SQL))
      assert.doesNotMatch(text, /\bnow\b|_timestamp|current_|age\(|interval/i, name);
  });

  test('a backup of one namespace is restored into an empty one, and into no other', async (t) => {
    const one = await start(t, 'backed-up', LEASE_MS, 'ready');
    assert.equal(await inc(one), '200 [1]');
    const file = join(await temporaryDirectory(), 'backup');
    await writeFile(file, new Uint8Array(await (await one.server.fetch('/backup')).arrayBuffer()));
    assert.equal(await inc(one), '200 [2]');
    const restored = await start(t, 'restored', LEASE_MS, 'ready', ['--restore', file, '--live-cap', '2']);
    assert.match(restored.server.output.stdout, /^restored \d+ entries/m);
    assert.equal(await inc(restored), '200 [2]');
    assert.equal(await restored.server.stop(), 0, restored.server.output.stderr);
    const again = await start(t, 'restored', LEASE_MS, 'listening', ['--restore', file]);
    const [code] = (await once(again.server.process, 'close')) as [number | null];
    assert.equal(code, 1);
    assert.match(
      again.server.output.stderr,
      /the namespace 'restored' holds a state already \(drop --restore to serve it\)/,
    );
  });
});
