/**
 * A flipped byte: either one actor is named and kept out, its data untouched; or, if all actors share the byte, nothing
 * starts. Once the byte is restored, everything is back.
 */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Host } from '../semantics/host.ts';
import { flipByteOf, hashesOf } from './damage.ts';
import { compileActor, Deployment } from './deployment.ts';
import { dump, WITNESS } from './witness.ts';

/** Marker that fits into a line of the witness. */
const MARKER = 'flip me!';
/** Head of an argument of a million bytes in Candid: the rest of it is a blob. */
const BLOB_OF_A_MILLION = 'DIDL\x01\x6d\x7b\x01\x00\xb4\x84\x3d';
/** Lines of the witness, 64 to a page: pages of its neighbours lie in other blocks than those in its middle. */
const LINES = 500;
/** Number of looks without a new or vanished table file, after which RocksDB merges nothing. */
const QUIET_LOOKS = 5;
const LOOK_MS = 100;

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

async function write(host: Host, name: string, text: string | Uint8Array): Promise<void> {
  assert.equal((await host.server.post(`/call/${name}/write`, text)).status, 200);
}

/** Moves entries from RocksDB's own log to its table files, which happens when the tables are opened. */
async function intoTableFiles(deployment: Deployment): Promise<void> {
  await deployment.start();
  await deployment.kill();
}

/**
 * Starts and stops the server so that RocksDB's merges are over. Among files of megabytes RocksDB merges some when the
 * tables are opened, and a merge cut short by a kill begins again with the next start: it could meet the damage before
 * the actor's recovery does.
 */
async function merged(deployment: Deployment): Promise<void> {
  await deployment.start();
  for (let quiet = 0, last = ''; quiet < QUIET_LOOKS;) {
    await sleep(LOOK_MS);
    const now = (await readdir(join(deployment.state, 'tables'))).filter((file) => file.endsWith('.sst')).join();
    quiet = now === last ? quiet + 1 : 0;
    last = now;
  }
  await deployment.kill();
}

