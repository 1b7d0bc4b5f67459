import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { arrived } from '../../support/arrived.ts';
import { EventClient } from '../../support/event-client.ts';
import { send } from '../../support/http-client.ts';
import { type HttpHost, jsonTextCodec, startHttpHost, untilUnwatched } from './counter-host.ts';

const answersOf = async (client: EventClient, count: number): Promise<string[]> => {
  const answers: string[] = [];
  while (answers.length < count) answers.push((await client.next())?.data ?? 'closed');
  return answers;
};

/** Does the host's work after a message whose changes are kept. */
function increase({ canisters }: HttpHost, watched = 'counter'): void {
  canisters.resolve(watched).count++;
  for (const watcher of canisters.watchers.keys()) watcher.changed();
}

async function watching(t: TestContext, host: HttpHost, target = '/watch/counter/get'): Promise<EventClient> {
  const client = await EventClient.open(host.origin, target);
  t.after(() => client.close());
  return client;
}

suite('a browser that asks too early', () => {
  const asEventSource = { accept: 'text/event-stream' };

  test('is told when to come back, where others get 503: a browser would never ask again', async (t) => {
    const { origin, readiness } = await startHttpHost(t);
    readiness.isReady = false;
    readiness.note = 'recovering counter';
    const answer = await send(origin, 'GET', '/watch/counter/get', { headers: asEventSource });
    assert.deepEqual([answer.status, answer.headers['content-type']], [200, 'text/event-stream; charset=utf-8']);
    assert.equal(
      answer.text,
      'retry: 3000\nevent: unavailable\ndata: {"code":503,"message":"starting: recovering counter"}\n\n',
    );
    for (const [target, headers] of [
      ['/watch/counter/get', {}],
      ['/watch/counter/get', { ...asEventSource, 'content-length': '0' }],
      ['/events/counter', asEventSource],
      ['/actors', asEventSource],
    ] as const) {
      const refused = await send(origin, 'GET', target, { headers });
      assert.deepEqual([refused.status, refused.text], [503, 'starting: recovering counter'], target);
    }
  });

  test('also when its actor cannot answer now; not when it never can', async (t) => {
    const host = await startHttpHost(t);
    host.canisters.resolve('counter').mood = 'gone';
    const answer = await send(host.origin, 'GET', '/watch/counter/moody', { headers: asEventSource });
    assert.deepEqual([answer.status, answer.text.split('\n')[0]], [200, 'retry: 3000']);
    assert.match(answer.text, /thread has stopped/);
    const refused = await send(host.origin, 'GET', '/watch/counter/moody');
    assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '1']);
    const missing = await send(host.origin, 'GET', '/watch/counter/nothing', { headers: asEventSource });
    assert.equal(missing.status, 404);
  });
});

