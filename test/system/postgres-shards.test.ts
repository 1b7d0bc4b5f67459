/** Several storages on one namespace, each with a shard of it: whose is which, and which actor has which name. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PostgresService } from '../../plugins/storage-postgres/postgres-service.ts';
import type { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import type { ServiceStore } from '../../subsystems/cluster/index.ts';
import type { AheadReader } from '../../subsystems/storage/index.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import {
  backupOf,
  bytesOf,
  countOf,
  fold,
  LEASE_MS,
  type MadeStorage,
  makeStorage,
  openStorage,
  put,
} from '../support/postgres-storage.ts';

/**
 * Lease so long that whatever waited for its end would show. A statement may take as long: a database that is busy with
 * new tables is not lost.
 */
const LONG_LEASE_MS = 120_000;
/** After this time nobody waits any more, on the slowest machine. */
const PATIENCE_MS = 60_000;

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

function serviceOf({ service }: PostgresStorage): PostgresService {
  assert.ok(service !== undefined, 'it has shards');
  return service;
}

const idIn = (shard: number, number: number): Uint8Array => Uint8Array.of(128, 0, shard, 0, 0, 0, 0, number, 1, 1);
const hex = (id: Uint8Array | undefined): string => Buffer.from(id ?? []).toString('hex');

async function until(isSo: () => Promise<boolean> | boolean, words: string): Promise<void> {
  for (const deadline = Date.now() + PATIENCE_MS; !(await isSo()); await sleep(20))
    assert.ok(Date.now() < deadline, words);
}

/** Opens storages at the same time; they come back in the order of their shards. */
async function openAll(t: TestContext, namespace: string, shards: number, leaseMs: number): Promise<MadeStorage[]> {
  const options = { url: postgres.url, namespace, shards, leaseMs };
  const made = await Promise.all(Array.from({ length: shards }, () => openStorage(t, options)));
  return made.toSorted((a, b) => serviceOf(a.storage).shard - serviceOf(b.storage).shard);
}

const numbersOf = (owners: Awaited<ReturnType<ServiceStore['owners']>>): readonly (number | undefined)[] =>
  owners.map((owner) => owner?.shard);

