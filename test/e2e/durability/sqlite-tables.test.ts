/**
 * A state directory whose tables are in SQLite: chosen where RocksDB has no binary, damaged, backed up and moved. Kills
 * are in `kills.test.ts`.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { Host } from '../semantics/host.ts';
import { flipByteOf, hashesOf } from './damage.ts';
import { compileActor, Deployment } from './deployment.ts';
import { dump, WITNESS } from './witness.ts';

const MARKER = 'flip me!';
/** The marker with one bit of its first letter changed. */
const FLIPPED = 'glip me!';
const HIDDEN = [new URL('./hidden-rocksdb.ts', import.meta.url)];
const NAMES = ['one', 'two', 'three'];

async function write(host: Host, name: string, text: string): Promise<void> {
  assert.equal((await host.server.post(`/call/${name}/write`, text)).status, 200);
}

async function isSqlite(deployment: Deployment): Promise<boolean> {
  return (await readdir(join(deployment.state, 'tables'))).includes('tables.sqlite');
}

/** Returns a hash of all that the actors have. */
async function hashOf(host: Host): Promise<string> {
  const hash = createHash('sha256');
  for (const name of NAMES) hash.update(await dump(host, name));
  return hash.digest('hex');
}

suite('tables in SQLite', () => {
  test('where RocksDB has no binary they are chosen, one line says so, and nothing answered is lost', async (t) => {
    const deployment = await Deployment.create(t, { preloads: HIDDEN, modules: { one: WITNESS } });
    let host = await deployment.start();
    assert.ok(await isSqlite(deployment));
    const lines = host.server.output.stderr.split('\n').filter((line) => line.includes('SQLite'));
    assert.equal(lines.length, 1, host.server.output.stderr);
    assert.match(lines[0] ?? '', /the state keeps its tables in SQLite \(--tables sqlite\): RocksDB cannot be loaded/);
    assert.doesNotMatch(host.server.output.stderr, /Experimental/);
    await write(host, 'one', 'kept');
    const written = await dump(host, 'one');
    await deployment.kill();
    host = await deployment.start();
    assert.equal(await dump(host, 'one'), written);
    assert.doesNotMatch(host.server.output.stderr, /SQLite/);
    await deployment.stop();
    host = await deployment.start();
    assert.equal(await dump(host, 'one'), written);
    await deployment.stop();
  });

  test('a flipped byte in a page: that actor is REJECTED, the others serve', async (t: TestContext) => {
    const keeper = await compileActor('Keeper');
    const modules = { one: keeper, victim: WITNESS };
    const deployment = await Deployment.create(t, { args: ['--tables', 'sqlite'], modules });
    let host = await deployment.start();
    for (let n = 0; n < 100; n++) await write(host, 'victim', n === 50 ? MARKER : 'line');
    await host.call(await host.find('one'), 'append', [1]);
    const written = await dump(host, 'victim');
    await deployment.stop();
    await flipByteOf(deployment.state, /^tables\/tables.sqlite$/, MARKER);
    host = await deployment.start();
    assert.match(
      host.server.output.stdout,
      /^REJECTED victim .*damaged: (?:heap|stable), key 0x80000000001000020101\S*: checksum mismatch$/m,
    );
    assert.deepEqual(await host.query(await host.find('one'), 'all'), [1]);
    await deployment.stop();
    // The rest of the file has changed since.
    await flipByteOf(deployment.state, /^tables\/tables.sqlite$/, FLIPPED);
    host = await deployment.start();
    assert.equal(await dump(host, 'victim'), written);
    await deployment.stop();
  });

  test('a directory of one kind is refused for the other, untouched; a backup moves it there and back', async (t) => {
    const modules = Object.fromEntries(NAMES.map((name) => [name, WITNESS]));
    const deployment = await Deployment.create(t, { modules });
    let host = await deployment.start();
    for (const name of NAMES) await write(host, name, `of ${name}`);
    const hash = await hashOf(host);
    const file = join(deployment.folder, 'backup');
    for (const [kind, other] of [
      ['rocksdb', 'sqlite'],
      ['sqlite', 'rocksdb'],
    ] as const) {
      const backup = await host.server.fetch('/backup');
      await writeFile(file, new Uint8Array(await backup.arrayBuffer()));
      await deployment.stop();
      assert.equal(await isSqlite(deployment), kind === 'sqlite');
      const before = await hashesOf(join(deployment.state, 'tables'));
      const { code, stderr } = await deployment.refused(['--tables', other]);
      assert.equal(code, 1);
      assert.match(stderr, /cannot start: .*tables is kept in .*GET \/backup.*--restore/);
      assert.deepEqual(await hashesOf(join(deployment.state, 'tables')), before);
      await rm(deployment.state, { recursive: true });
      host = await deployment.start(['--restore', file, '--tables', other]);
      assert.equal(await isSqlite(deployment), other === 'sqlite');
      assert.equal(await hashOf(host), hash);
    }
    await deployment.stop();
  });

  test('--check reads them, and finds what a start would refuse', async (t) => {
    const deployment = await Deployment.create(t, { args: ['--tables', 'sqlite'], modules: { one: WITNESS } });
    const host = await deployment.start();
    await write(host, 'one', MARKER);
    await deployment.stop();
    const sound = await deployment.refused(['--check']);
    assert.equal(sound.code, 0, sound.stdout + sound.stderr);
    assert.match(sound.stdout, /^ok state: \d+ entries/m);
    await flipByteOf(deployment.state, /^tables\/tables.sqlite$/, MARKER);
    const { code, stdout } = await deployment.refused(['--check']);
    assert.equal(code, 1);
    assert.match(stdout, /^FAILED state: .*checksum mismatch/m);
  });
});
