/**
 * Work under way when a server dies goes on in the next one: calls between actors, timers, heartbeats. Ids stay the
 * same.
 */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { type Actor, compileActor as compileShared, type Host } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';

const BEATING = ['--heartbeat-ms', '40'];
let deployment: Deployment;
let keeper: Actor;
let other: Actor;

before(async (t) => {
  const module = await compileActor('Keeper');
  const modules = { keeper: module, other: module };
  deployment = await Deployment.create(t as TestContext, { args: ['--timer-ms', '20'], modules });
  const host = await deployment.start();
  keeper = await host.find('keeper');
  other = await host.find('other');
});

/** Kills the server with SIGKILL and starts it again. */
async function again(args: readonly string[] = []): Promise<Host> {
  await deployment.kill();
  return deployment.start(args);
}

for (const flags of [[], ['--snapshot-below', '0', '--live-cap', '1']]) {
  test(`a chain of calls that SIGKILL interrupts ends in the next server, each call once (${flags.join(' ') || 'no flags'})`, async () => {
    let host = await again(flags);
    const start = (await host.query(keeper, 'chained')) as { steps: number; chains: number };
    const added = (await host.query(other, 'get')) as number;
    const links = 200;
    const chains = 2;
    const unanswered = Array.from({ length: chains }, () => host.call(keeper, 'chain', [other.principal, links]));
    const interrupted = Promise.allSettled(unanswered);
    await host.until(async () => {
      const { steps } = (await host.query(keeper, 'chained')) as { steps: number };
      assert.ok(steps > start.steps + 5);
    });
    host = await again(flags);
    assert.ok(
      (await interrupted).some(({ status }) => status === 'rejected'),
      'the chains had ended before',
    );
    const end = { steps: start.steps + chains * links, chains: start.chains + chains };
    await host.until(async () => assert.deepEqual(await host.query(keeper, 'chained'), end));
    assert.equal(await host.query(other, 'get'), added + chains * links);
  });
}

test('a timer that was set before fires after, once; a recurring one goes on', async () => {
  let host = await again();
  await host.call(keeper, 'fireAfter', [1]);
  await host.until(async () => assert.equal(((await host.query(keeper, 'timers')) as { fired: number }).fired, 1));
  await host.call(keeper, 'repeatEvery', [50]);
  await host.call(keeper, 'fireAfter', [300]);
  host = await again();
  const { repeated } = (await host.query(keeper, 'timers')) as { repeated: number };
  await host.until(async () => {
    const timers = (await host.query(keeper, 'timers')) as { fired: number; repeated: number };
    assert.equal(timers.fired, 2);
    assert.ok(timers.repeated > repeated + 5, `${repeated} before, ${timers.repeated} now`);
  });
  // The timer is due while no server runs, on an actor that sleeps when the next one starts.
  await host.call(other, 'fireAfter', [50]);
  host = await again(['--live-cap', '1']);
  await host.until(async () => assert.equal(((await host.query(other, 'timers')) as { fired: number }).fired, 1));
});

test('heartbeats go on, and what they had called is answered', async () => {
  let host = await again(BEATING);
  const heart = await deployment.install('heart', await compileShared('Heart'));
  const beats = async (server: Host): Promise<{ beats: number; echoes: number }> =>
    (await server.query(heart, 'counts')) as { beats: number; echoes: number };
  await host.until(async () => assert.ok((await beats(host)).beats > 3));
  const seen = await beats(host);
  host = await again(BEATING);
  const { beats: first } = await beats(host);
  assert.ok(first >= seen.beats, `${seen.beats} had been seen, ${first} are there`);
  await host.until(async () => assert.ok((await beats(host)).beats > first + 3));
  host = await again(['--heartbeat-ms', '0']);
  await host.until(async () => {
    const { beats: last, echoes } = await beats(host);
    assert.equal(echoes, last);
  });
});

test('no id is given out twice, not even those of deleted actors', async () => {
  const module = await compileActor('Keeper');
  const hexOf = (actor: Actor): string => Buffer.from(actor.id).toString('hex');
  const doomed = await deployment.install('doomed', module);
  await deployment.host.call(doomed, 'append', [5]);
  assert.equal((await deployment.host.change(doomed, 'stop')).status, 200);
  assert.equal((await deployment.host.change(doomed, 'delete')).status, 200);
  const host = await again();
  assert.equal(await host.status(doomed), 'deleted');
  assert.equal((await host.server.post('/call-json/doomed/get')).status, 404);
  const next = await deployment.install('doomed', module);
  assert.ok(hexOf(next) > hexOf(doomed));
  assert.deepEqual(await host.query(next, 'all'), []);
});

test('variables tell where the manifest has its actors, also those that were added later', async () => {
  const where = (name: string): Promise<unknown> =>
    deployment.host.call(keeper, 'variable', [`PUBLIC_CANISTER_ID:${name}`]);
  assert.equal(await where('other'), other.principal);
  const module = await compileActor('Keeper');
  await deployment.writeManifest({ keeper: module, other: module, third: module });
  // The actor's timer goes on all the time: its first run there must know the new actors, too.
  const host = await again();
  const third = await host.find('third');
  assert.equal(await where('third'), third.principal);
  assert.equal(await host.call(third, 'variable', ['PUBLIC_CANISTER_ID:keeper']), keeper.principal);
});
