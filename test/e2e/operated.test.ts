/**
 * Settings and snapshots of actors over HTTP (`/x/actors/…`): done and refused as the management canister does and
 * refuses them, durable when they are answered, and no answer of one code comes to a continuation of another.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SOURCE = `persistent actor Self {
  var count = 0;
  public func inc() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
  public func nothing() : async () {};
  public func spin() : async () {
    var rest = 2_000;
    while (rest > 0) { await nothing(); rest -= 1 };
  };
  public func hold(other : Text) : async Nat {
    let it : actor { spin : () -> async () } = actor (other);
    await it.spin();
    count += 100;
    count
  };
}`;

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function ask(server: RunningServer, method: string, path: string, body?: string): Promise<Answer> {
  const init = { method, ...(body !== undefined && { body }) };
  const response = await server.fetch(path, init);
  return { status: response.status, body: await response.text() };
}

/** Asks for what has to be done; returns the answer, parsed if it is JSON. */
async function done(server: RunningServer, method: string, path: string, body?: string): Promise<unknown> {
  const answer = await ask(server, method, path, body);
  assert.equal(answer.status, 200, answer.body);
  return /^[[{]/.test(answer.body) ? JSON.parse(answer.body) : answer.body;
}

async function refused(
  server: RunningServer,
  [method, path, body]: readonly [string, string, string?],
  [status, message]: readonly [number, RegExp],
): Promise<void> {
  const answer = await ask(server, method, path, body);
  assert.equal(answer.status, status, answer.body);
  assert.match((JSON.parse(answer.body) as { readonly message: string }).message, message);
}

async function install(server: RunningServer, name: string): Promise<void> {
  const installed = await server.post(`/install/${name}`, (await compileMotoko(SOURCE)).wasm);
  assert.equal(installed.status, 200, installed.body);
}

const call = (server: RunningServer, method: string, args = '[]'): Promise<unknown> =>
  done(server, 'POST', `/call-json/it/${method}`, args);

test('settings are read and changed, one by one, and are there after a kill', async (t) => {
  const args = ['--state', await temporaryDirectory(), '--log-json'];
  const server = await startServer(t, { args, manifest: '{"actors":{}}' });
  await install(server, 'it');
  const path = '/x/actors/it/settings';
  const before = (await done(server, 'GET', path)) as Record<string, unknown>;
  assert.deepEqual(before['controllers'], ['2vxsx-fae']);
  assert.deepEqual(before['log_visibility'], { controllers: null });
  const change = {
    controllers: ['2vxsx-fae', 'aaaaa-aa'],
    environment_variables: [{ name: 'COLOUR', value: 'blue' }],
    reserved_cycles_limit: '340282366920938463463374607431768211455',
  };
  const after = await done(server, 'PUT', path, JSON.stringify(change));
  assert.deepEqual(after, { ...before, ...change });
  // A client may send back the settings that it has read.
  assert.deepEqual(await done(server, 'PUT', path, JSON.stringify(after)), after);
  for (const kind of ['settings', 'change-settings'])
    while (!`${server.output.stdout}${server.output.stderr}`.includes(`"kind":"${kind}"`)) await nextTurn();
  await server.kill();
  const again = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.deepEqual(await done(again, 'GET', path), after);
});

test('what cannot be a setting is refused with the place and the reason, and changes nothing', async (t) => {
  const server = await startServer(t, { args: ['--auth-token', 'secret'], manifest: '{"actors":{}}' });
  const path = '/x/actors/it/settings';
  for (const [method, each] of [
    ['GET', path],
    ['PUT', path],
    ['GET', '/x/actors/it/snapshots'],
  ] as const)
    assert.deepEqual(await ask(server, method, each), { status: 401, body: 'missing or wrong bearer token' });

  const open = await startServer(t, { manifest: '{"actors":{}}' });
  await install(open, 'it');
  const before = await done(open, 'GET', path);
  const principals = Array.from({ length: 11 }, () => '2vxsx-fae');
  for (const [body, message] of [
    ['', /Unexpected end of JSON input: send a JSON object/],
    ['[]', /the body is no object/],
    ['{},"canister_id":"aaaaa-aa"', /Unexpected non-whitespace/],
    ['{"controllers":7}', /args\[0\]\.settings\.controllers/],
    ['{"controllers":["nobody"]}', /args\[0\]\.settings\.controllers\[0\]/],
    ['{"controlers":["2vxsx-fae"]}', /controlers/],
    ['{"wasm_memory_limit":-1}', /wasm_memory_limit/],
    ['{"compute_allocation":1000}', /compute_allocation/],
    [JSON.stringify({ controllers: principals }), /10/],
  ] as const)
    await refused(open, ['PUT', path, body], [400, message]);
  await refused(open, ['PUT', path, ' '.repeat(65 * 1024)], [413, /65536|64 KiB/]);
  await refused(open, ['GET', '/x/actors/nobody/settings'], [404, /nobody/]);
  assert.deepEqual(await done(open, 'GET', path), before);
});

test('a snapshot is taken, loaded and deleted, and outlives a kill', async (t) => {
  const args = ['--state', await temporaryDirectory(), '--log-json'];
  const server = await startServer(t, { args, manifest: '{"actors":{}}' });
  await install(server, 'it');
  await call(server, 'inc');
  const path = '/x/actors/it/snapshots';
  const taken = (await done(server, 'POST', path)) as {
    readonly id: string;
    readonly time: string;
    readonly bytes: number;
  };
  assert.match(taken.id, /^[0-9a-f]+$/);
  assert.ok(Date.now() - Date.parse(taken.time) < 60_000 && taken.bytes > 1000, JSON.stringify(taken));
  assert.deepEqual(await call(server, 'inc'), [2]);
  await server.kill();
  const again = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.deepEqual(await done(again, 'GET', path), [taken]);
  assert.deepEqual(await call(again, 'inc'), [3]);
  assert.equal(await done(again, 'POST', `${path}/${taken.id}/load`), 'loaded');
  await again.kill();
  const third = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.deepEqual(await call(third, 'get'), [1]);
  for (let n = 1; n < 10; n++) await done(third, 'POST', path);
  await refused(third, ['POST', path], [400, /10 of 10 snapshots/]);
  const other = (await done(third, 'POST', `${path}?replace=${taken.id}`)) as { readonly id: string };
  const ids = ((await done(third, 'GET', path)) as readonly { readonly id: string }[]).map(({ id }) => id);
  assert.deepEqual([ids.length, ids.includes(other.id), ids.includes(taken.id)], [10, true, false]);
  assert.equal(await done(third, 'DELETE', `${path}/${other.id}`), 'deleted');
  for (const missing of [other.id, 'zz', '%00', 'a'.repeat(300)])
    await refused(third, ['DELETE', `${path}/${missing}`], [404, /it has [0-9a-f]+, /]);
});

test('a snapshot that is loaded waits for calls that are open, and comes between two messages of others', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}' });
  await install(server, 'it');
  await install(server, 'other');
  await call(server, 'inc');
  const path = '/x/actors/it/snapshots';
  const { id } = (await done(server, 'POST', path)) as { readonly id: string };
  const order: string[] = [];
  const actors = (await done(server, 'GET', '/inspect')) as readonly {
    readonly name: string;
    readonly principal: string;
  }[];
  const other = actors.find(({ name }) => name === 'other')?.principal;
  const held = call(server, 'hold', JSON.stringify([other])).finally(() => order.push('held'));
  // The call is open when it has begun to cost something.
  const cyclesOf = (): Promise<string> => server.get('/cycles/it').then(({ body }) => body);
  for (const before = await cyclesOf(); (await cyclesOf()) === before;);
  const loaded = done(server, 'POST', `${path}/${id}/load`).finally(() => order.push('loaded'));
  assert.deepEqual(await Promise.all([held, loaded]), [[101], 'loaded']);
  assert.deepEqual(order, ['held', 'loaded']);
  assert.deepEqual(await call(server, 'get'), [1]);

  // Nobody is refused while nothing is open between two messages.
  let isOver = false;
  const counting = Array.from({ length: 4 }, async () => {
    for (; !isOver;) await call(server, 'inc');
  });
  for (let n = 0; n < 5; n++) await done(server, 'POST', `${path}/${id}/load`);
  isOver = true;
  await Promise.all(counting);
});
