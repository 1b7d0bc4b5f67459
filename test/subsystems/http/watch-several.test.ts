import assert from 'node:assert/strict';
import { request } from 'node:http';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { arrived } from '../../support/arrived.ts';
import { EventClient } from '../../support/event-client.ts';
import { send } from '../../support/http-client.ts';
import { type HttpHost, startHttpHost, untilUnwatched } from './counter-host.ts';

const targetOf = (...queries: readonly string[]): string =>
  `/watch?${queries.map((query) => `q=${encodeURIComponent(query)}`).join('&')}`;

async function watching(t: TestContext, host: HttpHost, target: string, headers = {}): Promise<EventClient> {
  const client = await EventClient.open(host.origin, target, headers);
  t.after(() => client.close());
  return client;
}

/** Returns the next events by the id of their query; each is the name of the event, if it has one, and the data. */
async function eventsOf(client: EventClient, count: number): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {};
  for (let at = 0; at < count; at++) {
    const { id = '', event, data } = (await client.next()) ?? { data: 'closed' };
    const [query = ''] = id.split(':');
    (found[query] ??= []).push(event === undefined ? data : `${event} ${data}`);
  }
  return found;
}

function increase({ canisters }: HttpHost): void {
  canisters.resolve('counter').count++;
  for (const watcher of canisters.watchers.keys()) watcher.changed();
}