suite('a flipped byte', () => {
  test('in a page: that actor is REJECTED and answers 404 with the reason, the others serve', async (t: TestContext) => {
    const modules = { one: keeper, victim: WITNESS, two: keeper };
    const deployment = await Deployment.create(t, { modules });
    let host = await deployment.start();
    for (let n = 0; n < LINES; n += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, index) => write(host, 'victim', n + index === LINES / 2 ? MARKER : 'line')),
      );
    }
    await host.call(await host.find('one'), 'append', [1]);
    await host.call(await host.find('two'), 'append', [2]);
    const written = await dump(host, 'victim');
    const victim = await host.find('victim');
    await deployment.stop();
    await intoTableFiles(deployment);
    const damage = await flipByteOf(deployment.state, /^tables\/.*\.sst$/, MARKER);

    host = await deployment.start();
    assert.match(host.server.output.stdout, /^REJECTED victim .*damaged.*(?:heap|stable).*key 0x80000000001000020101/m);
    for (const reference of ['victim', Buffer.from(victim.id).toString('hex'), victim.principal]) {
      const { status, body } = await host.server.post(`/query/${reference}/dump`);
      assert.equal(status, 404, body);
      assert.match(body, /rejected: .*damaged/);
    }
    assert.deepEqual(await host.query(await host.find('one'), 'all'), [1]);
    assert.equal(await host.call(await host.find('two'), 'append', [3]), 2);
    // No other actor takes its place.
    assert.equal((await host.server.post('/install/victim', WITNESS)).status, 400);
    assert.equal((await host.server.post('/upgrade/victim', WITNESS)).status, 404);
    await deployment.stop();
    assert.equal((await hashesOf(deployment.state)).get(damage.file), damage.hash, `${damage.file} was changed`);

    await damage.mend();
    host = await deployment.start();
    assert.equal(await dump(host, 'victim'), written);
    await write(host, 'victim', 'more');
    assert.deepEqual(await host.query(await host.find('two'), 'all'), [2, 3]);
    await deployment.stop();
  });

  test('in the step log, before its end: nothing starts, and nothing is lost', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { args: ['--snapshot-below', '0'], modules: { witness: WITNESS } });
    let host = await deployment.start();
    for (const text of ['before', MARKER, 'after', 'the end']) await write(host, 'witness', text);
    const written = await dump(host, 'witness');
    await deployment.kill();
    const damage = await flipByteOf(deployment.state, /^log\/segment/, MARKER);
    const files = await hashesOf(deployment.state);
    const { code, stdout, stderr } = await deployment.refused();
    assert.equal(code, 1);
    assert.doesNotMatch(stdout, /^ready/m);
    assert.match(
      stderr,
      /error: cannot start: .*the step log is damaged: segment-\d+\.log at byte \d+: unit \d+ cannot be read/,
    );
    assert.equal((await hashesOf(deployment.state)).get(damage.file), files.get(damage.file));
    await damage.mend();
    host = await deployment.start();
    assert.equal(await dump(host, 'witness'), written);
    await deployment.stop();
  });

  test('in a record that is in the tables already: that actor is REJECTED', async (t: TestContext) => {
    const modules = { one: keeper, victim: keeper };
    const deployment = await Deployment.create(t, { args: ['--snapshot-below', '0'], modules });
    let host = await deployment.start();
    // More messages than the log keeps to itself, with a megabyte each.
    const MESSAGES = 55;
    const argument = Buffer.alloc(1_000_000, 'x');
    argument.write(BLOB_OF_A_MILLION, 0, 'latin1');
    for (let n = 0; n < MESSAGES; n++) {
      argument.write(`${MARKER} number ${n};`, 500_000);
      const { status, body } = await host.server.post('/call/victim/weigh', argument);
      assert.equal(status, 200, body);
    }
    const victim = await host.find('victim');
    assert.equal(await host.query(victim, 'size'), MESSAGES);
    await deployment.kill();
    await merged(deployment);
    const damage = await flipByteOf(deployment.state, /^tables\/.*\.sst$/, `${MARKER} number 1;`);
    host = await deployment.start();
    assert.match(host.server.output.stdout, /^REJECTED victim .*damaged.*log.*key 0x80000000001000020101/m);
    assert.equal((await host.server.post('/call-json/victim/size')).status, 404);
    assert.equal(await host.call(await host.find('one'), 'append', [1]), 1);
    await deployment.stop();
    await damage.mend();
    host = await deployment.start();
    assert.equal(await host.query(victim, 'size'), MESSAGES);
    await deployment.stop();
  });

  test("in what RocksDB's own log holds after a stop: nothing starts", async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { witness: WITNESS, other: WITNESS } });
    let host = await deployment.start();
    for (const name of ['other', 'witness']) await write(host, name, MARKER);
    const written = await dump(host, 'witness');
    await deployment.stop();
    const damage = await flipByteOf(deployment.state, /^tables\/.*\.log$/, MARKER);
    const { code, stderr } = await deployment.refused();
    assert.equal(code, 1);
    assert.match(stderr, /error: cannot start: .*damaged/);
    await damage.mend();
    host = await deployment.start();
    assert.equal(await dump(host, 'witness'), written);
    await deployment.stop();
  });

  test('in the metadata: nothing starts, the key is named', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { conspicuous: WITNESS, other: WITNESS } });
    let host = await deployment.start();
    await write(host, 'conspicuous', 'text');
    const written = await dump(host, 'conspicuous');
    await deployment.stop();
    await intoTableFiles(deployment);
    const damage = await flipByteOf(deployment.state, /^tables\/.*\.sst$/, 'conspicuous');
    const { code, stdout, stderr } = await deployment.refused();
    assert.equal(code, 1);
    assert.doesNotMatch(stdout, /^ready/m);
    assert.match(stderr, /error: cannot start: .*the stored state is damaged: meta, key 0x[0-9a-f]+/);
    await damage.mend();
    host = await deployment.start();
    assert.equal(await dump(host, 'conspicuous'), written);
    await deployment.stop();
  });
});
