/** One service of several servers on one PostgreSQL: their actors, names and ids, and what becomes of a shard. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { idInShard, parsePrincipal, principalToText, shardOf } from '../../subsystems/ic/index.ts';
import { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const LEASE_MS = 2_000;
/** Lease so long that a server that waited for its end would show. */
const LONG_LEASE_MS = 120_000;
const SHARDS = 3;
const KEY = 'a key of thirty-two characters or more';
/** Actors of the manifest: the one at index i belongs to shard i modulo 3. */
const NAMES = ['a', 'b', 'c', 'd'] as const;
const SOURCE = `
import Prim "mo:prim";
persistent actor {
  var count = 0;
  public func inc() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
  public func variable(name : Text) : async ?Text { Prim.envVar<system>(name) };
  public func ask(principal : Text) : async Text {
    let other = actor (principal) : actor { inc : () -> async Nat };
    try { debug_show (await other.inc()) } catch (error) { Prim.errorMessage(error) }
  };
};`;

let postgres: Postgres;
let directory = '';
let wasm: Uint8Array = new Uint8Array(0);
before(async () => {
  postgres = await startPostgres();
  directory = await temporaryDirectory();
  ({ wasm } = await compileMotoko(SOURCE));
  await writeFile(join(directory, 'counter.wasm'), wasm);
  await writeManifest('actors.json', NAMES);
});
after(() => postgres[Symbol.asyncDispose]());

function writeManifest(file: string, names: readonly string[]): Promise<void> {
  const actors = Object.fromEntries(names.map((name) => [name, { wasm: 'counter.wasm' }]));
  return writeFile(join(directory, file), JSON.stringify({ actors }));
}

interface StartOptions {
  readonly namespace: string;
  readonly leaseMs?: number;
  readonly shards?: number;
  readonly until?: 'listening' | 'ready';
  readonly manifest?: string;
}

async function start(t: TestContext, options: StartOptions): Promise<Host> {
  const { namespace, leaseMs = LEASE_MS, shards = SHARDS, until = 'ready', manifest = 'actors.json' } = options;
  const given = [
    `storage.url=${postgres.url}`,
    `storage.namespace=${namespace}`,
    `storage.shards=${shards}`,
    `storage.lease-ms=${leaseMs}`,
  ];
  const plugin = ['--plugin', 'storage=svc/storage-postgres', ...given.flatMap((each) => ['--plugin-option', each])];
  const args = [...plugin, '--cluster-listen', '127.0.0.1:0', '--cluster-processes', '1'];
  const env = { SVC_CLUSTER_KEY: KEY };
  return new Host(await startServer(t, { manifestFile: join(directory, manifest), args, env, until }));
}

/** Starts a server for each shard at once; they come back in the order of their shards. */
async function startAll(t: TestContext, options: StartOptions): Promise<readonly [Host, Host, Host]> {
  const hosts = await Promise.all([start(t, options), start(t, options), start(t, options)]);
  const shards = await Promise.all(hosts.map((host) => shardOwnedBy(host)));
  const at = (shard: number): Host => hosts[shards.indexOf(shard)] ?? assert.fail(`nobody has shard ${shard}`);
  return [at(0), at(1), at(2)];
}

async function shardOwnedBy(host: Host): Promise<number> {
  let shard: string | undefined;
  await host.until(async () => {
    [, shard] = /this server owns shard (\d) of 3/.exec(host.server.output.stderr) ?? [];
    assert.ok(shard !== undefined, host.server.output.stderr);
  });
  return Number(shard);
}

async function standby(t: TestContext, options: StartOptions): Promise<Host> {
  const host = await start(t, { ...options, until: 'listening' });
  const body = 'starting: standby, all 3 shards have other owners';
  await host.until(async () => assert.deepEqual(await host.server.get('/health/ready'), { status: 503, body }));
  return host;
}

async function called(host: Host, name: string, method: string, argument: readonly unknown[] = []): Promise<string> {
  const { status, body } = await host.server.post(`/call-json/${name}/${method}`, JSON.stringify(argument));
  return `${status} ${body}`;
}

const shardIn = (principal: string): number | undefined => shardOf(parsePrincipal(principal) ?? assert.fail(principal));

/** Returns what an actor knows of the id of another one. */
async function principalOf(host: Host, asked: string, name: string): Promise<string> {
  const answer = await called(host, asked, 'variable', [`PUBLIC_CANISTER_ID:${name}`]);
  return /(?:[a-z2-7]{5}-){4}[a-z2-7]{3}/.exec(answer)?.[0] ?? assert.fail(answer);
}

