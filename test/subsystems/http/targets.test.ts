import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

suite('request targets are matched exactly', () => {
  test('what differs from a path of the contract is 404 as JSON', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const wrong = [
      ['GET', '/nowhere'],
      ['GET', '/actors/'],
      ['GET', '//actors'],
      ['GET', '/Actors'],
      ['GET', '/%61ctors'],
      ['GET', '/actors#top'],
      ['GET', '/actors?x=1'],
      ['GET', '/actors?'],
      ['GET', '/health?x=1'],
      ['HEAD', '/actors'],
      ['POST', '/actors'],
      ['PUT', '/call/counter/inc'],
      ['GET', '/call/counter/inc'],
      ['PROPFIND', '/actors'],
      ['POST', '/call'],
      ['POST', '/call/counter'],
      ['POST', '/call/counter/'],
      ['POST', '/call//inc'],
      ['POST', '/call/counter/inc/'],
      ['POST', '/call/counter/inc/more'],
      ['POST', '/call/counter/inc?lossless=1'],
      ['POST', '/query/counter/get?'],
      ['POST', '/call-json/counter/inc?lossless'],
      ['POST', '/call-json/counter/inc?lossless=0'],
      ['POST', '/call-json/counter/inc?lossless=1&lossless=1'],
      ['POST', '/call-json/counter/inc?lossless=1&='],
      ['POST', '/call-json/counter/inc?LOSSLESS=1'],
      ['POST', '/call-json/counter/inc?lossless=1&x=2'],
      ['POST', '/install/fresh?arg=0x&arg=0x'],
      ['POST', '/install/fresh?name=x'],
      ['POST', '/install/'],
      ['POST', '/cycles/counter?x'],
    ] as const;
    for (const [method, target] of wrong) {
      const answer = await send(origin, method, target, method === 'GET' || method === 'HEAD' ? {} : { body: '[]' });
      assert.equal(answer.status, 404, `${method} ${target}`);
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
      assert.equal(answer.headers['svc-version'], '9.8.7');
      assert.equal(answer.headers['access-control-allow-origin'], '*');
      if (method !== 'HEAD') assert.equal((answer.json() as { code: number }).code, 404);
    }
    assert.equal(canisters.resolve('counter').count, 0);
    assert.equal(canisters.installed.length, 0);
  });

  test('a wrong method or a missing part is told what there is', async (t) => {
    const { origin } = await startHttpHost(t);
    const messageOf = async (method: string, target: string) =>
      ((await send(origin, method, target)).json() as { message: string }).message;
    assert.equal(
      await messageOf('GET', '/call/counter/inc'),
      'no such path: GET /call/counter/inc; there is POST /call/<ACTOR>/<METHOD>',
    );
    assert.equal(
      await messageOf('POST', '/cal-json/counter/inc'),
      'no such path: POST /cal-json/counter/inc: did you mean /call-json?',
    );
    assert.match(await messageOf('GET', '/Actors'), /did you mean \/actors\?$/);
    assert.match(
      await messageOf('GET', '/x/actors/counter/setings'),
      /; there is GET \/x\/actors\/<ACTOR>\/types, GET /,
    );
    assert.match(await messageOf('GET', '/x/actor/counter/settings'), /: did you mean \/x\/actors\?$/);
    assert.match(await messageOf('GET', '/x'), /^no such path: GET \/x(?:: did you mean \/\S+\?)?$/);
    assert.match(await messageOf('GET', '//actors'), /: GET \/\/actors; there is GET \/actors/);
    assert.match(await messageOf('GET', '//actor'), /did you mean \/actors\?$/);
    assert.match(await messageOf('GET', '/nowhere'), /: GET \/nowhere$/);
    assert.match(await messageOf('GET', '/actors?x=1'), /unknown query parameter "x": this path takes no query/);
    assert.match(await messageOf('POST', '/call-json/counter/inc?x=1'), /this path takes lossless/);
  });

  test('a long target is not repeated whole', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'GET', `/${'x'.repeat(10_000)}`);
    assert.equal(answer.status, 404);
    assert.ok(answer.body.length < 300);
  });

  test('bad percent-encoding is 400', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const method of ['%', '%2', '%zz', '%ff', '%c3%28', '%ed%a0%80']) {
      const answer = await send(origin, 'POST', `/call/counter/${method}`, { body: '[]' });
      assert.equal(answer.status, 400, method);
      assert.match((answer.json() as { message: string }).message, /percent-encoded/);
      assert.equal(answer.headers['svc-version'], '9.8.7');
    }
  });

  test('the absolute form, as a proxy sends it, is the same as its path', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x' });
    const statusOf = async (target: string): Promise<string> => {
      await using client = new RawClient(origin);
      client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
      return (await client.ended()).slice(9, 12);
    };
    assert.equal(await statusOf('http://example.org/health'), '200');
    assert.equal(await statusOf('https://example.org/health'), '200', 'a proxy that ends TLS');
    assert.equal(await statusOf('http://example.org/health?x=1'), '401');
    assert.equal(await statusOf('http://example.org'), '404');
    assert.equal(await statusOf('ftp://example.org/health'), '400');
  });
});
