import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

const TUNNEL = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n';

suite('CONNECT', () => {
  test('a client that resets its connection behind it does not end the process', async (t) => {
    const { origin } = await startHttpHost(t);
    const { hostname, port } = new URL(origin);
    for (let n = 0; n < 40; n++) {
      const socket = connect(Number(port), hostname);
      await once(socket, 'connect');
      socket.on('error', () => undefined);
      socket.write(TUNNEL);
      await sleep(n % 8);
      socket.resetAndDestroy();
    }
    await sleep(50);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });

  test('behind a request that is still being answered it is not answered in its place', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    canisters.resolve('counter').held = new Promise(() => undefined);
    await using client = new RawClient(origin);
    client.write(`POST /call/counter/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n${TUNNEL}`);
    assert.equal(await client.ended(), '');
  });
});
