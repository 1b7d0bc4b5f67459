import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

const GUARD = { browserGuard: { names: ['127.0.0.1', 'actors.test'] } };

/** Returns the status and the body of `GET /actors`. */
async function ask(origin: string, headers: Record<string, string>, target = '/actors'): Promise<[number, string]> {
  await using client = new RawClient(origin);
  const lines = Object.entries({ Host: 'localhost:7000', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  client.write(`GET ${target} HTTP/1.1\r\n${lines.join('')}Connection: close\r\n\r\n`);
  const answer = await client.ended();
  return [Number(answer.slice(9, 12)), answer.slice(answer.indexOf('\r\n\r\n') + 4)];
}
const statusFor = async (origin: string, headers: Record<string, string>, target?: string): Promise<number> =>
  (await ask(origin, headers, target))[0];

suite('--browser-guard', () => {
  test('pages of other origins are refused, also for reading; the answer says why', async (t) => {
    const { origin, canisters } = await startHttpHost(t, GUARD);
    const foreign = [
      { Origin: 'http://evil.example' },
      { Origin: 'null' },
      { Origin: 'http://localhost:7001' },
      { Origin: 'http://localhost' },
      { Origin: 'http://other.localhost:7000' },
      { Origin: 'http://127.0.0.1:7000' },
      { Origin: 'chrome-extension://localhost:7000' },
      { Origin: '' },
      { 'Sec-Fetch-Site': 'same-site' },
      { 'Sec-Fetch-Site': 'same-site', Origin: 'http://localhost:7000' },
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'cross-site', Origin: 'http://localhost:7000' },
    ];
    for (const headers of foreign) {
      const [status, text] = await ask(origin, headers);
      assert.equal(status, 403, JSON.stringify(headers));
      assert.match(text, /may not use this server \(--browser-guard\)$/);
    }
    const refused = await send(origin, 'POST', '/call-json/counter/inc', {
      headers: { origin: 'http://evil.example' },
      body: '[]',
    });
    assert.equal(refused.status, 403);
    assert.equal(refused.headers['content-type'], 'text/plain; charset=utf-8');
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('pages of the same origin pass, whatever name of this server they have; so does what is no browser', async (t) => {
    const { origin } = await startHttpHost(t, GUARD);
    const own = [
      {},
      { Origin: 'http://localhost:7000' },
      { Origin: 'HTTP://LocalHost:7000', 'Sec-Fetch-Site': 'same-origin' },
      { Origin: 'https://actors.test', Host: 'actors.test' },
      { Origin: 'http://website.localhost:7000', Host: 'website.localhost:7000', 'Sec-Fetch-Site': 'same-origin' },
      { Origin: 'http://[::1]:7000', Host: '[::1]:7000' },
      { 'Sec-Fetch-Site': 'none' },
      { 'Sec-Fetch-Site': 'same-origin' },
    ];
    for (const headers of own) assert.equal(await statusFor(origin, headers), 200, JSON.stringify(headers));
    await using old = new RawClient(origin);
    old.write('GET /actors HTTP/1.0\r\n\r\n');
    assert.match(await old.ended(), /^HTTP\/1\.1 200 /);
  });

  test('names that are not this server’s are refused: somebody has made them mean this machine', async (t) => {
    const { origin } = await startHttpHost(t, GUARD);
    const foreign = [
      'evil.example',
      'evil.example:7000',
      'localhost.evil.example',
      'notlocalhost',
      '10.0.0.1',
      '[::2]:1',
      '128.0.0.1',
    ];
    for (const Host of ['', ...foreign]) {
      const [status, text] = await ask(origin, { Host, Origin: `http://${Host}` });
      assert.equal(status, 403, Host);
      assert.match(text, /^the host ".*" is not this server's/);
    }
    const ours = [
      '127.0.0.1',
      '127.9.8.7:80',
      'LOCALHOST',
      'localhost.',
      'a.b.localhost',
      '[::1]',
      'actors.test:1',
      'Actors.Test',
    ];
    for (const Host of ours) assert.equal(await statusFor(origin, { Host }), 200, Host);
    // The host of the absolute form replaces the header.
    assert.equal(await statusFor(origin, { Host: 'evil.example' }, 'http://localhost/actors'), 200);
    assert.equal(await statusFor(origin, { Host: 'localhost' }, 'http://evil.example/actors'), 403);
  });

  test('a server that listens everywhere goes by the address that the client has reached', async (t) => {
    const { origin } = await startHttpHost(t, { host: '0.0.0.0', browserGuard: { names: ['0.0.0.0'] } });
    const reached = origin.replace('0.0.0.0', '127.0.0.1');
    assert.equal(await statusFor(reached, { Host: '127.0.0.1:7000' }), 200);
    assert.equal(await statusFor(reached, { Host: '192.0.2.7:7000' }), 403);
    assert.equal(await statusFor(reached, { Host: 'evil.example' }), 403);
  });

  test('what is open stays open, and preflights are answered', async (t) => {
    const { origin } = await startHttpHost(t, GUARD);
    const headers = { Host: 'evil.example', Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' };
    for (const target of ['/health', '/version', '/site/counter/x']) {
      assert.equal(await statusFor(origin, headers, target), 200, target);
    }
    assert.equal(
      (await send(origin, 'OPTIONS', '/actors', { headers: { origin: 'http://evil.example' } })).status,
      204,
    );
    assert.equal(await statusFor(origin, headers, '/health?x=1'), 403);
  });

  test('comes after the token, and whoever sends the right one passes', async (t) => {
    const { origin } = await startHttpHost(t, { ...GUARD, token: 'secret' });
    const headers = { Host: 'evil.example', Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' };
    assert.equal(await statusFor(origin, headers), 401);
    assert.equal(await statusFor(origin, { ...headers, Authorization: 'Bearer wrong' }), 401);
    assert.equal(await statusFor(origin, { ...headers, Authorization: 'Bearer secret' }), 200);
  });

  test('comes before the length and readiness', async (t) => {
    const { origin, readiness } = await startHttpHost(t, GUARD);
    readiness.isReady = false;
    const headers = { origin: 'http://evil.example', 'content-length': 65 * 1024 * 1024 };
    assert.equal((await send(origin, 'POST', '/call/counter/inc', { headers })).status, 403);
  });

  test('without it everybody who reaches the server may use it, as CORS says', async (t) => {
    const { origin } = await startHttpHost(t);
    assert.equal(await statusFor(origin, { Host: 'evil.example', Origin: 'http://evil.example' }), 200);
  });
});
