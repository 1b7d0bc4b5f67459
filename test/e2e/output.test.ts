/** Output of actors that is read without being taken: durable lines alone, from sleeping actors, over restarts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient } from '../support/http-client.ts';
import { ANY_ACTOR, compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const TALKER = `
import { debugPrint } "mo:⛔";
persistent actor { public func say(text : Text) : async () { debugPrint text } };`;

async function textsOf(server: RunningServer, after = 0): Promise<readonly string[]> {
  const { status, body } = await server.get(`/x/actors/talker/output?after=${after}`);
  assert.equal(status, 200, body);
  return (JSON.parse(body) as readonly { text: string }[]).map(({ text }) => text);
}

test('an actor that sleeps is read without being woken, and its lines go with the process', async (t) => {
  const state = await temporaryDirectory();
  const start = (): Promise<RunningServer> =>
    startServer(t, { manifest: '{ "actors": {} }', args: ['--state', state, '--live-cap', '1'] });
  const server = await start();
  for (const [name, source] of [
    ['talker', TALKER],
    ['other', ANY_ACTOR],
  ] as const)
    assert.equal((await server.post(`/install/${name}`, (await compileMotoko(source)).wasm)).status, 200);
  await using client = new RawClient(server.origin);
  client.write('GET /x/actors/talker/output HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n');
  await client.until('\r\n\r\n');
  const isAsleep = async (): Promise<boolean> =>
    (JSON.parse((await server.get('/inspect?name=talker')).body) as { live: boolean }[])[0]?.live === false;
  for (const word of ['one', 'two', 'three']) {
    assert.equal((await server.post('/call-json/other/inc')).status, 200);
    assert.ok(await isAsleep(), `before ${word}`);
    assert.equal((await server.post('/call-json/talker/say', `["${word}"]`)).status, 200);
    await client.until(`"text":"${word}"}\n\n`);
  }
  await server.post('/call-json/other/inc');
  assert.equal((await server.get('/logs/talker')).body, 'one\ntwo\nthree\n');
  assert.deepEqual(await textsOf(server, 1), ['two', 'three']);
  assert.ok(await isAsleep());
  await server.kill();

  const again = await start();
  assert.deepEqual(await textsOf(again, 3), []);
  assert.equal((await again.post('/call-json/talker/say', '["new"]')).status, 200);
  assert.deepEqual(await textsOf(again, 3), ['new'], 'numbers have begun anew');
});

test('a line names the message that printed it, on both sides of an await and of a call', async (t) => {
  const server = await startServer(t, { manifest: '{ "actors": {} }' });
  const source = `
import { debugPrint; trap } "mo:⛔";
persistent actor Self {
  public func inner() : async () { debugPrint "inner"; trap "over" };
  public func outer() : async () {
    debugPrint "before";
    try { await inner() } catch (_) {};
    debugPrint "after";
  };
  public query func seen() : async () { debugPrint "seen" };
};`;
  assert.equal((await server.post('/install/talker', (await compileMotoko(source)).wasm)).status, 200);
  const messageOf = async (path: string): Promise<string> => {
    const response = await fetch(`${server.origin}${path}`, { method: 'POST', body: '[]' });
    assert.equal(response.status, 200, await response.text());
    return response.headers.get('svc-message') ?? '';
  };
  const outer = await messageOf('/call-json/talker/outer');
  const again = await messageOf('/call-json/talker/outer');
  const seen = await messageOf('/query-json/talker/seen');
  const linesOf = async (): Promise<readonly { text: string; message: string | null }[]> =>
    JSON.parse((await server.get('/x/actors/talker/output')).body) as { text: string; message: string | null }[];
  const treeOf = async (id: string): Promise<readonly { id: string; method: string }[]> =>
    JSON.parse((await server.get(`/x/messages/${id}`)).body) as { id: string; method: string }[];
  const lines = await linesOf();
  for (const id of [outer, again]) {
    const inner = (await treeOf(id)).find(({ method }) => method === 'inner')?.id;
    const texts = (message: string | undefined): readonly string[] =>
      lines.filter((line) => line.message === message).map(({ text }) => text);
    assert.deepEqual(texts(id), ['before', 'after']);
    assert.deepEqual(texts(inner)[0], 'inner');
    assert.match(texts(inner).join(' '), /over/u);
  }
  assert.deepEqual(
    lines.filter(({ text }) => text === 'seen').map(({ message }) => message),
    [seen],
  );
});