suite('shards of a namespace', { concurrency: 3 }, () => {
  test('processes that start at once have one each, and one more waits for all of them', async (t) => {
    const namespace = 'crowd';
    const owners = await openAll(t, namespace, 3, LEASE_MS);
    assert.deepEqual(
      owners.map(({ storage }) => serviceOf(storage).shard),
      [0, 1, 2],
    );
    for (const [shard, { storage, logged }] of owners.entries()) {
      put(storage, `of ${shard}`);
      await storage.settled();
      assert.equal(await countOf(storage), 1, 'each has a state of its own');
      assert.match(logged.join('\n'), new RegExp(`this server owns shard ${shard} of 3 of the namespace 'crowd'`));
    }
    const standby = makeStorage(t, { url: postgres.url, namespace, shards: 3, leaseMs: LEASE_MS });
    const owning = standby.storage.own(standby.context);
    await until(() => standby.notes.includes('standby, all 3 shards have other owners'), standby.notes.join('\n'));
    assert.match(standby.logged.join('\n'), /standby: shard 1 of 3 of the namespace 'crowd' is owned by \S+ pid \d+/);
    await assert.rejects(serviceOf(standby.storage).findName('a'), { code: 'storage-failed', message: /no shard yet/ });
    await sleep(3 * LEASE_MS);
    // Killed: nothing is handed over.
    owners[1]?.storage.abandon();
    await owning;
    await standby.storage.open();
    assert.equal(serviceOf(standby.storage).shard, 1);
    assert.equal(hex(await standby.storage.get('blob', bytesOf('of 1'))), hex(bytesOf('of 1')));
    assert.deepEqual([owners[0]?.failures, owners[2]?.failures], [[], []]);
  });

  test('are made by processes that start at once as if one had made them', async (t) => {
    for (let round = 0; round < 10; round++) {
      const made = await openAll(t, `made-${round}`, 4, LONG_LEASE_MS);
      for (const { storage, failures } of made) {
        put(storage, 'a');
        await storage.settled();
        assert.deepEqual(failures, []);
      }
      await Promise.all(made.map(({ storage }) => storage.close()));
    }
  });

  test('one that is stopped hands its shard over at once, to one that waits', async (t) => {
    const [first, second] = await openAll(t, 'handing', 2, LONG_LEASE_MS);
    assert.ok(first !== undefined && second !== undefined, 'two');
    put(second.storage, 'a');
    const standby = makeStorage(t, { url: postgres.url, namespace: 'handing', shards: 2, leaseMs: LONG_LEASE_MS });
    const owning = standby.storage.own(standby.context);
    await until(() => standby.notes.some((note) => note.startsWith('standby')), 'it waits');
    await second.storage.close();
    await owning;
    await standby.storage.open();
    assert.equal(serviceOf(standby.storage).shard, 1);
    assert.equal(await countOf(standby.storage), 1);
    // All are stopped, and whoever comes next has the first one.
    await Promise.all([first.storage.close(), standby.storage.close()]);
    const next = await openStorage(t, { url: postgres.url, namespace: 'handing', shards: 2 });
    assert.equal(serviceOf(next.storage).shard, 0);
  });

  test('owners are known with address and epoch, and one that is gone or silent is none', async (t) => {
    const [first, second, third] = await openAll(t, 'known', 3, 2 * LEASE_MS);
    assert.ok(first !== undefined && second !== undefined && third !== undefined, 'three');
    const service = serviceOf(first.storage);
    await serviceOf(third.storage).announce('10.0.0.3:7000');
    await until(async () => (await service.owners())[2]?.address !== undefined, 'it is announced');
    const [one, two, three] = await service.owners();
    assert.deepEqual(
      [one?.node, two?.node, three?.node],
      [first, second, third].map(({ storage }) => serviceOf(storage).node),
    );
    assert.deepEqual([two?.address, three?.address, three?.epoch], [undefined, '10.0.0.3:7000', 1]);
    await second.storage.close();
    await until(async () => (await service.owners())[1] === undefined, 'it is handed over');
    third.storage.abandon();
    await until(async () => (await service.owners())[2] === undefined, 'it is silent');
    assert.deepEqual(numbersOf(await service.owners()), [0, undefined, undefined]);
    await openStorage(t, { url: postgres.url, namespace: 'known', shards: 3, leaseMs: 2 * LEASE_MS });
    await until(async () => (await service.owners())[1]?.epoch === 2, 'it has an owner again');
    assert.equal((await service.owners())[1]?.address, undefined, 'the new owner has said none yet');
  });

  test('a process that is gone for certain has its shard be free at once, and nobody else can be dismissed', async (t) => {
    const [first, second] = await openAll(t, 'dismissed', 2, LONG_LEASE_MS);
    assert.ok(first !== undefined && second !== undefined, 'two');
    const service = serviceOf(first.storage);
    await service.dismiss('somebody', 1);
    await service.dismiss(service.node, undefined);
    put(second.storage, 'kept');
    await second.storage.settled();
    assert.equal((await service.owners())[1]?.node, serviceOf(second.storage).node);
    second.storage.abandon();
    await service.dismiss(serviceOf(second.storage).node, 1);
    const next = await openStorage(t, { url: postgres.url, namespace: 'dismissed', shards: 2, leaseMs: LONG_LEASE_MS });
    assert.equal(serviceOf(next.storage).shard, 1);
    assert.equal(await countOf(next.storage, 'kept'), 1);
  });

  test('an owner that is cut off for a moment, or the database, is none the less the owner', async (t) => {
    // A database of its own: other cases run beside this one, which stops it.
    const own = await startPostgres();
    t.after(() => own[Symbol.asyncDispose]());
    const options = { url: own.url, namespace: 'away', shards: 2, leaseMs: 4_000 };
    const [one] = await Promise.all([openStorage(t, options), openStorage(t, options)]);
    const service = serviceOf(one.storage);
    const both = async (): Promise<boolean> => (await service.owners()).every((owner) => owner !== undefined);
    await until(both, 'both are there');
    await own.stop('crash');
    await sleep(1.2 * options.leaseMs);
    assert.ok(await both(), 'nobody can have taken a shard over');
    // Names wait for the database, as units do.
    const taken = service.takeName('a', idIn(0, 1));
    await own.start();
    assert.equal(hex(await taken), hex(idIn(0, 1)));
    for (const endMs = performance.now() + 1.2 * options.leaseMs; performance.now() < endMs; await sleep(50))
      assert.ok(await both(), 'it has a lease in which to be heard again');
  });

  test('a standby reads ahead of all shards', async (t) => {
    const owners = await openAll(t, 'ahead', 2, LONG_LEASE_MS);
    for (const [shard, { storage }] of owners.entries()) {
      put(storage, 'in both', 'the same');
      put(storage, `of ${shard}`);
      // Nearly every unit goes on to the tables when the next one comes.
      await storage.settled();
      put(storage, 'more');
      await storage.settled();
    }
    const taken = new Map<string, string>();
    const reader: AheadReader = {
      wanted: (keys) => keys.filter((key) => !taken.has(Buffer.from(key).toString())),
      take: (key, value) => {
        taken.set(Buffer.from(key).toString(), Buffer.from(value).toString());
        return Promise.resolve();
      },
    };
    const standby = makeStorage(t, { url: postgres.url, namespace: 'ahead', shards: 2, leaseMs: LONG_LEASE_MS });
    standby.storage.readAhead('blob', reader);
    void standby.storage.own(standby.context).catch(() => undefined);
    await until(() => ['of 0', 'of 1', 'in both'].every((key) => taken.has(key)), [...taken.keys()].join());
    assert.equal(taken.get('in both'), 'the same');
  });
});

