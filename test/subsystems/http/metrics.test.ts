/** Counts of the server's requests, over real sockets, and the sending of the page. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Metrics, ShownNumber } from '../../../subsystems/metrics/index.ts';
import { CODE_CLASSES, RequestCounts } from '../../../subsystems/metrics/request-counts.ts';
import { arrived } from '../../support/arrived.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

/** Keeps the counts; its page has `pageBytes`. */
class KeptMetrics implements Metrics {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8';
  readonly counts = new Map<string, RequestCounts>();
  readonly shown = new Map<string, ShownNumber>();
  pageBytes = 10;
  pages = 0;

  requestsOf(endpoint: string): RequestCounts {
    const counts = this.counts.get(endpoint) ?? new RequestCounts();
    this.counts.set(endpoint, counts);
    return counts;
  }

  show(number: ShownNumber): void {
    assert.ok(!this.shown.has(number.name), number.name);
    this.shown.set(number.name, number);
  }

  page(): Promise<readonly Uint8Array[]> {
    this.pages++;
    const pieces: Uint8Array[] = [];
    for (let left = this.pageBytes; left > 0; left -= 65_536) pieces.push(Buffer.alloc(Math.min(left, 65_536), 0x23));
    return Promise.resolve(pieces);
  }

  /** Returns the requests, the answers by class, and the number of answers with a duration. */
  of(endpoint: string): unknown {
    const { value, answers, seconds } = this.requestsOf(endpoint);
    const timed = seconds.figures.counts.reduce((sum, count) => sum + count, 0);
    const byClass = CODE_CLASSES.flatMap((code, at) => (answers[at] === 0 ? [] : [`${code} ${answers[at]}`]));
    return [value, byClass.join(' '), timed];
  }
}

/** Makes a client that has the head of the page and reads no further. */
async function openPage(t: TestContext, origin: string): Promise<IncomingMessage> {
  const request = httpGet(`${origin}/metrics`, { agent: false });
  request.on('error', () => undefined);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.pause();
  response.on('error', () => undefined);
  t.after(() => void response.destroy());
  return response;
}

