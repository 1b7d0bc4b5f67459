/**
 * Clients that repeat their calls, over real sockets and a real disk: a key's call is executed once, whether the server
 * or actor was stopped, killed, upgraded, put to sleep, backed up or restored between.
 */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seeded } from '../../support/seeded.ts';
import { type Answer, send } from '../../support/http-client.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';
import { Repeaters } from './repeater.ts';

const FLAGS: readonly (readonly string[])[] = [[], ['--snapshot-below', '0'], ['--live-cap', '1'], ['--fsync', 'off']];
const KILL_MS_MAX = 400;

async function deploy(t: TestContext, names: readonly string[]): Promise<Deployment> {
  const module = await compileActor('Keeper');
  return await Deployment.create(t, { modules: Object.fromEntries(names.map((name) => [name, module])) });
}

/** Calls `method` of an actor with a key, as JSON. */
function call(host: Host, name: string, method: string, key: string, args: readonly unknown[]): Promise<Answer> {
  const headers = { 'idempotency-key': key };
  return send(host.server.origin, 'POST', `/call-json/${name}/${method}`, { headers, body: JSON.stringify(args) });
}

test('a client that repeats every call after every kill counts each exactly once', async (t) => {
  const deployment = await deploy(t, ['list', 'from', 'to']);
  let host = await deployment.start();
  const actors = await Promise.all(['list', 'from', 'to'].map((name) => host.find(name)));
  const repeaters = new Repeaters(actors as unknown as [Actor, Actor, Actor]);
  const random = seeded(7);
  for (let kill = 0; kill < 6; kill++) {
    const flags = FLAGS[kill % FLAGS.length] ?? [];
    const running = Promise.all(repeaters.clients.map((client) => client.run(host.server.origin)));
    await sleep(100 + random.below(KILL_MS_MAX));
    await deployment.kill();
    await running;
    host = await deployment.start(flags);
    await repeaters.check(host);
  }
  const [appender, chainer] = repeaters.clients;
  assert.ok(appender.repeated > 0 && chainer.repeated > 0);
  assert.ok(appender.recovered + chainer.recovered > 0, 'no call was under way at any kill');
  await deployment.stop();
});

test('the check finds a call that was executed twice', async (t) => {
  const deployment = await deploy(t, ['list', 'from', 'to']);
  const host = await deployment.start();
  const actors = await Promise.all(['list', 'from', 'to'].map((name) => host.find(name)));
  const repeaters = new Repeaters(actors as unknown as [Actor, Actor, Actor]);
  const end = performance.now() + 200;
  for (const client of repeaters.clients)
    await client.run(host.server.origin, { isOver: () => performance.now() > end });
  await host.call(actors[0] as Actor, 'append', [1]);
  await assert.rejects(repeaters.check(host), /each number was appended once/);
  await deployment.stop();
});

test('keys outlive upgrades, reinstallations, sleep, stops, kills and backups, and go with their actor', async (t) => {
  const deployment = await deploy(t, ['a', 'b']);
  let host = await deployment.start(['--live-cap', '1']);
  const a = await host.find('a');
  const first = await call(host, 'a', 'add', 'k', [5]);
  assert.deepEqual(first.json(), [5]);
  const isKept = async (what: string): Promise<void> => {
    const again = await call(host, 'a', 'add', 'k', [5]);
    assert.deepEqual([again.status, again.text], [200, first.text], what);
    const raw = await send(host.server.origin, 'POST', '/call/a/add', {
      headers: { 'idempotency-key': 'k' },
      body: Buffer.from('4449444c00017d05', 'hex'),
    });
    assert.equal(raw.body.toString('hex'), '4449444c00017d05', `${what}: the same call in Candid`);
    assert.equal((await call(host, 'a', 'add', 'k', [6])).status, 422, what);
    assert.equal((await call(host, 'a', 'append', 'k', [5])).status, 422, what);
  };
  await isKept('at once');
  await call(host, 'b', 'add', 'k', [1]);
  await isKept('asleep');
  assert.equal((await host.change(a, 'upgrade')).status, 200);
  await isKept('upgraded');
  assert.equal((await host.change(a, 'stop')).status, 200);
  await isKept('stopped');
  assert.equal((await call(host, 'a', 'add', 'new', [1])).status, 400);
  await host.change(a, 'start');
  assert.deepEqual((await call(host, 'a', 'add', 'new', [1])).json(), [6], 'what a stopped actor refused was not kept');
  await deployment.stop();
  host = await deployment.start();
  await isKept('after a stop');
  await deployment.kill();
  host = await deployment.start(['--snapshot-below', '0']);
  await isKept('after a kill');
  const backup = join(deployment.folder, 'backup');
  await writeFile(backup, (await send(host.server.origin, 'GET', '/backup')).body);
  await deployment.stop();
  await rm(deployment.state, { recursive: true });
  host = await deployment.start(['--restore', backup]);
  await isKept('restored');
  const module = await compileActor('Keeper');
  assert.equal((await host.server.post('/install/a?mode=reinstall', module)).status, 200);
  await isKept('reinstalled');
  await host.change(a, 'stop');
  assert.equal((await host.change(a, 'delete')).status, 200);
  await deployment.install('a', module);
  assert.deepEqual((await call(host, 'a', 'add', 'k', [6])).json(), [6], 'another actor of the same name');
  await deployment.kill();
  host = await deployment.start();
  assert.deepEqual((await call(host, 'a', 'add', 'k', [6])).json(), [6]);
  assert.match((await host.server.get('/metrics')).body, /^svc_idempotency_repeats_total 1$/m);
  await deployment.stop();
});

test('a trap is kept as it was, and is counted once', async (t) => {
  const deployment = await deploy(t, ['a']);
  const host = await deployment.start();
  const key = 'trap';
  // The principal does not exist: the actor's call is rejected, and the error is thrown on.
  const answers: Answer[] = [];
  for (let n = 0; n < 3; n++) answers.push(await call(host, 'a', 'chain', key, ['aaaaa-aa', 1]));
  for (const answer of answers) {
    assert.deepEqual([answer.status, answer.text], [400, answers[0]?.text]);
  }
  assert.deepEqual(await host.query(await host.find('a'), 'chained'), { steps: 1, chains: 0 });
  const { body } = await host.server.get('/metrics');
  assert.match(body, /^svc_idempotency_repeats_total 2$/m);
  assert.match(body, /^svc_idempotency_keys 1$/m);
  assert.match(body, /^svc_actor_messages_total\{actor="a"\} 2$/m);
  await deployment.stop();
});

test('a repeat in the middle of a call waits for it, also over SIGKILL', async (t) => {
  const deployment = await deploy(t, ['from', 'to']);
  let host = await deployment.start();
  const [from, to] = [await host.find('from'), await host.find('to')];
  const links = 200;
  const args = [to.principal, links];
  const steps = async (): Promise<number> => ((await host.query(from, 'chained')) as { steps: number }).steps;
  const first = call(host, 'from', 'chain', 'k', args).catch(() => undefined);
  await host.until(async () => assert.ok((await steps()) > 5));
  await deployment.kill();
  assert.equal(await first, undefined, 'it had ended before');
  host = await deployment.start();
  const repeats = await Promise.all(Array.from({ length: 5 }, () => call(host, 'from', 'chain', 'k', args)));
  assert.deepEqual(
    repeats.map((answer) => [answer.status, answer.text]),
    repeats.map(() => [200, '[1]']),
  );
  assert.deepEqual([await steps(), await host.query(to, 'get')], [links, links]);
  await deployment.stop();
});
