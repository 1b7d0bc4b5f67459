/** `--live-cap`: more actors than may be live, without any visible difference. */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { Tally } from '../../support/payload-sizes.ts';
import { seeded } from '../../support/seeded.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';
import { HAUL_FLAGS, loadsOf, Sender } from './haul.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'] as const;
const HAULERS = ['g', 'h'] as const;
/** Number of loads that each hauler is sent at a time. */
const LOADS = 3;
const LIVE = 2;

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

const liveOf = async (host: Host): Promise<readonly string[]> => {
  const all = JSON.parse((await host.server.get('/inspect')).body) as { name: string; live: boolean }[];
  return all.filter(({ live }) => live).map(({ name }) => name);
};

test('six actors of whom two are live answer as if all were, before and after a restart', async (t: TestContext) => {
  const hauler = await compileActor('Hauler');
  const modules = {
    ...Object.fromEntries(NAMES.map((name) => [name, keeper])),
    ...Object.fromEntries(HAULERS.map((name) => [name, hauler])),
  };
  const args = ['--live-cap', `${LIVE}`, '--timer-ms', '20', ...HAUL_FLAGS];
  const deployment = await Deployment.create(t, { args, modules });
  let host = await deployment.start();
  const actors = (await Promise.all(NAMES.map((name) => host.find(name)))) as [Actor, ...Actor[]];
  await host.until(async () => assert.ok((await liveOf(host)).length <= LIVE));

  const random = seeded(1);
  const haulers = await Promise.all(HAULERS.map((name) => host.find(name)));
  const senders = haulers.map((actor, client) => new Sender(actor, client, random, new Tally()));
  let loads: readonly object[] = [];
  const appended = new Map<Actor, number[]>(actors.map((actor) => [actor, []]));
  const asIfAllWereLive = async (): Promise<void> => {
    for (let n = 0; n < 40; n++) {
      const actor = random.pick(actors);
      const list = appended.get(actor) ?? [];
      if (random.oneIn(2)) assert.deepEqual(await host.query(actor, 'all'), list);
      else assert.equal(await host.call(actor, 'append', [n]), list.push(n));
    }
    // Other actors wait for the places of those that work long; an actor that is put to sleep has all its loads.
    await Promise.all([
      ...senders.map((sender) => sender.send(host, LOADS)),
      ...actors.map((actor) => host.query(actor, 'get')),
    ]);
    loads = await Promise.all(haulers.map((actor) => loadsOf(host, actor)));
    // All actors at the same time, more than there are places.
    const lengthsBefore = actors.map((actor) => appended.get(actor)?.length ?? 0);
    const lengths = await Promise.all(actors.map((actor) => host.call(actor, 'append', [7])));
    for (const actor of actors) appended.get(actor)?.push(7);
    assert.deepEqual(
      lengths,
      lengthsBefore.map((length) => length + 1),
    );
    await host.until(async () => assert.ok((await liveOf(host)).length <= LIVE));
  };
  await asIfAllWereLive();
  for (const end of ['stop', 'kill'] as const) {
    await deployment[end]();
    host = await deployment.start();
    assert.ok((await liveOf(host)).length <= LIVE);
    assert.deepEqual(await Promise.all(haulers.map((actor) => loadsOf(host, actor))), loads);
    assert.deepEqual(await host.query(actors[5] ?? actors[0], 'all'), appended.get(actors[5] ?? actors[0]));
    await asIfAllWereLive();
  }

  // Calls that wait for their answers sleep with their actor; a ring of chains needs every actor in turn.
  const chains = await Promise.all(
    actors.map((actor, index) => host.call(actor, 'chain', [(actors[(index + 1) % 6] ?? actor).principal, 8])),
  );
  assert.deepEqual(chains, [1, 1, 1, 1, 1, 1]);
  for (const actor of actors) assert.equal(await host.query(actor, 'get'), 8);

  // A timer wakes its actor.
  const [sleeper, ...others] = actors;
  await host.call(sleeper, 'fireAfter', [300]);
  for (const other of others) await host.query(other, 'get');
  assert.ok(!(await liveOf(host)).includes(sleeper.name));
  await host.until(async () => assert.ok((await liveOf(host)).includes(sleeper.name)));
  await host.until(async () => assert.deepEqual(await host.query(sleeper, 'timers'), { fired: 1, repeated: 0 }));

  // Operations on sleeping actors.
  await Promise.all(others.map((other) => host.query(other, 'get')));
  const balance = await host.balance(sleeper);
  assert.equal((await host.server.post(`/cycles/${sleeper.name}`, '1000')).body, `${balance + 1000n}`);
  assert.equal((await host.change(sleeper, 'stop')).status, 200);
  assert.match((await host.failure(sleeper, 'add', [1])).message, /stopped/);
  assert.equal((await host.change(sleeper, 'start')).status, 200);
  assert.equal(await host.call(sleeper, 'add', [1]), 9);
  await Promise.all(others.map((other) => host.query(other, 'get')));
  assert.equal((await host.change(sleeper, 'upgrade', keeper)).status, 200);
  assert.deepEqual(await host.query(sleeper, 'all'), appended.get(sleeper));
  await deployment.stop();
});

test('memory of actors that sleep is given back', async (t: TestContext) => {
  const modules = Object.fromEntries(NAMES.map((name) => [name, keeper]));
  const deployment = await Deployment.create(t, { args: ['--live-bytes', '120000000'], modules });
  const host = await deployment.start();
  for (const name of NAMES) await host.call(await host.find(name), 'fill', [2_000_000]);
  await host.until(async () => assert.ok((await liveOf(host)).length < NAMES.length));
  const all = await host.inspect();
  const live = new Set(await liveOf(host));
  const bytes = all.filter(({ name }) => live.has(name)).reduce((sum, { heapBytes }) => sum + heapBytes, 0);
  assert.ok(bytes <= 120_000_000, `${bytes} bytes are live`);
  for (const name of NAMES) assert.equal(await host.query(await host.find(name), 'size'), 2_000_000);
  await deployment.stop();
});

test('without a state directory the cap is refused', async (t: TestContext) => {
  const deployment = await Deployment.create(t);
  const { code, stdout, stderr } = await deployment.refused(['--live-cap', '2'], { hasState: false });
  assert.equal(code, 2, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, /--live-cap needs --state DIR/);
});