suite('requests are counted', () => {
  test('each answer once, by its endpoint and status, with its duration', async (t) => {
    const metrics = new KeptMetrics();
    const headers = { authorization: 'Bearer x' };
    const { origin, readiness } = await startHttpHost(t, { metrics, token: 'x' });
    const post = (path: string, body = ''): Promise<unknown> => send(origin, 'POST', path, { body, headers });
    await post('/call/counter/inc');
    await post('/call/counter/boom');
    await post('/call/counter/gone');
    await post('/call/nobody/inc');
    await post('/call-json/counter/inc', '[]');
    await post('/call-json/counter/inc', 'nonsense');
    await post('/query/counter/get');
    await send(origin, 'GET', '/health');
    await send(origin, 'GET', '/health/ready');
    await send(origin, 'GET', '/actors', { headers });
    await post('/nowhere');
    await post('/call//inc');
    await post('/call/%ff/inc');
    await send(origin, 'GET', '/actors');
    await send(origin, 'OPTIONS', '/call/counter/inc');
    await send(origin, 'GET', '/site/shop/', { headers });
    readiness.isReady = false;
    await post('/call/counter/inc');
    assert.deepEqual(metrics.of('call'), [5, '2xx 1 4xx 3 5xx 1', 5]);
    assert.deepEqual(metrics.of('call-json'), [2, '2xx 1 4xx 1', 2]);
    assert.deepEqual(metrics.of('query'), [1, '2xx 1', 1]);
    assert.deepEqual(metrics.of('health'), [2, '2xx 2', 2]);
    assert.deepEqual(metrics.of('actors'), [1, '2xx 1', 1]);
    assert.deepEqual(metrics.of('preflight'), [1, '2xx 1', 1]);
    assert.deepEqual(metrics.of('refused'), [2, '4xx 1 5xx 1', 2]);
    assert.deepEqual(metrics.of('site'), [1, '4xx 1', 1]);
    const { value, answers } = metrics.requestsOf('unknown');
    assert.equal(value, answers[2]);
    assert.ok(value >= 2);
    const classes = [...metrics.counts.values()];
    for (const { value: requests, answers: counts } of classes)
      assert.equal(
        counts.reduce((sum, count) => sum + count, 0),
        requests,
      );
  });

  test('the duration begins when the request is looked at and ends with its answer', async (t) => {
    const metrics = new KeptMetrics();
    const clock = new FakeClock();
    const { origin, canisters } = await startHttpHost(t, { metrics, clock });
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const [counter] = canisters.canisters;
    assert.ok(counter);
    counter.held = promise;
    const answer = send(origin, 'POST', '/call/counter/slow');
    while (metrics.requestsOf('call').value === 0) await sleep(1);
    await sleep(5);
    clock.advance(300);
    assert.deepEqual(metrics.of('call'), [1, '', 0]);
    resolve(undefined);
    await answer;
    assert.equal(metrics.requestsOf('call').seconds.figures.sum, 0.3);
    // A request that is answered at once takes no time of a clock that stands still.
    await send(origin, 'POST', '/call/counter/inc');
    assert.equal(metrics.requestsOf('call').seconds.figures.sum, 0.3);
    assert.deepEqual(metrics.of('call'), [2, '2xx 2', 2]);
  });

  test('what a client decides the duration of is an answer without one; other answers in pieces have it', async (t) => {
    const metrics = new KeptMetrics();
    const { origin } = await startHttpHost(t, {
      metrics,
      storage: {
        async *backup() {
          yield Buffer.from('one');
          yield Buffer.from('two');
        },
      },
    });
    assert.equal((await send(origin, 'GET', '/backup')).body.toString(), 'onetwo');
    assert.equal((await send(origin, 'GET', '/backup?full=1')).status, 404);
    assert.deepEqual(metrics.of('backup'), [2, '2xx 1 4xx 1', 0]);
    const following = new AbortController();
    assert.equal((await fetch(`${origin}/events/counter`, { signal: following.signal })).status, 200);
    assert.deepEqual(metrics.of('events'), [1, '2xx 1', 0]);
    assert.equal(metrics.shown.get('svc_http_event_streams')?.read(), 1);
    following.abort();
    metrics.pageBytes = 300_000;
    assert.equal((await send(origin, 'GET', '/metrics')).status, 200);
    assert.deepEqual(metrics.of('metrics'), [1, '2xx 1', 1]);
  });

  test('pipelined requests are counted one by one, and a client that is gone leaves no answer behind', async (t) => {
    const metrics = new KeptMetrics();
    const { origin, canisters } = await startHttpHost(t, { metrics });
    const { port } = new URL(origin);
    const socket = connect(Number(port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(20));
    while (metrics.requestsOf('health').seconds.figures.counts.reduce((sum, count) => sum + count, 0) < 20)
      await sleep(1);
    assert.deepEqual(metrics.of('health'), [20, '2xx 20', 20]);
    const [counter] = canisters.canisters;
    assert.ok(counter);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    counter.held = promise;
    socket.write('POST /call/counter/slow HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n');
    while (metrics.requestsOf('call').value === 0) await sleep(1);
    socket.destroy();
    await arrived();
    resolve(undefined);
    await arrived();
    assert.equal(metrics.requestsOf('call').value, 1);
  });

  test('connections are told of as they are', async (t) => {
    const metrics = new KeptMetrics();
    const { origin, server } = await startHttpHost(t, {
      metrics,
      descriptors: { limit: 200, inUse: () => 100 },
    });
    server.serve();
    const read = (name: string): number | undefined => metrics.shown.get(name)?.read();
    assert.equal(read('svc_http_connections'), 0);
    assert.equal(read('svc_http_connections_displaced_total'), 0);
    const max = read('svc_http_connections_max') ?? 0;
    assert.ok(max >= 16 && max < 200, String(max));
    const sockets = Array.from({ length: max + 5 }, () => {
      const socket = connect(Number(new URL(origin).port), '127.0.0.1');
      socket.on('error', () => undefined);
      t.after(() => void socket.destroy());
      return socket;
    });
    while (read('svc_http_connections_displaced_total') !== 5) await sleep(5);
    assert.equal(read('svc_http_connections'), max);
    for (const socket of sockets) socket.destroy();
    while (read('svc_http_connections') !== 0) await sleep(5);
    assert.equal(read('svc_http_connections_displaced_total'), 5);
  });
});

suite('GET /metrics', () => {
  test('is sent in pieces that come to the whole page', async (t) => {
    const metrics = new KeptMetrics();
    metrics.pageBytes = 3_000_001;
    const { origin, log } = await startHttpHost(t, { metrics });
    const answer = await send(origin, 'GET', '/metrics');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], metrics.contentType);
    assert.equal(answer.headers['svc-version'], '9.8.7');
    assert.equal(answer.body.length, 3_000_001);
    assert.deepEqual(log.events, []);
  });

  test('clients that do not read keep 16 pages at most; the next one is told to come again', async (t) => {
    const metrics = new KeptMetrics();
    metrics.pageBytes = 16 * 2 ** 20;
    const { origin, log } = await startHttpHost(t, { metrics });
    const readers = await Promise.all(Array.from({ length: 16 }, () => openPage(t, origin)));
    const refused = await send(origin, 'GET', '/metrics');
    assert.equal(refused.status, 503);
    assert.equal(refused.headers['retry-after'], '1');
    assert.match((refused.json() as { message: string }).message, /^16 clients are reading GET \/metrics/);
    assert.equal(metrics.pages, 16);
    // All other requests go on, and a client that leaves makes room.
    assert.equal((await send(origin, 'POST', '/call/counter/inc')).status, 200);
    readers[0]?.destroy();
    metrics.pageBytes = 10;
    for (let status = 503; status !== 200; await sleep(5)) ({ status } = await send(origin, 'GET', '/metrics'));
    assert.deepEqual(log.errors, []);
  });
});