/** Waits until a server knows these actors, by their shards: its own and those of the others. */
async function knows(host: Host, ...expected: readonly (readonly string[])[]): Promise<void> {
  await host.until(async () => {
    const actors = await host.inspect();
    const found = expected.map((_names, shard) => actors.filter(({ principal }) => shardIn(principal) === shard));
    assert.deepEqual(
      found.map((its) => its.map(({ name }) => name).toSorted()),
      expected,
    );
    assert.equal(actors.length, expected.flat().length);
  });
}

const install = (host: Host, name: string): Promise<{ status: number; body: string }> =>
  host.server.post(`/install/${name}`, wasm);

const remove = async (host: Host, name: string): Promise<number> =>
  (await host.server.fetch(`/actors/${name}?force=true`, { method: 'DELETE' })).status;

/** Rows of a service, in the order of their names. */
const namesOf = (namespace: string): Promise<readonly Readonly<Record<string, unknown>>[]> =>
  postgres.query(
    `SELECT name, encode(id, 'hex') AS id, is_taken FROM svc_names WHERE namespace = '${namespace}' ORDER BY name`,
  );

suite('a service of three servers', { concurrency: 2 }, () => {
  test('has the actors of the manifest once, with ids that all know, and names that are unique over all', async (t) => {
    const hosts = await startAll(t, { namespace: 'three' });
    for (const host of hosts) await knows(host, ['a', 'd'], ['b'], ['c']);
    const [first, second] = hosts;
    const all = await first.inspect();
    // Each actor knows where the others are, whoever has them.
    for (const name of ['a', 'b', 'c'])
      for (const other of NAMES) {
        const { principal } = all.find((actor) => actor.name === other) ?? assert.fail(other);
        assert.equal(await principalOf(first, name, other), principal);
      }
    // One root key for all: the status has it.
    const statuses = await Promise.all(
      hosts.map(async ({ server }) => await (await server.fetch('/api/v2/status')).bytes()),
    );
    for (const status of statuses) assert.deepEqual(status, statuses[0]);
    // Installed by all at once, each request in a shard of its own: exactly one wins. Another may be told that nothing
    // was executed, where the name was taken while its request was on the way.
    for (let round = 0; round < 4; round++) {
      const answers = await Promise.all(hosts.map((host) => install(host, `new-${round}`)));
      assert.equal(answers.filter(({ status }) => status === 200).length, 1, JSON.stringify(answers));
      for (const host of hosts)
        await host.until(async () => {
          const { body } = await install(host, `new-${round}`);
          assert.match(body, new RegExp(`"new-${round} is already installed`));
        });
      const names = (await first.inspect()).filter(({ name }) => name === `new-${round}`);
      assert.equal(names.length, 1);
    }
    // A name that is given free is anybody's.
    assert.equal((await install(first, 'moved')).status, 200);
    await second.until(async () => assert.equal((await install(second, 'moved')).status, 400));
    // A server believes for a moment that a name is nobody's.
    await first.until(async () => assert.equal(await remove(first, 'moved'), 200));
    await second.until(async () => assert.equal((await install(second, 'moved')).status, 200));
    // An installation that fails leaves no name behind.
    assert.equal((await first.server.post('/install/broken', 'no module')).status, 400);
    assert.deepEqual(
      (await namesOf('three')).map(({ name }) => name),
      [...NAMES, 'moved', 'new-0', 'new-1', 'new-2', 'new-3'],
    );
  });

  test('has actors of two shards that call each other', async (t) => {
    const [first] = await startAll(t, { namespace: 'calls' });
    await knows(first, ['a', 'd'], ['b'], ['c']);
    const { principal } = await first.find('b');
    for (let count = 1; count <= 3; count++)
      assert.equal(await called(first, 'a', 'ask', [principal]), `200 ["${count}"]`);
    assert.equal(await called(first, 'b', 'get'), '200 [3]');
    const { principal: neighbour } = await first.find('d');
    assert.equal(await called(first, 'a', 'ask', [neighbour]), '200 ["1"]');
    // Nobody: a number of this shard that was not given out, and a shard that the service has not.
    for (const nobody of [idInShard(0, 999n), idInShard(3, 0n)]) {
      const principalOfNobody = principalToText(nobody);
      assert.match(
        await called(first, 'a', 'ask', [principalOfNobody]),
        new RegExp(`No route to canister ${principalOfNobody}`),
      );
    }
  });

  test('loses nothing with a server that is killed: a standby takes its shard over', async (t) => {
    const [first, second, third] = await startAll(t, { namespace: 'killed' });
    const fourth = await standby(t, { namespace: 'killed' });
    await knows(first, ['a', 'd'], ['b'], ['c']);
    for (let count = 1; count <= 20; count++) assert.equal(await called(first, 'b', 'inc'), `200 [${count}]`);
    const killedMs = performance.now();
    second.server.process.kill('SIGKILL');
    await fourth.ready();
    t.diagnostic(`ready ${Math.round(performance.now() - killedMs)} ms after the kill, with a lease of ${LEASE_MS} ms`);
    assert.equal(await shardOwnedBy(fourth), 1);
    assert.equal(await called(fourth, 'b', 'inc'), '200 [21]');
    for (const host of [first, third, fourth]) await knows(host, ['a', 'd'], ['b'], ['c']);
    assert.equal(await called(first, 'b', 'inc'), '200 [22]');
    await first.until(async () => assert.equal((await install(first, 'b')).status, 400));
    // The one that was killed comes back, and waits for whichever is free next.
    const again = await standby(t, { namespace: 'killed' });
    assert.equal(await called(third, 'c', 'inc'), '200 [1]');
    assert.equal(await third.server.stop(), 0, third.server.output.stderr);
    await again.ready();
    assert.equal(await called(again, 'c', 'inc'), '200 [2]');
  });

  test('hands the shard of a server that is stopped over at once', async (t) => {
    const options = { namespace: 'stopped', leaseMs: LONG_LEASE_MS };
    const [first] = await startAll(t, options);
    const fourth = await standby(t, options);
    assert.equal(await called(first, 'd', 'inc'), '200 [1]');
    assert.equal(await first.server.stop(), 0, first.server.output.stderr);
    await fourth.ready();
    assert.equal(await shardOwnedBy(fourth), 0);
    assert.equal(await called(fourth, 'd', 'inc'), '200 [2]');
  });
});