suite('live queries over HTTP', () => {
  test('the answer comes now, and again whenever it is another', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host);
    assert.equal(client.response.headers['content-type'], 'text/event-stream; charset=utf-8');
    assert.equal(client.response.headers['cache-control'], 'no-store');
    assert.equal(client.response.headers['svc-version'], '9.8.7');
    assert.equal(client.response.headers['access-control-allow-origin'], '*');
    assert.deepEqual(await answersOf(client, 1), ['[0]']);
    for (let count = 1; count <= 3; count++) {
      increase(host);
      assert.deepEqual(await answersOf(client, 1), [`[${count}]`]);
    }
  });

  test('a change that leaves the answer as it is tells nobody anything', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host);
    await client.next();
    const before = host.canisters.resolve('counter').messagesByName;
    for (const watcher of host.canisters.watchers.keys()) watcher.changed();
    while (host.canisters.resolve('counter').messagesByName === before) await new Promise(setImmediate);
    increase(host);
    assert.deepEqual(await answersOf(client, 1), ['[1]']);
  });

  test('many who watch the same share one execution, however its arguments are written', async (t) => {
    const host = await startHttpHost(t);
    const targets = ['/watch/counter/get', '/watch/counter/get?args=[]', '/watch/80000000001000010101/get?args=%5B%5D'];
    const clients = await Promise.all(Array.from({ length: 60 }, (_, at) => watching(t, host, targets[at % 3])));
    for (const client of clients) assert.deepEqual(await answersOf(client, 1), ['[0]']);
    const counter = host.canisters.resolve('counter');
    const executed = (): number => counter.messagesByName + counter.messagesById;
    assert.equal(executed(), 1);
    increase(host);
    for (const client of clients) assert.deepEqual(await answersOf(client, 1), ['[1]']);
    assert.equal(executed(), 2);
  });

  test('who has gone is forgotten, and when nobody is left nothing is asked any more', async (t) => {
    const host = await startHttpHost(t);
    const clients = await Promise.all(Array.from({ length: 50 }, () => watching(t, host)));
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
    await untilUnwatched(host);
    const again = await watching(t, host);
    assert.deepEqual(await answersOf(again, 1), ['[0]']);
    assert.equal(host.canisters.watchers.size, 1);
  });

  test('a client that comes back is told only what it does not have', async (t) => {
    const host = await startHttpHost(t);
    const first = await watching(t, host);
    const { id = '' } = (await first.next()) ?? {};
    assert.match(id, /^[0-9a-f]{16}$/);
    await first[Symbol.asyncDispose]();
    const second = await EventClient.open(host.origin, '/watch/counter/get', { 'last-event-id': id });
    t.after(() => second.close());
    increase(host);
    assert.deepEqual(await answersOf(second, 1), ['[1]']);
    const third = await EventClient.open(host.origin, '/watch/counter/get', {
      'last-event-id': 'another',
    });
    t.after(() => third.close());
    assert.deepEqual(await answersOf(third, 1), ['[1]']);
  });

  test('who joins after a change sees it, though the answer before it is still there', async (t) => {
    const host = await startHttpHost(t);
    await (await watching(t, host)).next();
    for (let count = 1; count <= 20; count++) {
      increase(host);
      const late = await watching(t, host);
      assert.deepEqual(await answersOf(late, 1), [`[${count}]`]);
    }
  });

  test('a query that cannot be executed now is 503 before the stream begins', async (t) => {
    const host = await startHttpHost(t);
    host.canisters.resolve('counter').mood = 'gone';
    const answer = await send(host.origin, 'GET', '/watch/counter/moody');
    assert.equal(answer.status, 503);
    assert.equal(host.canisters.watchers.size, 0);
  });

  test('traps and rejects are events, once for as long as they last', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host, '/watch/counter/moody');
    assert.deepEqual(await answersOf(client, 1), ['[0]']);
    const counter = host.canisters.resolve('counter');
    counter.mood = 'trap';
    increase(host);
    const event = await client.next();
    assert.equal(event?.event, 'trap');
    assert.deepEqual(JSON.parse(event.data), { code: 5, message: 'canister trapped: moody' });
    increase(host);
    counter.mood = 'garbage';
    increase(host);
    const second = await client.next();
    assert.equal(second?.event, 'trap');
    assert.match(second.data, /does not fit its interface/);
    counter.mood = 'gone';
    increase(host);
    counter.mood = undefined;
    assert.deepEqual(await answersOf(client, 1), ['[4]']);
  });

  test('an upgrade is an event before the first answer of the new code', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host);
    await client.next();
    host.canisters.resolve('counter').count = 7;
    for (const watcher of host.canisters.watchers.keys()) watcher.codeChanged();
    const event = await client.next();
    assert.equal(event?.event, 'upgrade');
    assert.deepEqual(JSON.parse(event.data), { moduleHash: 'ab'.repeat(32) });
    assert.equal(event.id, undefined);
    assert.deepEqual(await answersOf(client, 1), ['[7]']);
  });

  test('code that changes while a query begins is asked by its own types', async (t) => {
    const host = await startHttpHost(t);
    const counter = host.canisters.resolve('counter');
    const { candid } = counter;
    assert.ok(candid !== undefined);
    const writing = Promise.withResolvers<Uint8Array>();
    const args = { ...jsonTextCodec, encodeAnySize: () => writing.promise };
    const results = { ...jsonTextCodec, decodeAnySize: () => Buffer.from('["old"]') };
    counter.candid = { ...candid, methods: new Map([['get', { name: 'get', kind: 'query', args, results }]]) };
    const opening = watching(t, host);
    await arrived();
    Object.assign(counter, { module: { ...counter.module, hash: 'cd'.repeat(32) } });
    counter.candid = candid;
    writing.resolve(Buffer.from('[]'));
    assert.deepEqual(await answersOf(await opening, 1), ['[0]']);
  });

  test('code that has no such method any more ends the stream with the reason', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host);
    await client.next();
    host.canisters.resolve('counter').candid = undefined;
    for (const watcher of host.canisters.watchers.keys()) watcher.codeChanged();
    assert.equal((await client.next())?.event, 'upgrade');
    const event = await client.next();
    assert.equal(event?.event, 'end');
    assert.match(event.data, /^\{"code":400,"message":"actor counter has no Candid interface/);
    assert.equal(await client.next(), undefined);
  });

  test('deletion ends the stream with the reason', async (t) => {
    const host = await startHttpHost(t);
    const client = await watching(t, host);
    await client.next();
    for (const watcher of host.canisters.watchers.keys()) watcher.removed();
    const event = await client.next();
    assert.equal(event?.event, 'end');
    assert.deepEqual(JSON.parse(event.data), { code: 404, message: 'actor counter has been deleted' });
    assert.equal(await client.next(), undefined);
    assert.equal(host.canisters.watchers.size, 0);
  });

  test('what cannot be watched is refused as a call would be', async (t) => {
    const host = await startHttpHost(t, { token: 'T' });
    const authorized = { authorization: 'Bearer T' };
    const status = async (target: string, headers = {}): Promise<[number, string]> => {
      const answer = await send(host.origin, 'GET', target, { headers: { ...authorized, ...headers } });
      return [answer.status, answer.text];
    };
    assert.equal((await send(host.origin, 'GET', '/watch/counter/get')).status, 401);
    assert.equal((await status('/watch/nobody/get'))[0], 404);
    assert.equal((await status('/watch/counter/nothing'))[0], 404);
    assert.match((await status('/watch/counter/inc'))[1], /^\{"code":400,"message":"inc is an update method/);
    assert.match((await status('/watch/counter/everything'))[1], /composite query/);
    assert.match((await status('/watch/counter/get?args=%ff'))[1], /percent-encoded UTF-8/);
    assert.match((await status('/watch/counter/get?args={}'))[1], /expected an array/);
    assert.equal((await status('/watch/counter/get?args=[]&args=[]'))[0], 404);
    assert.equal((await status('/watch/counter/get?lossless=2'))[0], 404);
    assert.equal((await status('/watch/bare/get'))[0], 400);
    assert.equal((await status('/watch/counter/get', { 'x-caller': 'nonsense' }))[0], 400);
    assert.equal((await send(host.origin, 'POST', '/watch/counter/get', { headers: authorized })).status, 404);
    assert.equal(host.canisters.watchers.size, 0, 'nothing is watched afterwards');
  });

  test('a slow client holds one answer, and gets the newest when it reads again', async (t) => {
    const host = await startHttpHost(t);
    const counter = host.canisters.resolve('counter');
    const slow = await watching(t, host, '/watch/counter/large');
    const quick = await watching(t, host, '/watch/counter/large');
    slow.response.pause();
    for (let round = 0; round < 20; round++) {
      const answer = JSON.parse((await quick.next())?.data ?? '') as [string];
      assert.equal(answer[0].length, 1_000_000);
      assert.ok(answer[0].startsWith(`${counter.count} `));
      increase(host);
    }
    slow.response.resume();
    const seen: number[] = [];
    while (seen.at(-1) !== counter.count) {
      const [text] = JSON.parse((await slow.next())?.data ?? '') as [string];
      seen.push(Number.parseInt(text, 10));
    }
    assert.ok(seen.length < 20, `it skipped what it was too slow for: ${seen.join(' ')}`);
    assert.deepEqual(
      seen,
      seen.toSorted((a, b) => a - b),
    );
  });

  test('a stop ends the streams at once', async (t) => {
    const host = await startHttpHost(t);
    const clients = await Promise.all(Array.from({ length: 20 }, () => watching(t, host)));
    await Promise.all(clients.map((client) => client.next()));
    await host.server.close();
    for (const client of clients) assert.equal(await client.next(), undefined);
  });
});
