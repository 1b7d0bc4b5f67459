import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

const TOKEN = 'sEcret';
const authorized = { authorization: `Bearer ${TOKEN}` };
const MIB = 1024 * 1024;

suite('the order of checks', () => {
  test('a preflight needs neither token nor readiness nor an existing path', async (t) => {
    const { origin, readiness } = await startHttpHost(t, { token: TOKEN });
    readiness.isReady = false;
    for (const target of ['/call/counter/inc', '/actors', '/nowhere?x=1', '/health', '*']) {
      const answer = await send(origin, 'OPTIONS', target);
      assert.equal(answer.status, 204, target);
      assert.equal(answer.text, '');
      assert.equal(answer.headers['access-control-allow-origin'], '*');
      assert.match(String(answer.headers['access-control-allow-methods']), /POST/);
      assert.equal(
        answer.headers['access-control-allow-headers'],
        'authorization, content-type, x-caller, idempotency-key, last-event-id, traceparent, tracestate, baggage',
      );
      assert.match(String(answer.headers['access-control-max-age']), /^\d+$/);
      assert.equal(answer.headers['svc-version'], '9.8.7');
    }
  });

  test('a preflight of a call allows every header that it asks for, one of another path does not', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    const ours =
      'authorization, content-type, x-caller, idempotency-key, last-event-id, traceparent, tracestate, baggage';
    const allowed = async (target: string, asked: string): Promise<unknown> => {
      const headers = { origin: 'http://app.example', 'access-control-request-headers': asked };
      const answer = await send(origin, 'OPTIONS', target, { headers });
      assert.equal(answer.status, 204);
      return answer.headers['access-control-allow-headers'];
    };
    for (const endpoint of ['call', 'call-json', 'query', 'query-json']) {
      const target = `/${endpoint}/counter/inc?lossless=1`;
      assert.equal(await allowed(target, 'sentry-trace,x-b3-traceid'), `${ours}, sentry-trace,x-b3-traceid`);
    }
    for (const target of ['/actors', '/calls/counter/inc', '/watch/counter/get', '/install/call', '/'])
      assert.equal(await allowed(target, 'sentry-trace'), ours, target);
    for (const asked of ['', ',', 'a b', 'a,,b', 'x: 1', 'é', '*/*', 'x'.repeat(1025)])
      assert.equal(await allowed('/call/counter/inc', asked), ours, JSON.stringify(asked));
    assert.equal(await allowed('/call/counter/inc', 'x'.repeat(1024)), `${ours}, ${'x'.repeat(1024)}`);
  });

  test('a page of another origin may read the headers that this server sets, of every answer but a website', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    const exposed =
      'svc-version, svc-message, retry-after, www-authenticate, etag, content-disposition, svc-next, svc-reach, svc-at';
    const answers = [
      await send(origin, 'GET', '/health'),
      await send(origin, 'GET', '/actors'),
      await send(origin, 'GET', '/actors', { headers: authorized }),
      await send(origin, 'GET', '/nowhere', { headers: authorized }),
      await send(origin, 'GET', '/inspect', { headers: authorized }),
      await send(origin, 'POST', '/call/counter/inc', { headers: authorized }),
      await send(origin, 'OPTIONS', '/actors'),
    ];
    for (const { status, headers } of answers)
      assert.equal(headers['access-control-expose-headers'], exposed, String(status));
    const site = await send(origin, 'GET', '/site/counter/x');
    assert.deepEqual([site.status, site.headers['access-control-expose-headers']], [200, undefined]);
  });

  test('OPTIONS on a website path is no preflight', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    const answer = await send(origin, 'OPTIONS', '/site/counter/x');
    assert.equal(answer.status, 200);
    assert.equal(answer.text, 'site /x');
    assert.equal(answer.headers['access-control-allow-methods'], undefined);
  });

  test('without the token everything but the open targets is 401, in plain text and to the letter', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    const guarded = [
      ['GET', '/actors'],
      ['GET', '/health?x=1'],
      ['GET', '/health?'],
      ['GET', '/health/'],
      ['GET', '/%68ealth'],
      ['GET', '/health/%72eady'],
      ['GET', '/health#a'],
      ['HEAD', '/health'],
      ['POST', '/health'],
      ['GET', '/version?x'],
      ['GET', '/metrics'],
      ['GET', '/inspect'],
      ['GET', '/nowhere'],
      ['POST', '/'],
      ['POST', '/call/counter/inc'],
      ['POST', '/query-json/counter/get'],
      ['POST', '/install/x'],
    ] as const;
    for (const [method, target] of guarded) {
      for (const headers of [{}, { authorization: 'Bearer secret' }, { authorization: TOKEN }]) {
        const answer = await send(origin, method, target, { headers });
        assert.equal(answer.status, 401, `${method} ${target}`);
        if (method !== 'HEAD') assert.equal(answer.text, 'missing or wrong bearer token');
        assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
        assert.equal(answer.headers['svc-version'], '9.8.7');
        assert.equal(answer.headers['access-control-allow-origin'], '*');
      }
    }
  });

  test('the open targets need no token', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
    assert.equal((await send(origin, 'GET', '/health/ready')).text, 'ready');
    assert.equal((await send(origin, 'GET', '/version')).status, 200);
    // These are open without the token, but answer 404: the inspector is turned off.
    for (const target of ['/', '/inspector']) assert.equal((await send(origin, 'GET', target)).status, 404, target);
    assert.equal((await send(origin, 'GET', '/site/counter/index.html')).status, 200);
  });

  test('with the token the guarded routes answer, whatever the case of header name and scheme', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    assert.equal((await send(origin, 'GET', '/actors', { headers: authorized })).status, 200);
    assert.equal((await send(origin, 'GET', '/actors', { headers: { AUTHORIZATION: `bearer ${TOKEN}` } })).status, 200);
    assert.equal((await send(origin, 'GET', '/health?x=1', { headers: authorized })).status, 404);
  });

  test('the token comes before the length, the length before readiness, readiness before routing', async (t) => {
    const { origin, readiness } = await startHttpHost(t, { token: TOKEN });
    readiness.isReady = false;
    readiness.note = 'recovering counter (3 of 12)';
    const large = { 'content-length': 65 * MIB };
    const post = (target: string, headers: Record<string, string | number>) =>
      send(origin, 'POST', target, { headers });
    assert.equal((await post('/call/counter/inc', large)).status, 401);
    assert.equal((await post('/call/counter/inc', { ...authorized, ...large })).status, 413);
    const starting = await post('/nowhere', authorized);
    assert.equal(starting.status, 503);
    assert.equal(starting.text, 'starting: recovering counter (3 of 12)');
    assert.equal(starting.headers['content-type'], 'text/plain; charset=utf-8');
    readiness.isReady = true;
    assert.equal((await post('/nowhere', authorized)).status, 404);
  });

  test('while starting, only the health probes answer for themselves', async (t) => {
    const { origin, readiness } = await startHttpHost(t);
    readiness.isReady = false;
    readiness.note = 'reading the manifest';
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
    const ready = await send(origin, 'GET', '/health/ready');
    assert.equal(ready.status, 503);
    assert.equal(ready.text, 'starting: reading the manifest');
    for (const target of ['/version', '/actors', '/health?x=1', '/health/ready/']) {
      const answer = await send(origin, 'GET', target);
      assert.equal(answer.status, 503, target);
      assert.equal(answer.text, 'starting: reading the manifest');
    }
    readiness.isReady = true;
    assert.equal((await send(origin, 'GET', '/health/ready')).text, 'ready');
  });

  test('while starting, a browser is made to ask for a page again, and nobody else is', async (t) => {
    const { origin, readiness } = await startHttpHost(t);
    readiness.isReady = false;
    readiness.note = 'reading the manifest';
    const refreshOf = async (method: string, target: string) => {
      const { status, text, headers } = await send(origin, method, target);
      assert.deepEqual([status, text, headers['retry-after']], [503, 'starting: reading the manifest', '1']);
      return headers['refresh'];
    };
    for (const target of ['/', '/inspector']) assert.equal(await refreshOf('GET', target), '1', target);
    for (const target of ['/actors', '/?x=1', '/inspector/']) assert.equal(await refreshOf('GET', target), undefined);
    assert.equal(await refreshOf('POST', '/'), undefined);
    readiness.note = 'shutting down';
    assert.equal((await send(origin, 'GET', '/')).headers['refresh'], undefined);
  });
});
