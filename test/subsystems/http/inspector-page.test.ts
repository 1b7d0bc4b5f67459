import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
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
