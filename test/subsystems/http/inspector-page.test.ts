import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { BuiltInspector } from '../../../subsystems/inspector/built-inspector.ts';
import { send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

suite('GET /inspector and GET /', () => {
  test('are the page, with its policy, for everybody', async (t) => {
    const inspector = new BuiltInspector();
    const { origin } = await startHttpHost(t, { token: 'secret', inspector });
    for (const target of ['/inspector', '/']) {
      const answer = await send(origin, 'GET', target);
      assert.equal(answer.status, 200, target);
      assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
      assert.ok(answer.body.equals(Buffer.from(inspector.page().html)));
      assert.match(String(answer.headers['content-security-policy']), /^default-src 'none'; script-src 'sha256-/);
      assert.equal(answer.headers['x-content-type-options'], 'nosniff');
      assert.equal(answer.headers['referrer-policy'], 'no-referrer');
      assert.equal(answer.headers['cross-origin-opener-policy'], 'same-origin');
      assert.equal(answer.headers['cache-control'], 'no-cache');
      assert.equal(answer.headers['svc-version'], '9.8.7');
    }
  });

  test('a client that has the page is told so', async (t) => {
    const { origin } = await startHttpHost(t, { inspector: new BuiltInspector() });
    const { etag } = (await send(origin, 'GET', '/')).headers;
    for (const [tags, status] of [
      [`${etag}`, 304],
      [`"x", W/${etag}`, 304],
      ['*', 304],
      ['"x"', 200],
    ] as const) {
      const answer = await send(origin, 'GET', '/', { headers: { 'if-none-match': tags } });
      assert.equal(answer.status, status, tags);
      assert.equal(answer.headers.etag, etag);
    }
  });

  test('are compressed for clients that take gzip, and as they are for all others', async (t) => {
    const inspector = new BuiltInspector();
    const { html, etag } = inspector.page();
    const { origin } = await startHttpHost(t, { inspector });
    const gzipTag = `${etag.slice(0, -1)}-gzip"`;
    for (const [accepted, isGzip] of [
      ['gzip, deflate, br, zstd', true],
      ['GZIP', true],
      ['x-gzip', true],
      ['*', true],
      ['br;q=1, gzip;q=0.1', true],
      ['identity;q=0.5, gzip;q=0.5', true],
      [undefined, false],
      ['', false],
      ['br', false],
      ['identity', false],
      ['gzip;q=0', false],
      ['gzip; q=0, *', false],
      ['*;q=0', false],
      ['identity, gzip;q=0.9', false],
      ['gzip;q=none', false],
    ] as const) {
      const headers = accepted === undefined ? {} : { 'accept-encoding': accepted };
      const { status, headers: sent, body } = await send(origin, 'GET', '/inspector', { headers });
      const message = `accept-encoding: ${accepted}`;
      assert.equal(status, 200, message);
      assert.equal(sent['content-encoding'], isGzip ? 'gzip' : undefined, message);
      assert.equal(sent.vary, 'accept-encoding', 'a cache keeps both');
      assert.equal(sent.etag, isGzip ? gzipTag : etag, 'other bytes have another strong tag');
      assert.equal(sent['content-length'], String(body.length));
      assert.ok((isGzip ? gunzipSync(body) : body).equals(html), message);
      if (isGzip) assert.ok(body.length <= 60 * 1024, `${body.length} bytes`);
    }
  });

  test('a client that has the page in one form is not told that it has the other', async (t) => {
    const { origin } = await startHttpHost(t, { inspector: new BuiltInspector() });
    const take = (encoding: string, tag?: string) =>
      send(origin, 'GET', '/', {
        headers: { 'accept-encoding': encoding, ...(tag !== undefined && { 'if-none-match': tag }) },
      });
    const plain = String((await take('identity')).headers.etag);
    const packed = String((await take('gzip')).headers.etag);
    for (const [encoding, tag, status] of [
      ['gzip', packed, 304],
      ['gzip', `W/${packed}`, 304],
      ['gzip', plain, 200],
      ['identity', packed, 200],
      ['identity', `${packed}, ${plain}`, 304],
    ] as const) {
      const answer = await take(encoding, tag);
      assert.equal(answer.status, status, `${encoding} ${tag}`);
      assert.equal(answer.headers.vary, 'accept-encoding');
      assert.equal(answer.headers.etag, encoding === 'gzip' ? packed : plain);
    }
  });

  test('take no query and no other method', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'secret', inspector: new BuiltInspector() });
    const headers = { authorization: 'Bearer secret' };
    assert.equal((await send(origin, 'GET', '/inspector?x=1')).status, 401);
    assert.equal((await send(origin, 'GET', '/inspector?x=1', { headers })).status, 404);
    assert.equal((await send(origin, 'POST', '/inspector', { headers })).status, 404);
    assert.equal((await send(origin, 'HEAD', '/inspector')).status, 401);
  });

  test('with --no-inspector they say so', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const target of ['/inspector', '/']) {
      const answer = await send(origin, 'GET', target);
      assert.equal(answer.status, 404);
      assert.deepEqual(answer.json(), { code: 404, message: 'the inspector page is turned off (--no-inspector)' });
    }
  });
});