suite('several live queries in one stream', () => {
  test('each query is told by its id, now and when its answer is another', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(
      t,
      host,
      targetOf('a:counter/get', 'b.2:counter/repeat:[1,2]', 'c:80000000001000010101/get:[]'),
    );
    assert.equal(client.response.headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.deepEqual(await eventsOf(client, 3), { a: ['[0]'], 'b.2': ['[1,2]'], c: ['[0]'] });
    increase(host);
    assert.deepEqual(await eventsOf(client, 2), { a: ['[1]'], c: ['[1]'] });
    assert.equal(host.canisters.watchers.size, 1);
    await client[Symbol.asyncDispose]();
    await untilUnwatched(host);
  });

  test('it shares the execution with those who watch one of its queries alone', async (t) => {
    const host = await startHttpHost(t);
    const alone = await watching(t, host, '/watch/counter/get');
    await alone.next();
    const client = await watching(t, host, targetOf('a:counter/get', 'b:counter/get'));
    assert.deepEqual(await eventsOf(client, 2), { a: ['[0]'], b: ['[0]'] });
    assert.equal(host.canisters.resolve('counter').messagesByName, 1);
  });

  test('an error of one is its last event, and ends none of the others', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(
      t,
      host,
      targetOf('no:counter/nothing', 'who:nobody/get', 'up:counter/inc', 'bad:counter/get:{', 'a:counter/get'),
    );
    const events = await eventsOf(client, 5);
    assert.deepEqual(events['a'], ['[0]']);
    for (const [id, code, message] of [
      ['no', 404, /nothing/],
      ['who', 404, /nobody/],
      ['up', 400, /update/],
      ['bad', 400, /JSON/],
    ] as const) {
      const [, json = ''] = /^end (.*)$/.exec(events[id]?.[0] ?? '') ?? [];
      const error = JSON.parse(json) as { code: number; message: string };
      assert.equal(error.code, code, id);
      assert.match(error.message, message);
    }
    increase(host);
    assert.deepEqual(await eventsOf(client, 1), { a: ['[1]'] });
  });

  test('the stream ends behind its last query', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host, targetOf('a:counter/nothing', 'b:counter/get'));
    await eventsOf(client, 2);
    for (const watcher of host.canisters.watchers.keys()) watcher.removed();
    assert.match(JSON.stringify(await eventsOf(client, 1)), /"b":\["end .*has been deleted/);
    assert.equal(await client.next(), undefined);
    const none = await watching(t, host, targetOf('a:counter/nothing'));
    await none.next();
    assert.equal(await none.next(), undefined);
  });

  test('a client that comes back is told only what it does not have', async (t) => {
    const host = await startHttpHost(t);
    const target = targetOf('a:counter/get', 'b:counter/repeat:[7]');
    const first = await watching(t, host, target);
    const ids = [await first.next(), await first.next()].map((event) => event?.id ?? '');
    assert.ok(
      ids.every((id) => /^[ab]:[0-9a-f]{16}$/.test(id)),
      ids.join(),
    );
    await first[Symbol.asyncDispose]();
    const both = await watching(t, host, target, { 'last-event-id': ids.join(' ') });
    await arrived();
    assert.deepEqual(both.unread, []);
    increase(host);
    assert.deepEqual(await eventsOf(both, 1), { a: ['[1]'] });
    const a = ids.find((id) => id.startsWith('a')) ?? '';
    const one = await watching(t, host, target, { 'last-event-id': a });
    assert.deepEqual(await eventsOf(one, 2), { a: ['[1]'], b: ['[7]'] });
  });

  test('a query that cannot be asked now is asked again, and the others go on', async (t) => {
    const host = await startHttpHost(t);
    host.canisters.resolve('counter').mood = 'gone';
    const client = await watching(t, host, targetOf('a:counter/moody', 'b:counter/get'));
    const events = await eventsOf(client, 2);
    assert.deepEqual(events['b'], ['[0]']);
    assert.match(events['a']?.[0] ?? '', /^unavailable \{"code":503,.*thread has stopped/);
    host.canisters.resolve('counter').mood = undefined;
    const { id, event } = (await client.next()) ?? {};
    assert.deepEqual([id?.split(':')[0], event], ['a', undefined]);
  });

  test('a body says the same, with numbers of any size', async (t) => {
    const host = await startHttpHost(t);
    const post = async (body: string): Promise<IncomingMessage> => {
      const { hostname, port } = new URL(host.origin);
      const asked = request({ host: hostname, port, method: 'POST', path: '/watch', agent: false });
      asked.end(body);
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      t.after(() => response.destroy());
      return response;
    };
    const large = '12345678901234567890123';
    const queries = Array.from({ length: 100 }, (_, at) => ({ id: `q${at}`, actor: 'counter', method: 'get' }));
    const text = JSON.stringify({
      queries: [...queries.slice(1), { id: 'big', actor: 'counter', method: 'repeat', args: [0] }],
    });
    const response = await post(text.replace('[0]', `[${large}, {"a" : 1.50}]`));
    assert.equal(response.statusCode, 200);
    let received = '';
    for await (const chunk of response) {
      received += String(chunk);
      if ((received.match(/^data:/gm) ?? []).length === 100) break;
    }
    assert.ok(received.includes(`data: [${large},{"a":1.50}]\n`), received.slice(-300));
    assert.equal((received.match(/^id: q\d+:[0-9a-f]{16}\ndata: \[0\]$/gm) ?? []).length, 99);
  });

  test('a list that is none is 400, and says where', async (t) => {
    const { origin } = await startHttpHost(t);
    const query = { id: 'a', actor: 'counter', method: 'get' };
    const many = Array.from({ length: 101 }, (_, at) => ({ ...query, id: String(at) }));
    const targets: readonly (readonly [string, RegExp])[] = [
      ['/watch', /at least one/],
      ['/watch?lossless=1', /at least one/],
      ['/watch?q=', /^q 1: expected/],
      ['/watch?q', /^q 1: expected/],
      ['/watch?q=a:counter/get&q', /^q 2: expected/],
      ['/watch?%71=a:counter/get&q=', /^q 2: expected/],
      [targetOf('a:counter/get', 'x'), /^q 2: expected/],
      [targetOf(':counter/get'), /an id has/],
      [targetOf('a b:counter/get'), /an id has/],
      [targetOf('error:x:counter/get'), /^q 1: expected/],
      [targetOf('a:counter/get', 'a:counter/get'), /the id "a" is there twice/],
      [targetOf('a:counter/%ff'), /percent-encoded/],
      [targetOf(...many.map(({ id }) => `${id}:c/g`)), /100 queries at most, found 101/],
    ];
    for (const [target, message] of targets) {
      const answer = await send(origin, 'GET', target);
      assert.equal(answer.status, 400, `${target}: ${answer.text}`);
      assert.match((answer.json() as { message: string }).message, message, target);
    }
    const bodies: readonly (readonly [string, RegExp])[] = [
      ['', /the body: expected JSON/],
      ['[]', /the body: expected an object/],
      ['{}', /the body: expected \{"queries"/],
      ['{"queries":[]}', /at least one/],
      ['{"queries":[1]}', /queries\[0\]: expected an object/],
      ['{"queries":[],"more":1}', /unknown key "more"/],
      [JSON.stringify({ queries: [{ ...query, arg: [] }] }), /queries\[0\]: unknown key "arg"/],
      [JSON.stringify({ queries: [{ ...query, args: 5 }] }), /queries\[0\]\.args: expected an array/],
      [JSON.stringify({ queries: [{ ...query, id: 5 }] }), /queries\[0\]\.id: expected a string/],
      [JSON.stringify({ queries: [{ id: 'a', method: 'get' }] }), /queries\[0\]\.actor: expected/],
      [JSON.stringify({ queries: [query, query] }), /twice/],
      [JSON.stringify({ queries: many }), /100 queries at most/],
      [`{"queries":${'['.repeat(100_000)}`, /the body: /],
      [`{"queries":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, /the body: it nests too deeply|queries\[0\]/],
    ];
    for (const [body, message] of bodies) {
      const answer = await send(origin, 'POST', '/watch', { body });
      assert.equal(answer.status, 400, answer.text);
      assert.match((answer.json() as { message: string }).message, message, body.slice(0, 60));
    }
    const tooLarge = await send(origin, 'POST', '/watch', { body: ' '.repeat(256 * 1024 + 1) });
    assert.equal(tooLarge.status, 413);
    assert.equal((await send(origin, 'GET', '/watch?q=a:counter/get&x=1')).status, 404);
    assert.equal((await send(origin, 'GET', '/watch?lossless=1&lossless=1&q=a:counter/get')).status, 404);
  });

  test('a browser that asks too early is told when to come back', async (t) => {
    const { origin, readiness } = await startHttpHost(t);
    readiness.isReady = false;
    const headers = { accept: 'text/event-stream' };
    const answer = await send(origin, 'GET', targetOf('a:counter/get'), { headers });
    assert.deepEqual([answer.status, answer.text.split('\n')[0]], [200, 'retry: 3000']);
  });
});