suite('names of the actors of all shards', { concurrency: 3 }, () => {
  test('are unique: of two who take one at once, exactly one has it', async (t) => {
    const [first, second] = await openAll(t, 'names', 2, LONG_LEASE_MS);
    assert.ok(first !== undefined && second !== undefined, 'two');
    const services = [serviceOf(first.storage), serviceOf(second.storage)];
    for (let round = 0; round < 50; round++) {
      const name = `counter-${round}`;
      const taken = await Promise.all(services.map((service, shard) => service.takeName(name, idIn(shard, round))));
      const [winner] = taken;
      assert.deepEqual(new Set(taken.map(hex)), new Set([hex(winner)]), 'both are told the same');
      const found = await Promise.all(services.map((service) => service.findName(name)));
      assert.deepEqual(found.map(hex), [hex(winner), hex(winner)]);
    }
    let count = 0;
    for (const [asking, service] of services.entries()) {
      const shard = 1 - asking;
      const ids = [...(await service.namesOf(shard)).values()];
      for (const id of ids) assert.equal(id[2], shard, 'ids tell the shard');
      count += ids.length;
    }
    assert.equal(count, 50);
  });

  test('are dropped by the actor that has them alone', async (t) => {
    const [first, second] = await openAll(t, 'dropping', 2, LONG_LEASE_MS);
    assert.ok(first !== undefined && second !== undefined, 'two');
    const [one, two] = [serviceOf(first.storage), serviceOf(second.storage)];
    await one.takeName('a', idIn(0, 1));
    assert.equal(hex(await one.takeName('a', idIn(0, 1))), hex(idIn(0, 1)), 'twice is as once');
    await two.dropName('a', idIn(1, 1));
    assert.equal(hex(await two.findName('a')), hex(idIn(0, 1)));
    await one.dropName('a', idIn(0, 1));
    assert.equal(await two.findName('a'), undefined);
    assert.equal(hex(await two.takeName('a', idIn(1, 1))), hex(idIn(1, 1)));
  });

  test('that are reserved have one id for all who ask, and are free for others until they are taken', async (t) => {
    const made = await openAll(t, 'reserved', 2, LONG_LEASE_MS);
    const services = made.map(({ storage }) => serviceOf(storage));
    const idFor = (shard: number, number: bigint): Uint8Array => idIn(shard, Number(number));
    const wanted = (names: readonly string[]) => names.map((name, at) => ({ name, shard: at % 2 }));
    const all = await Promise.all(services.map((service) => service.reserveNames(wanted(['a', 'b', 'c']), idFor)));
    const [ids = new Map<string, Uint8Array>()] = all;
    assert.deepEqual(all[1], ids);
    assert.equal(new Set([...ids.values()].map(hex)).size, 3, 'each has an id of its own');
    assert.deepEqual([ids.get('a')?.[2], ids.get('b')?.[2], ids.get('c')?.[2]], [0, 1, 0]);
    const [one, two] = services;
    assert.ok(one !== undefined && two !== undefined, 'two');
    const later = await two.reserveNames(wanted(['d', 'c', 'b', 'a']), idFor);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => hex(later.get(name))),
      ['a', 'b', 'c'].map((name) => hex(ids.get(name))),
    );
    assert.ok(![...ids.values()].map(hex).includes(hex(later.get('d'))), 'a number is given out once');
    assert.equal((await one.namesOf(0)).size, 0, 'no actor has one of them yet');
    assert.equal(hex(await one.findName('b')), hex(ids.get('b')));
    await two.takeName('b', ids.get('b') ?? idIn(9, 9));
    assert.deepEqual([...(await one.namesOf(1)).keys()], ['b']);
    assert.equal(hex(await one.takeName('c', idIn(0, 99))), hex(idIn(0, 99)), 'nobody has taken it yet');
    assert.equal(hex(await two.takeName('c', ids.get('c') ?? idIn(9, 9))), hex(idIn(0, 99)));
  });

  test('are not taken, and not dropped, by a server that has lost its shard', async (t) => {
    const options = { url: postgres.url, namespace: 'lost', shards: 2, leaseMs: LONG_LEASE_MS };
    const lost = await openStorage(t, options);
    const service = serviceOf(lost.storage);
    await service.takeName('kept', idIn(0, 1));
    await postgres.query(
      `UPDATE svc_owner SET owner = 'another', holder = 'another' WHERE namespace = 'lost';
       UPDATE svc_fence SET owner = 'another', fence = fence + 1 WHERE namespace = 'lost'`,
    );
    await assert.rejects(service.takeName('late', idIn(0, 2)), { code: 'namespace-lost' });
    await assert.rejects(service.dropName('kept', idIn(0, 1)), { code: 'namespace-lost' });
    await until(() => lost.failures.length > 0, 'it ends');
    assert.match(String(lost.failures[0]), /shard 0 of 2 of the namespace 'lost' is owned by another now/);
    const names = await postgres.query("SELECT name FROM svc_names WHERE namespace = 'lost'");
    assert.deepEqual(names, [{ name: 'kept' }]);
  });
});

