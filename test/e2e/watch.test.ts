/** Live queries of real actors that are kept, asleep, upgraded, and deleted. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { EventClient } from '../support/event-client.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SOURCE = (answer: string): string => `persistent actor {
  var count : Nat = 0;
  public func add(n : Nat) : async Nat { count += n; count };
  public func nothing() : async () {};
  public query func get() : async ${answer};
  public query func over(limit : Nat) : async Bool { count > limit };
}`;
let first: Uint8Array;
let second: Uint8Array;
let third: Uint8Array;
before(async () => {
  ({ wasm: first } = await compileMotoko(SOURCE('Nat { count }')));
  ({ wasm: second } = await compileMotoko(SOURCE('Text { "now " # debug_show count }')));
  ({ wasm: third } = await compileMotoko(
    'persistent actor { var count : Nat = 0; public func add(n : Nat) : async Nat { count += n; count } }',
  ));
});

const valueOf = async (client: EventClient): Promise<string | undefined> => (await client.next())?.data;
const install = async (server: RunningServer | InProcessServer, name: string): Promise<void> => {
  assert.equal((await server.post(`/install/${name}`, first)).status, 200);
};

test('each change of the answer is told once, through upgrade and deletion', async (t) => {
  const server = await startInProcess(t);
  await install(server, 'it');
  await using counts = await EventClient.open(server.origin, '/watch/it/get');
  await using over = await EventClient.open(server.origin, '/watch/it/over?args=%5B5%5D');
  assert.equal(await valueOf(counts), '[0]');
  assert.equal(await valueOf(over), '[false]');
  for (let n = 1; n <= 10; n++) {
    assert.equal((await server.post('/call-json/it/add', '[1]')).body, `[${n}]`);
    assert.equal((await server.post('/call-json/it/nothing', '[]')).status, 200);
    assert.equal(await valueOf(counts), `[${n}]`);
  }
  assert.equal(await valueOf(over), '[true]');
  const history = JSON.parse((await server.get('/history/it')).body) as { kind: string; method: string }[];
  assert.ok(history.length > 0 && history.every(({ kind }) => kind !== 'query'), 'what is watched is in no history');
  assert.deepEqual(over.unread, []);
  assert.equal((await server.post('/upgrade/it?force=true', second)).status, 200);
  assert.equal((await counts.next())?.event, 'upgrade');
  assert.equal(await valueOf(counts), '["now 10"]');
  assert.equal((await server.post('/upgrade/it?force=true', third)).status, 200);
  assert.equal((await counts.next())?.event, 'upgrade');
  assert.match((await counts.next())?.data ?? '', /"code":404.*no method/);
  assert.equal(await counts.next(), undefined);
});

test('an actor that sleeps is left asleep, and wakes with a message, of which the watcher is told', async (t) => {
  const state = await temporaryDirectory();
  const server = await startInProcess(t, { args: ['--state', state, '--live-cap', '1'] });
  await install(server, 'a');
  await install(server, 'b');
  await using watched = await EventClient.open(server.origin, '/watch/a/get');
  assert.equal(await valueOf(watched), '[0]');
  assert.equal((await server.post('/call-json/b/add', '[1]')).status, 200);
  const isLive = async (): Promise<boolean> => {
    const all = JSON.parse((await server.get('/inspect')).body) as { name: string; live: boolean }[];
    return all.find(({ name }) => name === 'a')?.live ?? true;
  };
  while (await isLive()) await new Promise((resolve) => setTimeout(resolve, 10));
  await server.post('/call-json/b/add', '[1]');
  assert.equal(await isLive(), false, 'nobody woke it');
  assert.equal((await server.post('/call-json/a/add', '[7]')).body, '[7]');
  assert.equal(await valueOf(watched), '[7]');
  assert.deepEqual(watched.unread, []);
});

test('after a kill, a client that comes back is told what it has missed, and nothing that was not durable', async (t) => {
  const state = await temporaryDirectory();
  const args = ['--state', state];
  let server = await startServer(t, { manifest: '{"actors":{}}', args });
  await install(server, 'it');
  let acknowledged = 0;
  let lastId = '';
  let lastSeen = -1;
  for (let life = 0; life < 4; life++) {
    const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId };
    const client = await EventClient.open(server.origin, '/watch/it/get', headers);
    const adding = (async () => {
      for (let n = 0; n < 40; n++) {
        [acknowledged] = JSON.parse((await server.post('/call-json/it/add', '[1]')).body) as [number];
      }
    })().catch(() => undefined);
    const target = acknowledged + 20;
    while (lastSeen < target) {
      const event = await client.next();
      const seen = (JSON.parse(event?.data ?? '') as [number])[0];
      assert.ok(seen > lastSeen, `${seen} came after ${lastSeen}`);
      lastSeen = seen;
      lastId = event?.id ?? '';
    }
    await server.kill();
    await adding;
    server = await startServer(t, { manifest: '{"actors":{}}', args });
    const now = JSON.parse((await server.post('/query-json/it/get')).body) as [number];
    assert.ok(now[0] >= lastSeen, `the watcher saw ${lastSeen}, which was lost: ${now[0]}`);
    assert.ok(now[0] >= acknowledged);
  }
});

test('a stop does not wait for those who watch', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}' });
  await install(server, 'it');
  const client = await EventClient.open(server.origin, '/watch/it/get');
  assert.equal(await valueOf(client), '[0]');
  assert.equal(await server.stop(), 0);
  assert.equal(await client.next(), undefined);
});
