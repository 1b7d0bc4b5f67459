/**
 * Open methods on a real server: named by the manifest and by the operator, kept over kills, backups and upgrades,
 * closed by code that lacks them, and called without the token.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const TOKEN = { authorization: 'Bearer secret' };
const source = (methods: string): string => `persistent actor {
  var count = 0;
  ${methods}
}`;
const INC = 'public func inc() : async Nat { count += 1; count };';
const GET = 'public query func get() : async Nat { count };';
const WHO = 'public shared query ({ caller }) func who() : async Principal { caller };';
const GET_WRITES = 'public func get() : async Nat { count += 100; count };';

async function asked(
  server: RunningServer,
  method: string,
  path: string,
  body?: string | Uint8Array,
  headers: Record<string, string> = TOKEN,
): Promise<readonly [number, string]> {
  const init = { method, headers, ...(body !== undefined && { body: body as string }) };
  const response = await server.fetch(path, init);
  return [response.status, await response.text()];
}

const stranger = (
  server: RunningServer,
  method: string,
  headers: Record<string, string> = {},
): Promise<readonly [number, string]> => asked(server, 'POST', `/call-json/it/${method}`, '[]', headers);

const REFUSED = [401, 'missing or wrong bearer token'] as const;
const PUBLIC = '/x/actors/it/public';

async function wasmOf(methods: string): Promise<Uint8Array> {
  return (await compileMotoko(source(methods))).wasm;
}

async function upgraded(server: RunningServer, methods: string): Promise<void> {
  const answer = await asked(server, 'POST', '/upgrade/it?force=true', await wasmOf(methods));
  assert.equal(answer[0], 200, answer[1]);
}

test('the operator opens methods; they outlive a kill and upgrades, and close with their code', async (t) => {
  const args = ['--state', await temporaryDirectory(), '--auth-token', 'secret'];
  let server = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.equal((await asked(server, 'POST', '/install/it', await wasmOf(INC + GET + WHO)))[0], 200);
  assert.deepEqual(await stranger(server, 'inc'), REFUSED);
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '[]']);
  for (const [body, message] of [
    ['["inc","gett"]', /actor it has no method \\"gett\\": did you mean get\?/],
    ['["__motoko_stable_var_info"]', /internal/],
    ['["canister_init"]', /internal/],
    ['["@x"]', /internal/],
    ['["inc","inc"]', /there twice/],
  ] as const) {
    const [status, text] = await asked(server, 'PUT', PUBLIC, body);
    assert.equal(status, 400, body);
    assert.match(text, message);
  }
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '[]'], 'nothing was opened by halves');
  assert.deepEqual(await asked(server, 'PUT', PUBLIC, '["inc","get","who"]'), [200, '["inc","get","who"]']);
  assert.deepEqual(await stranger(server, 'inc'), [200, '[1]']);
  assert.deepEqual(await stranger(server, 'who'), [200, '["2vxsx-fae"]']);
  for (const [headers, isNamed] of [
    [TOKEN, true],
    [{}, false],
  ] as const) {
    const answer = await server.fetch('/query-json/it/who', { method: 'POST', headers });
    assert.equal(answer.headers.has('svc-message'), isNamed, 'ids of messages count those of all');
  }
  assert.equal((await stranger(server, 'who', { 'x-caller': 'aaaaa-aa' }))[0], 403);
  assert.deepEqual(await stranger(server, 'who', { ...TOKEN, 'x-caller': 'aaaaa-aa' }), [200, '["aaaaa-aa"]']);
  assert.deepEqual(await stranger(server, 'inc', { authorization: 'Bearer wrong' }), REFUSED);

  await server.kill();
  server = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '["inc","get","who"]']);
  assert.deepEqual(await stranger(server, 'inc'), [200, '[2]']);

  const snapshot = await asked(server, 'POST', '/x/actors/it/snapshots');
  await upgraded(server, INC + GET_WRITES);
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '["inc","get"]']);
  const output = (): string => server.output.stdout + server.output.stderr;
  assert.match(output(), /open methods of it that its code does not have any more are closed: "who"/);
  assert.match(output(), /the open method "get" of it was a query and is an update now: it stays open/);
  assert.deepEqual(await stranger(server, 'get'), [200, '[102]']);
  assert.deepEqual(await stranger(server, 'who'), REFUSED);

  // A method that is there again stays closed.
  const { id } = JSON.parse(snapshot[1]) as { readonly id: string };
  assert.deepEqual(await asked(server, 'POST', `/x/actors/it/snapshots/${id}/load`), [200, 'loaded']);
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '["inc","get"]']);
  assert.deepEqual(await stranger(server, 'who'), REFUSED);
  assert.deepEqual(await stranger(server, 'inc'), [200, '[3]']);

  // Another actor of that name has nothing open.
  assert.equal((await asked(server, 'DELETE', '/actors/it?force=true'))[0], 200);
  assert.deepEqual(await stranger(server, 'inc'), REFUSED);
  assert.equal((await asked(server, 'POST', '/install/it', await wasmOf(INC)))[0], 200);
  assert.deepEqual(await stranger(server, 'inc'), REFUSED);
});

test('the manifest opens methods, wins at a start, and closes what it opened once', async (t) => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'It.mo'), source(INC + GET + WHO));
  const manifestFile = join(directory, 'actors.json');
  const args = ['--state', join(directory, 'state'), '--auth-token', 'secret'];
  const started = async (open: readonly string[] | undefined): Promise<RunningServer> => {
    const actor = { main: 'It.mo', ...(open && { public: open }) };
    await writeFile(manifestFile, JSON.stringify({ actors: { it: actor } }));
    return await startServer(t, { args, manifestFile });
  };
  const said = ({ output }: RunningServer): string => output.stdout + output.stderr;
  let server = await started(['get', 'gone']);
  assert.match(said(server), /WARNING "public" of it: actor it has no method "gone".*; it stays closed/);
  assert.deepEqual(await asked(server, 'GET', PUBLIC), [200, '["get"]']);
  assert.deepEqual(await stranger(server, 'get'), [200, '[0]']);
  assert.deepEqual(await stranger(server, 'inc'), REFUSED);
  assert.deepEqual(await asked(server, 'PUT', PUBLIC, '["inc","who"]'), [200, '["inc","who"]']);
  await server.stop();

  server = await started(['get']);
  assert.match(said(server), /open methods of it, by the manifest: "get"; before: "inc", "who"/);
  assert.deepEqual(await stranger(server, 'inc'), REFUSED);
  assert.deepEqual(await stranger(server, 'get'), [200, '[0]']);
  await server.stop();

  server = await started(undefined);
  assert.match(said(server), /open methods of it, by the manifest: none; before: "get"/);
  assert.deepEqual(await stranger(server, 'get'), REFUSED);
  await asked(server, 'PUT', PUBLIC, '["who"]');
  await server.stop();

  server = await started(undefined);
  assert.deepEqual(await stranger(server, 'who'), [200, '["2vxsx-fae"]'], "the operator's stay");
  await server.stop();
  server = await started([]);
  assert.deepEqual(await stranger(server, 'who'), REFUSED);
});

test('a key of a stranger is another than the same key with the token, and is repeated after a kill', async (t) => {
  const args = ['--state', await temporaryDirectory(), '--auth-token', 'secret'];
  let server = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.equal((await asked(server, 'POST', '/install/it', await wasmOf(INC)))[0], 200);
  await asked(server, 'PUT', PUBLIC, '["inc"]');
  const key = { 'idempotency-key': 'order-1' };
  assert.deepEqual(await stranger(server, 'inc', { ...TOKEN, ...key }), [200, '[1]']);
  assert.deepEqual(await stranger(server, 'inc', key), [200, '[2]']);
  await server.kill();
  server = await startServer(t, { args, manifest: '{"actors":{}}' });
  assert.deepEqual(await stranger(server, 'inc', key), [200, '[2]']);
  assert.deepEqual(await stranger(server, 'inc', { ...TOKEN, ...key }), [200, '[1]']);
  assert.deepEqual(await stranger(server, 'inc'), [200, '[3]']);
});

test('open methods are in a backup, and a website at the root does not get in their way', async (t) => {
  const directory = await temporaryDirectory();
  const state = join(directory, 'state');
  const manifest = '{"actors":{}}';
  const server = await startServer(t, { args: ['--state', state, '--auth-token', 'secret'], manifest });
  assert.equal((await asked(server, 'POST', '/install/it', await wasmOf(INC + GET)))[0], 200);
  await asked(server, 'PUT', PUBLIC, '["inc"]');
  const answer = await server.fetch('/backup', { headers: TOKEN });
  const file = join(directory, 'it.backup');
  await writeFile(file, Buffer.from(await answer.arrayBuffer()));
  await server.stop();

  const restored = ['--state', join(directory, 'restored'), '--restore', file];
  const args = [...restored, '--auth-token', 'secret', '--web', 'it', '--site-hosts'];
  const again = await startServer(t, { args, manifest });
  assert.deepEqual(await asked(again, 'GET', PUBLIC), [200, '["inc"]']);
  assert.deepEqual(await stranger(again, 'inc'), [200, '[1]']);
  assert.deepEqual(await stranger(again, 'get'), REFUSED);
  const { hostname, port } = new URL(again.origin);
  assert.equal(
    (await fetch(`http://${hostname}:${port}/nothing`)).status,
    502,
    'the website of an actor that has none',
  );
});
