import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RawClient, send } from '../../../support/http-client.ts';
import { addCounter, startTwo } from './servers.ts';

suite("websites of other servers' actors", () => {
  test('answer at their paths and at their host names, with any method', async (t) => {
    const { service, a, b } = await startTwo(t, 2, { token: 'root', siteHosts: true });
    addCounter(b, service, 'far');
    b.gateway.script = ({ url, method, body }) => ({
      headers: ['x-own', 'yes'],
      body: Buffer.from(`${method} ${url} ${Buffer.from(body).toString()}`),
    });
    const byPath = await send(a.origin, 'GET', '/site/far/a%2Fb?c=1');
    assert.deepEqual([byPath.status, byPath.text, byPath.headers['x-own']], [200, 'GET /a%2Fb?c=1 ', 'yes']);
    assert.equal((await send(a.origin, 'PATCH', '/site/far/', { body: 'new' })).text, 'PATCH / new');
    const slashed = await send(a.origin, 'GET', '/site/far');
    assert.deepEqual([slashed.status, slashed.headers.location], [308, '/site/far/']);
    const head = await send(a.origin, 'HEAD', '/site/far/x');
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', '8']);
    const byHost = await send(a.origin, 'GET', '/x', { headers: { host: 'far.localhost:7000' } });
    assert.equal(byHost.text, 'GET /x ');
    assert.equal(b.gateway.requests.length, 4);
    assert.equal((await send(a.origin, 'GET', '/x', { headers: { host: 'none.localhost' } })).status, 404);
    assert.equal((await send(a.origin, 'GET', '/site/none/')).headers['content-type'], 'text/plain; charset=utf-8');
  });

  test('may answer 421 themselves, once, and note nothing in the name of their server', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(b, service, 'far');
    for (const note of ['misdirected', 'leaving']) {
      b.gateway.requests.splice(0);
      b.gateway.script = () => ({ status: 421, headers: ['Svc-Link-Note', note], body: Buffer.from('own') });
      const { status, text, headers } = await send(a.origin, 'POST', '/site/far/', { body: 'x' });
      assert.deepEqual([status, text, headers['svc-link-note']], [421, 'own', undefined]);
      assert.equal(b.gateway.requests.length, 1);
    }
    assert.equal((await send(a.origin, 'POST', '/call/far/inc')).status, 200);
  });

  test('stream their bodies, and are cut when the body fails', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(b, service, 'far');
    async function* pieces(isWhole: boolean): AsyncGenerator<Uint8Array> {
      for (let piece = 0; piece < 50; piece++) {
        yield Buffer.alloc(50_000, piece);
        if (piece % 10 === 0) await sleep(1);
      }
      if (!isWhole) throw new Error('the actor traps');
    }
    b.gateway.script = ({ url }) => ({ body: Buffer.from('begin'), rest: pieces(url === '/whole') });
    const whole = await send(a.origin, 'GET', '/site/far/whole');
    assert.equal(whole.body.length, 5 + 50 * 50_000);
    await assert.rejects(send(a.origin, 'GET', '/site/far/part'), /aborted|ECONNRESET/);
  });

  test('a client that leaves ends what the owner sends', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(b, service, 'far');
    let isEnded = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          yield Buffer.alloc(50_000);
          await sleep(1);
        }
      } finally {
        isEnded = true;
      }
    }
    b.gateway.script = () => ({ body: new Uint8Array(0), rest: endless() });
    {
      await using client = new RawClient(a.origin);
      client.write('GET /site/far/ HTTP/1.1\r\nHost: x\r\n\r\n');
      await sleep(50);
    }
    while (!isEnded) await sleep(5);
    assert.ok(isEnded);
  });
});