suite('what the servers of a service share', { concurrency: 2 }, () => {
  test('is put right by the next owner of a shard, where a crash has left it otherwise', async (t) => {
    const options = { namespace: 'crashed' };
    const hosts = await startAll(t, options);
    for (const host of hosts) await knows(host, ['a', 'd'], ['b'], ['c']);
    const rows = await namesOf('crashed');
    assert.deepEqual(
      rows.map(({ name, is_taken: isTaken }) => [name, isTaken]),
      NAMES.map((name) => [name, true]),
    );
    await Promise.all(hosts.map(({ server }) => server.kill()));
    // A name that was taken for an actor that never came, one that its actor lacks, and one that is only reserved.
    await postgres.query(`
      INSERT INTO svc_names VALUES ('crashed', 'never-came', '\\x80000000001000990101', true);
      DELETE FROM svc_names WHERE namespace = 'crashed' AND name = 'b';
      UPDATE svc_names SET is_taken = false WHERE namespace = 'crashed' AND name = 'c'`);
    const [first] = await startAll(t, options);
    await knows(first, ['a', 'd'], ['b'], ['c']);
    assert.deepEqual(await namesOf('crashed'), rows);
    assert.equal((await install(first, 'never-came')).status, 200);
  });

  test('has the names of a manifest before their actors are there, and for those that come later', async (t) => {
    const options = { namespace: 'early', manifest: 'early.json' };
    await writeManifest('early.json', ['a', 'b']);
    // One server alone: it waits for nobody.
    const first = await start(t, options);
    await knows(first, ['a'], [], []);
    const principal = await principalOf(first, 'a', 'b');
    assert.equal(shardIn(principal), 1);
    const [, reserved] = await namesOf('early');
    assert.deepEqual([reserved?.['name'], reserved?.['is_taken']], ['b', false]);
    await writeManifest('early.json', ['new', 'b', 'a']);
    const second = await start(t, options);
    await knows(second, ['a'], ['b'], []);
    assert.equal((await second.find('b')).principal, principal);
    // A new actor at the front belongs to the first shard, whose server installs it when it starts again.
    await first.server.kill();
    await Promise.all([start(t, options), start(t, options)]);
    await knows(second, ['a', 'new'], ['b'], []);
  });

  test('has one number of shards: a server with another one, and a restore, are refused', async (t) => {
    await start(t, { namespace: 'number' });
    for (const [options, expected] of [
      [{ shards: 2 }, /the namespace 'number' has 3 shard\(s\) since it was made, and storage\.shards says 2/],
      [{ shards: 1 }, /the namespace 'number' has 3 shard\(s\) since it was made, and storage\.shards says 1/],
      [{ shards: 257 }, /storage\.shards.*256/],
    ] as const) {
      const refused = await start(t, { namespace: 'number', ...options, until: 'listening' }).then(
        async ({ server }) => {
          await once(server.process, 'close');
          return server.output.stderr;
        },
        (error: unknown) => String(error),
      );
      assert.match(refused, expected);
    }
  });
});

test('a backup of several shards is refused, and says what to use', async (t) => {
  const host = await start(t, { namespace: 'backup' });
  const { status, body } = await host.server.get('/backup');
  assert.equal(status, 400);
  assert.match(body, /GET \/backup is for a service with one shard, and this one has 3: pg_dump/);
});
