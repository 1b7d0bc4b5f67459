/** The manifest differs from the last start's: existing actors go on, new ones come, nothing is lost. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { compileMotoko } from '../../support/motoko.ts';
import { compileActor, Deployment } from './deployment.ts';
import { dump, WITNESS } from './witness.ts';

/** The next version of an actor: `Keeper` with one more method. */
const NEXT = `persistent actor {
  var count = 0;
  public func add(n : Nat) : async Nat { count += n; count };
  public query func get() : async Nat { count };
  public query func version() : async Text { "next" };
};`;

let keeper: Uint8Array;
let first: Uint8Array;
let next: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
  next = (await compileMotoko(NEXT)).wasm;
  first = (await compileMotoko(NEXT.replace('"next"', '"first"'))).wasm;
});

test('actors that were removed go on, renamed ones are new, added ones are installed', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { stays: keeper, goes: keeper, old: WITNESS } });
  let host = await deployment.start();
  const [stays, goes] = [await host.find('stays'), await host.find('goes')];
  await host.call(stays, 'append', [1]);
  await host.call(goes, 'append', [2]);
  await host.server.post('/call/old/write', 'written by the old one');
  const written = await dump(host, 'old');
  await deployment.stop();

  await deployment.writeManifest({ added: keeper, stays: keeper, new: WITNESS });
  for (const end of ['kill', 'stop'] as const) {
    host = await deployment.start();
    assert.doesNotMatch(host.server.output.stdout, /WARNING|REJECTED/);
    assert.deepEqual(await host.query(stays, 'all'), [1]);
    assert.deepEqual(await host.query(goes, 'all'), [2]);
    assert.equal(await dump(host, 'old'), written);
    assert.notEqual(await dump(host, 'new'), written);
    const ids = (await host.inspect()).map(({ id, name }) => [name, id.slice(10, 16)]);
    const expected = { stays: '100001', goes: '100002', old: '100003', added: '100004', new: '100005' };
    assert.deepEqual(Object.fromEntries(ids), expected);
    await deployment[end]();
  }
});

test('a changed module waits until it is asked for; a file without one is no reason not to serve', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { actor: first, other: first } });
  let host = await deployment.start();
  const [actor, other] = [await host.find('actor'), await host.find('other')];
  await host.call(actor, 'add', [5]);
  await deployment.stop();

  await deployment.writeManifest({ actor: next, other: first });
  host = await deployment.start();
  const warned =
    /^WARNING actor has another module in the manifest than in the state: POST \/upgrade\/actor with an empty body takes it up$/m;
  await host.until(() => Promise.resolve(assert.match(host.server.output.stdout, warned)));
  assert.doesNotMatch(host.server.output.stdout, /WARNING other/);
  assert.equal(await host.query(actor, 'version'), 'first');
  assert.equal(await host.query(actor, 'get'), 5);
  assert.deepEqual(await host.change(actor, 'upgrade'), { status: 200, body: 'upgraded' });
  assert.equal(await host.query(actor, 'version'), 'next');
  await deployment.kill();

  host = await deployment.start();
  assert.equal(await host.query(actor, 'version'), 'next');
  assert.equal(await host.query(actor, 'get'), 5);
  assert.doesNotMatch(host.server.output.stdout, /WARNING/);
  await deployment.stop();

  // A missing file is a mistake in the manifest.
  const file = join(deployment.folder, 'actor.wasm');
  await rm(file);
  const { code, stderr } = await deployment.refused();
  assert.equal(code, 1);
  assert.match(stderr, /actors\.json:1:\d+ actors\.actor\.wasm: there is no file "actor\.wasm"/);
  // A file that is no module is ignored for an actor that has its module already.
  await writeFile(file, 'no module');
  host = await deployment.start();
  assert.equal(await host.call(actor, 'add', [1]), 6);
  assert.equal(await host.query(other, 'get'), 0);
  assert.doesNotMatch(host.server.output.stdout, /REJECTED/);
  assert.equal((await host.change(actor, 'upgrade')).status, 400);
  assert.equal(await host.query(actor, 'get'), 6);
  await deployment.stop();
});