suite('the number of shards', { concurrency: 3 }, () => {
  test('is fixed at the first start', async (t) => {
    const { url } = postgres;
    await openStorage(t, { url, namespace: 'fixed', shards: 2, leaseMs: LONG_LEASE_MS });
    for (const shards of [undefined, 1, 3]) {
      const other = makeStorage(t, { url, namespace: 'fixed', leaseMs: LONG_LEASE_MS, ...(shards && { shards }) });
      await assert.rejects(other.storage.own(other.context), {
        code: 'shards-differ',
        message: new RegExp(`'fixed' has 2 shard\\(s\\) since it was made, and storage.shards says ${shards ?? 1}: `),
      });
    }
    await openStorage(t, { url, namespace: 'one', leaseMs: LONG_LEASE_MS });
    const other = makeStorage(t, { url, namespace: 'one', shards: 2, leaseMs: LONG_LEASE_MS });
    await assert.rejects(other.storage.own(other.context), { code: 'shards-differ', message: /has 1 shard/ });
  });

  test('refuses a namespace that is called like a shard, and what is not built for several', async (t) => {
    const { url } = postgres;
    for (const shards of [1, 2])
      assert.throws(() => makeStorage(t, { url, namespace: 'svc/shard-2', shards }), { code: 'namespace-bad' });
    const { storage } = await openStorage(t, { url, namespace: 'svc/shard-two', shards: 2, leaseMs: LONG_LEASE_MS });
    await assert.rejects(fold(storage), { code: 'shards-unsupported', message: /GET \/backup .* has 2: pg_dump/ });
    const empty = makeStorage(t, { url, namespace: 'empty', shards: 2, leaseMs: LONG_LEASE_MS });
    await assert.rejects(empty.storage.restore(backupOf([]), empty.context), {
      code: 'shards-unsupported',
      message: /--restore .* has 2: .*pg_restore/,
    });
  });

  test('that is one leaves the tables of several empty', async (t) => {
    const url = await postgres.createDatabase();
    const { storage } = await openStorage(t, { url, namespace: 'alone', leaseMs: LONG_LEASE_MS });
    assert.equal(storage.service, undefined);
    put(storage, 'a');
    await fold(storage);
    await storage.close();
    const database = url.slice(url.lastIndexOf('/') + 1);
    for (const table of ['svc_nodes', 'svc_names', 'svc_processes', 'svc_moved'])
      assert.deepEqual(await postgres.query(`SELECT * FROM ${table}`, database), [], table);
    assert.deepEqual(await postgres.query('SELECT * FROM svc_service', database), [
      { namespace: 'alone', shards: 1, reserved: '0', moves: '0' },
    ]);
  });

  test('is one for a state of version 1 of the schema, which is served as it was', async (t) => {
    const url = await postgres.createDatabase();
    const database = url.slice(url.lastIndexOf('/') + 1);
    const dump = new URL('../fixtures/postgres-schema-1.sql', import.meta.url);
    await postgres.query(await readFile(dump, 'utf8'), database);
    assert.deepEqual(await postgres.query('SELECT version FROM svc_schema', database), [{ version: 1 }]);
    // The storage waits for the lease of the owner, which is gone.
    const several = makeStorage(t, { url, namespace: 'old', shards: 2, leaseMs: 6 * LEASE_MS });
    await assert.rejects(several.storage.own(several.context), { code: 'shards-differ' });
    const { storage } = await openStorage(t, { url, namespace: 'old', leaseMs: 6 * LEASE_MS });
    const found = await storage.range('blob', bytesOf(''));
    assert.deepEqual(
      found.map(([key, value]) => `${Buffer.from(key).toString()}=${Buffer.from(value).toString()}`),
      ['in both=newer', 'in the log=a', 'in the tables=b'],
    );
    put(storage, 'new');
    await storage.settled();
    assert.deepEqual(await postgres.query('SELECT version FROM svc_schema', database), [{ version: 4 }]);
  });
});
