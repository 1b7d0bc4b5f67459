/** Entries that a standby reads while it waits, and their use when it takes over. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AheadReader } from '../../subsystems/storage/index.ts';
import { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { bytesOf, makeStorage, NEVER_FOLDED, openStorage, put } from '../support/postgres-storage.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const LEASE_MS = 2_000;

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

/** Has the entries that it has read, and none that is gone. */
class Reading implements AheadReader {
  readonly values = new Map<string, string>();
  looks = 0;

  wanted(keys: readonly Uint8Array[]): readonly Uint8Array[] {
    this.looks++;
    const there = keys.map((key) => Buffer.from(key).toString());
    for (const key of this.values.keys()) if (!there.includes(key)) this.values.delete(key);
    return keys.filter((_key, at) => !this.values.has(there[at] ?? ''));
  }

  take(key: Uint8Array, value: Uint8Array): Promise<void> {
    this.values.set(Buffer.from(key).toString(), Buffer.from(value).toString());
    return Promise.resolve();
  }

  async has(...keys: readonly string[]): Promise<void> {
    for (const deadline = Date.now() + 60_000; ; await sleep(20)) {
      if ([...this.values.keys()].toSorted().join() === keys.join()) return;
      assert.ok(Date.now() < deadline, `it has ${[...this.values.keys()].join()}`);
    }
  }
}

/** Adds a section that nobody reads: another module with the same behaviour. */
function variant(wasm: Uint8Array, text: string): Uint8Array {
  return Buffer.concat([wasm, Uint8Array.of(0, 2 + text.length, 1, 0x76), Buffer.from(text)]);
}

suite('what a standby reads ahead', { concurrency: true }, () => {
  test('one who waits reads a family ahead, as it is then, over outages too, writes nothing, and ends when it owns', async (t) => {
    // A database of its own: other cases run beside this one, which stops it.
    const own = await startPostgres();
    t.after(() => own[Symbol.asyncDispose]());
    const options = { url: own.url, namespace: 'ahead', leaseMs: LEASE_MS, foldBytes: NEVER_FOLDED };
    const owner = makeStorage(t, options);
    owner.storage.readAhead('blob', new Reading());
    await owner.storage.own(owner.context);
    await owner.storage.open();
    put(owner.storage, 'a', 'first');
    await owner.storage.settled();
    const standby = makeStorage(t, options);
    const reading = new Reading();
    standby.storage.readAhead('blob', reading);
    const owning = standby.storage.own(standby.context);
    await reading.has('a');
    put(owner.storage, 'b');
    await reading.has('a', 'b');
    await own.stop('crash');
    await own.start();
    owner.storage.unit.delete('blob', bytesOf('a'));
    put(owner.storage, 'c');
    await reading.has('b', 'c');
    assert.deepEqual([...reading.values.values()], ['b', 'c']);
    // At its start, the standby finds in the log the entries that it has not seen in the tables.
    put(owner.storage, 'd');
    await owner.storage.settled();
    owner.storage.abandon();
    await owning;
    const { looks } = reading;
    await standby.storage.open();
    assert.equal((await standby.storage.range('blob', bytesOf(''))).length, 3);
    await sleep(1_500);
    assert.equal(reading.looks, looks, 'it reads no more');
  });

  test('without anybody who reads ahead, and for one who owns at once, nothing is read', async (t) => {
    const options = { url: postgres.url, namespace: 'alone', leaseMs: LEASE_MS };
    const alone = makeStorage(t, options);
    const reading = new Reading();
    alone.storage.readAhead('blob', reading);
    await alone.storage.own(alone.context);
    await alone.storage.open();
    const other = makeStorage(t, options);
    const owning = other.storage.own(other.context);
    await sleep(500);
    alone.storage.abandon();
    await owning;
    assert.equal(reading.looks, 0);
    await openStorage(t, { ...options, namespace: 'another' });
  });

  test('a standby has modules ready that the owner has installed and upgraded to, when it takes over', async (t) => {
    const source = await readFile(new URL('../../config/examples/counter/Counter.mo', import.meta.url), 'utf8');
    const { wasm } = await compileMotoko(source);
    const directory = await temporaryDirectory();
    const manifestFile = join(directory, 'actors.json');
    await writeFile(join(directory, 'a.wasm'), variant(wasm, 'a'));
    await writeFile(manifestFile, JSON.stringify({ actors: { a: { wasm: 'a.wasm' }, b: { wasm: 'a.wasm' } } }));
    const options = [`storage.url=${postgres.url}`, 'storage.namespace=modules', `storage.lease-ms=${LEASE_MS}`];
    const args = ['--plugin', 'storage=svc/storage-postgres', ...options.flatMap((each) => ['--plugin-option', each])];
    const start = async (until: 'listening' | 'ready'): Promise<Host> =>
      new Host(await startServer(t, { manifestFile, args, until }));
    const owner = await start('ready');
    const standby = await start('listening');
    await standby.until(async () => assert.match(standby.server.output.stderr, /standby: the namespace/));
    const inc = async ({ server }: Host, name: string): Promise<string> =>
      (await server.post(`/call-json/${name}/inc`)).body;
    assert.deepEqual([await inc(owner, 'a'), await inc(owner, 'b')], ['[1]', '[1]']);
    assert.equal((await owner.server.post('/install/c', variant(wasm, 'c'))).status, 200);
    assert.equal((await owner.server.post('/upgrade/b', variant(wasm, 'b'))).status, 200);
    assert.equal(await inc(owner, 'b'), '[2]');
    // The wait is for three looks, and for a busy machine's time to instrument.
    await standby.until(async () => assert.match(standby.server.output.stderr, /standby: 3 module\(s\) are ready/));
    await owner.server.kill();
    await standby.ready();
    const taken = await Promise.all(['a', 'b', 'c'].map((name) => inc(standby, name)));
    assert.deepEqual(taken, ['[2]', '[3]', '[1]']);
    assert.match(standby.server.output.stderr, /3 module\(s\) of the other host were ready before its state was/);
  });
});
