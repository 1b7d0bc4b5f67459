/**
 * Requests without `Authorization` for methods that are open: what they may do and what not, byte by byte of the
 * target, and that they take no more of the room than strangers have.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { arrived } from '../../support/arrived.ts';
import { EventClient } from '../../support/event-client.ts';
import { type Answer, RawClient, send } from '../../support/http-client.ts';
import type { ShownNumber } from '../../../subsystems/metrics/index.ts';
import { NoMetrics } from '../../../subsystems/metrics/no-metrics.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const TOKEN = { authorization: 'Bearer secret' };
const KIB = 1024;

async function startOpen(
  t: TestContext,
  names: readonly string[] = ['get', 'echo', 'slow'],
  options: HttpHostOptions = {},
): Promise<HttpHost> {
  const host = await startHttpHost(t, { token: 'secret', ...options });
  open(host, names);
  return host;
}

function open(host: HttpHost, names: readonly string[]): void {
  host.canisters.resolve('counter').openMethods = { names: new Set(names), isOfManifest: false };
}

function refused({ status, text, headers }: Answer, place: string): void {
  assert.deepEqual(
    [status, text, headers['content-type'], headers['www-authenticate']],
    [401, 'missing or wrong bearer token', 'text/plain; charset=utf-8', 'Bearer'],
    place,
  );
}

const post = (host: HttpHost, target: string, body: string | Uint8Array = '[]', headers = {}): Promise<Answer> =>
  send(host.origin, 'POST', target, { body, headers });

suite('open methods', () => {
  test('answer at each route of calls, and nothing else does', async (t) => {
    const host = await startOpen(t);
    const id = host.canisters.resolve('counter').idHex;
    for (const target of [
      '/call-json/counter/echo',
      '/call-json/counter/echo?lossless=1',
      `/call/${id}/echo`,
      '/call/c%6funter/%65cho',
      '/query-json/counter/get',
      '/query/counter/get',
    ])
      assert.equal((await post(host, target)).status, 200, target);
    for (const [method, target] of [
      ['POST', '/call-json/counter/inc'],
      ['POST', '/call-json/counter/ech'],
      ['POST', '/call-json/counter/echos'],
      ['POST', '/call-json/counter/Echo'],
      ['POST', '/call-json/counter/echo/'],
      ['POST', '/call-json/counter/echo#'],
      ['POST', '/call-json//counter/echo'],
      ['POST', '/call-json/counter/%2565cho'],
      ['POST', '/call-json/counter/echo%00'],
      ['POST', '/call-json/counter/%ff'],
      ['POST', '/call-json/counter/inc?/counter/echo'],
      ['POST', '/call-json/counter/inc%2f..%2fecho'],
      ['POST', '/call-json/bare/echo'],
      ['POST', '/call-json/nobody/echo'],
      ['POST', '/%63all-json/counter/echo'],
      ['POST', '/CALL-JSON/counter/echo'],
      ['GET', '/call-json/counter/echo'],
      ['PUT', '/call-json/counter/echo'],
      ['HEAD', '/watch/counter/get'],
      ['POST', '/watch/counter/get'],
      ['GET', '/watch/counter/inc'],
      ['GET', '/watch?q=a:counter/inc'],
      ['GET', '/openapi/counter'],
      ['GET', '/candid/counter'],
      ['GET', '/x/actors/counter/public'],
      ['PUT', '/x/actors/counter/public'],
      ['POST', '/upgrade/counter'],
      ['GET', '/actors'],
    ] as const) {
      const answer = await send(host.origin, method, target);
      if (method === 'HEAD') assert.equal(answer.status, 401, target);
      else refused(answer, `${method} ${target}`);
    }
    assert.equal(host.canisters.resolve('counter').count, 0, 'nothing was executed');
    assert.equal((await post(host, '/query-json/counter/get?losless=1')).status, 404, 'its query is checked');
  });

  test('are none where nobody has opened any, and another actor has its own', async (t) => {
    const host = await startHttpHost(t, { token: 'secret' });
    for (const target of ['/call-json/counter/echo', '/query-json/counter/get'])
      refused(await post(host, target), target);
    for (const target of ['/watch/counter/get', '/watch?q=a:counter/get'])
      refused(await send(host.origin, 'GET', target), target);
    refused(await post(host, '/watch', '{"queries":[{"id":"a","actor":"counter","method":"get"}]}'), 'a list');
  });

  test('are not for wrong credentials, nor do they change what the token may', async (t) => {
    const host = await startOpen(t);
    for (const authorization of ['Bearer wrong', '', 'Basic c2VjcmV0', 'Bearer'])
      refused(await post(host, '/call-json/counter/echo', '[]', { authorization }), authorization);
    const headers = { ...TOKEN, 'x-caller': '2vxsx-fae', 'idempotency-key': 'k' };
    assert.equal((await post(host, '/call-json/counter/inc', '[]', headers)).status, 200);
    const large = JSON.stringify(['x'.repeat(9 * KIB * KIB)]);
    assert.equal((await post(host, '/call-json/counter/echo', large, TOKEN)).status, 200, 'above 8 MiB');
    assert.deepEqual(host.canisters.keys.slice(0, 1), ['k']);
  });

  test('are called by the anonymous principal, with keys of their own', async (t) => {
    const host = await startOpen(t, ['whoami', 'echo']);
    assert.deepEqual((await post(host, '/call-json/counter/whoami')).json(), ['04']);
    for (const target of ['/call-json/counter/whoami', '/query/counter/whoami', '/call/counter/echo']) {
      const answer = await post(host, target, '[]', { 'x-caller': '2vxsx-fae' });
      assert.equal(answer.status, 403, target);
      assert.match((answer.json() as { message: string }).message, /x-caller.*leave it out, or send the token/);
    }
    host.canisters.keys.length = 0;
    await post(host, '/call-json/counter/echo', '[]', { 'idempotency-key': 'k' });
    await post(host, '/call-json/counter/echo', '[]', { 'idempotency-key': 'k', ...TOKEN });
    assert.deepEqual(host.canisters.keys, ['\u0001k', 'k']);
    const bad = await post(host, '/call-json/counter/echo', '[]', { 'idempotency-key': 'a b' });
    assert.equal(bad.status, 400);
  });

  test('take bodies of 8 MiB, announced or not, and together what websites may', async (t) => {
    const host = await startOpen(t, ['echo', 'slow'], { siteBodyBytesMax: 9 * KIB * KIB });
    const over = 8 * KIB * KIB + 1;
    const client = new RawClient(host.origin);
    t.after(() => client[Symbol.asyncDispose]());
    client.write(`POST /call-json/counter/echo HTTP/1.1\r\nHost: x\r\nContent-Length: ${over}\r\n\r\n`);
    assert.match(await client.ended(), /^HTTP\/1\.1 413 [^]*larger than 8388608 bytes/);
    const chunked = await post(host, '/call-json/counter/echo', Buffer.alloc(over, 0x20), {
      'transfer-encoding': 'chunked',
    });
    assert.equal(chunked.status, 413);
    const held = Promise.withResolvers<void>();
    host.canisters.resolve('counter').held = held.promise;
    const body = JSON.stringify(['x'.repeat(5 * KIB * KIB)]);
    const waiting = post(host, '/call-json/counter/slow', body);
    while (host.canisters.keys.length < 1) await arrived();
    const full = await post(host, '/call-json/counter/echo', body);
    assert.equal(full.status, 503);
    assert.equal(full.headers['retry-after'], '1');
    assert.match((full.json() as { message: string }).message, /website requests and open calls together fill 9 MiB/);
    const site = await post(host, '/site/counter/', body);
    assert.equal(site.status, 503, 'websites have the same room');
    assert.equal((await post(host, '/call-json/counter/echo', body, TOKEN)).status, 200, 'and the token another');
    held.resolve();
    assert.equal((await waiting).status, 200);
    assert.equal((await post(host, '/call-json/counter/echo', body)).status, 200);
  });

  test('that are closed while a body arrives do not answer it', async (t) => {
    const host = await startOpen(t);
    const client = new RawClient(host.origin);
    t.after(() => client[Symbol.asyncDispose]());
    client.write('POST /call-json/counter/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[');
    await arrived();
    open(host, []);
    client.write(']');
    await client.until('missing or wrong bearer token');
    assert.deepEqual(host.canisters.keys, []);
  });

  test('are told to come back while the server starts', async (t) => {
    const host = await startOpen(t);
    host.readiness.isReady = false;
    host.readiness.note = 'recovering';
    assert.deepEqual(
      [(await post(host, '/query-json/counter/get')).text, (await post(host, '/query-json/counter/inc')).status],
      ['starting: recovering', 401],
    );
  });

  test('are watched; a stream ends when its method is closed, and those with the token go on', async (t) => {
    const host = await startOpen(t);
    const stranger = await EventClient.open(host.origin, '/watch/counter/get');
    const known = await EventClient.open(host.origin, '/watch/counter/get', TOKEN);
    t.after(() => {
      stranger.close();
      known.close();
    });
    assert.equal((await stranger.next())?.data, '[0]');
    assert.equal((await known.next())?.data, '[0]');
    await assert.rejects(EventClient.open(host.origin, '/watch/counter/get', { 'x-caller': '2vxsx-fae' }), /403/);
    const closed = await send(host.origin, 'PUT', '/x/actors/counter/public', { body: '["echo"]', headers: TOKEN });
    assert.deepEqual(closed.json(), ['echo']);
    const end = await stranger.next();
    assert.deepEqual(
      [end?.event, JSON.parse(end?.data ?? '')],
      ['end', { code: 401, message: 'missing or wrong bearer token' }],
    );
    assert.equal(await stranger.next(), undefined);
    host.canisters.resolve('counter').count = 7;
    for (const watcher of host.canisters.watchers.keys()) watcher.changed();
    assert.equal((await known.next())?.data, '[7]');
  });

  test('are watched several at a time, each checked by itself', async (t) => {
    const host = await startOpen(t);
    const list = ['a:counter/get', 'b:counter/inc', 'c:nobody/get', 'd:bare/get'];
    const client = await EventClient.open(host.origin, `/watch?${list.map((q) => `q=${q}`).join('&')}`);
    t.after(() => client.close());
    const events = [];
    for (let n = 0; n < list.length; n++) events.push(await client.next());
    const byId = new Map(events.map((event) => [event?.id?.split(':')[0], event]));
    assert.equal(byId.get('a')?.data, '[0]');
    for (const id of ['b', 'c', 'd'])
      assert.equal(byId.get(id)?.data, '{"code":401,"message":"missing or wrong bearer token"}', id);
    const asked = request(new URL('/watch', host.origin), { method: 'POST', agent: false });
    asked.end('{"queries":[{"id":"a","actor":"counter","method":"get"}]}');
    const [{ statusCode }] = (await once(asked, 'response')) as [{ statusCode: number }];
    assert.equal(statusCode, 200);
    asked.destroy();
    assert.equal((await post(host, '/watch', '{"queries":[]}')).status, 400);
    assert.equal((await post(host, '/watch', Buffer.alloc(300 * KIB, 0x20))).status, 413);
    await host.canisters.setOpenMethods(host.canisters.resolve('counter'), []);
    assert.equal((await client.next())?.data, '{"code":401,"message":"missing or wrong bearer token"}');
    assert.equal(await client.next(), undefined, 'all have ended');
  });

  test('leave room for the streams of those who have the token', async (t) => {
    const host = await startOpen(t, ['get'], { descriptors: { limit: 200, inUse: () => 100 } });
    host.server.serve();
    const streams: EventClient[] = [];
    t.after(() => {
      for (const stream of streams) stream.close();
    });
    let failure: unknown;
    for (let n = 0; n < 100 && failure === undefined; n++)
      await EventClient.open(host.origin, '/watch/counter/get').then(
        (stream) => streams.push(stream),
        (error: unknown) => (failure = error),
      );
    assert.match(String(failure), /503/);
    streams.push(await EventClient.open(host.origin, '/watch/counter/get', TOKEN));
  });

  test('may be used by pages of other sites, also where a guard keeps them from all else', async (t) => {
    const host = await startHttpHost(t, { browserGuard: { names: ['127.0.0.1'] } });
    open(host, ['echo']);
    const headers = { origin: 'http://elsewhere.example', 'sec-fetch-site': 'cross-site' };
    const answer = await post(host, '/call-json/counter/echo', '[1]', headers);
    assert.deepEqual([answer.status, answer.headers['access-control-allow-origin']], [200, '*']);
    assert.equal((await post(host, '/call-json/counter/inc', '[]', headers)).status, 403);
    assert.equal(
      (await post(host, '/call-json/counter/echo', '[]', { ...headers, 'x-caller': '2vxsx-fae' })).status,
      403,
    );
    assert.equal((await post(host, '/call-json/counter/echo', '[]', { ...headers, authorization: 'x' })).status, 403);
    assert.equal((await post(host, '/call-json/counter/inc')).status, 200, 'who is no browser may do all');
    const preflight = await send(host.origin, 'OPTIONS', '/call-json/counter/echo', {
      headers: { ...headers, 'access-control-request-headers': 'content-type,x-own' },
    });
    assert.equal(preflight.status, 204);
    assert.match(String(preflight.headers['access-control-allow-headers']), /content-type.*x-own/);
  });

  test('are counted, and so is who is refused', async (t) => {
    const shown = new Map<string, ShownNumber>();
    const metrics = Object.assign(new NoMetrics(), {
      show: (number: ShownNumber): void => void shown.set(number.name, number),
    });
    const host = await startOpen(t, ['get'], { metrics });
    await post(host, '/query-json/counter/get');
    await post(host, '/query-json/counter/inc');
    await post(host, '/query-json/counter/inc');
    await send(host.origin, 'GET', '/actors');
    await post(host, '/query-json/counter/get', '[]', TOKEN);
    assert.equal(shown.get('svc_http_open_requests_total')?.read(), 1);
    assert.equal(shown.get('svc_http_open_refused_total')?.read(), 2);
  });
});

suite('the routes of open methods', () => {
  test('tell and change them, and refuse what cannot be open with the place and the fix', async (t) => {
    const host = await startOpen(t, []);
    const path = '/x/actors/counter/public';
    const asked = (method: string, body?: string): Promise<Answer> =>
      send(host.origin, method, path, { ...(body !== undefined && { body }), headers: TOKEN });
    assert.deepEqual((await asked('GET')).json(), []);
    assert.deepEqual((await asked('PUT', '["get","inc"]')).json(), ['get', 'inc']);
    assert.deepEqual((await asked('GET')).json(), ['get', 'inc']);
    for (const [body, message] of [
      ['', /send a JSON array/],
      ['{}', /the body is no array: send a JSON array/],
      ['[1]', /\[0\] is no text/],
      ['["get", null]', /\[1\] is no text/],
      ['["@own"]', /internal/],
    ] as const) {
      const answer = await asked('PUT', body);
      assert.equal(answer.status, 400, body);
      assert.match((answer.json() as { message: string }).message, message);
    }
    assert.deepEqual((await asked('GET')).json(), ['get', 'inc'], 'nothing has changed');
    assert.equal((await asked('PUT', ' '.repeat(65 * KIB))).status, 413);
  });
});
