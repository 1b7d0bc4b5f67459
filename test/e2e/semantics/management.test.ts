/** An actor in Motoko that creates, runs and deletes others through the management canister. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Actor, compileActor, type Host, sharedHost, STRANGER } from './host.ts';

/** Encodes a module in base64, as blobs are: a module is too large to be written as JSON each time. */
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

async function governor(host: Host): Promise<Actor> {
  return host.install('governor', await compileActor('Governor'));
}

interface Status {
  readonly status: object;
  readonly isInstalled: boolean;
  readonly cycles: number;
  readonly controllers: readonly string[];
}

suite('the management canister, called by an actor', () => {
  test('a canister is created, installed, upgraded, stopped, started, uninstalled and deleted', async () => {
    const host = await sharedHost();
    const g = await governor(host);
    const module = base64(await compileActor('Peer'));
    const id = await host.call(g, 'create', [3_000_000_000_000]);
    const status = async (): Promise<Status> => (await host.call(g, 'statusOf', [id])) as Status;
    const created = await status();
    assert.deepEqual(
      { ...created, cycles: 0 },
      { status: { running: null }, isInstalled: false, cycles: 0, controllers: [g.principal] },
    );
    assert.ok(created.cycles <= 3_000_000_000_000 && created.cycles > 2_000_000_000_000, String(created.cycles));
    assert.match((await host.failure(g, 'add', [id, 1])).message, /empty|no wasm|code/i);

    await host.call(g, 'install', [id, module]);
    assert.equal(await host.call(g, 'add', [id, 5]), 5);
    await host.call(g, 'upgrade', [id, module]);
    assert.equal(await host.call(g, 'add', [id, 1]), 6);
    assert.match((await host.failure(g, 'install', [id, module])).message, /already|not empty/i);

    await host.call(g, 'stop', [id]);
    assert.deepEqual((await status()).status, { stopped: null });
    assert.match((await host.failure(g, 'add', [id, 1])).message, /stopped/i);
    await host.call(g, 'start', [id]);
    assert.equal(await host.call(g, 'add', [id, 1]), 7);
    assert.match((await host.failure(g, 'delete', [id])).message, /stop/i);

    await host.call(g, 'deposit', [id, 1_000_000_000_000]);
    assert.ok((await status()).cycles > created.cycles + 900_000_000_000);
    await host.call(g, 'uninstall', [id]);
    assert.equal((await status()).isInstalled, false);
    await host.call(g, 'stop', [id]);
    await host.call(g, 'delete', [id]);
    assert.match(String(await host.call(g, 'tryStatusOf', [id])), /not found/i);
    assert.equal((await host.server.get('/actors')).body.includes('governor'), true);
  });

  test('a snapshot brings the state back', async () => {
    const host = await sharedHost();
    const g = await governor(host);
    const id = await host.call(g, 'create', [3_000_000_000_000]);
    await host.call(g, 'install', [id, base64(await compileActor('Peer'))]);
    await host.call(g, 'add', [id, 5]);
    await host.call(g, 'stop', [id]);
    await host.call(g, 'take', [id]);
    await host.call(g, 'start', [id]);
    assert.equal(await host.call(g, 'add', [id, 100]), 105);
    await host.call(g, 'stop', [id]);
    await host.call(g, 'load', [id]);
    await host.call(g, 'start', [id]);
    assert.equal(await host.call(g, 'add', [id, 1]), 6);
  });

  test('who is no controller is refused, also a former one', async () => {
    const host = await sharedHost();
    const g = await governor(host);
    const other = await host.install('other', await compileActor('Peer'));
    assert.match(String(await host.call(g, 'tryStatusOf', [other.principal])), /controller/i);
    const id = await host.call(g, 'create', [3_000_000_000_000]);
    assert.equal(await host.call(g, 'tryStatusOf', [id]), 'answered');
    await host.call(g, 'giveAway', [id, STRANGER]);
    assert.match(String(await host.call(g, 'tryStatusOf', [id])), /controller/i);
    assert.equal((await host.failure(g, 'stop', [id])).status, 400);
  });

  test('raw_rand gives other bytes each time', async () => {
    const host = await sharedHost();
    const g = await governor(host);
    const throws = [await host.call(g, 'throwDice'), await host.call(g, 'throwDice')] as { random: string }[];
    assert.equal(Buffer.from(throws[0]?.random ?? '', 'base64').length, 32);
    assert.notEqual(throws[0]?.random, throws[1]?.random);
  });
});
