import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { arrived } from '../../support/arrived.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { type HttpHost, startHttpHost } from './counter-host.ts';

const KIB = 1024;
const ROOM = 256 * KIB;

const head = (length: number): string =>
  `POST /site/counter/held HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`;
const CHUNKED_HEAD = 'POST /site/counter/held HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Starts a server whose websites' bodies may have 256 KiB in all; `/held` is answered at `release`. */
async function startNarrow(t: TestContext): Promise<HttpHost & { readonly release: () => void }> {
  const held = Promise.withResolvers<void>();
  const host = await startHttpHost(t, { token: 'secret', siteBodyBytesMax: ROOM });
  host.gateway.script = async ({ url, body }) => {
    if (url === '/held') await held.promise;
    return { body: Buffer.from(`${body.length} bytes`) };
  };
  return { ...host, release: held.resolve };
}

async function opened(t: TestContext, origin: string, ...texts: readonly (string | Uint8Array)[]): Promise<RawClient> {
  const client = new RawClient(origin);
  t.after(() => client[Symbol.asyncDispose]());
  for (const text of texts) client.write(text);
  await arrived();
  return client;
}

const post = (origin: string, bytes: number): ReturnType<typeof send> =>
  send(origin, 'POST', '/site/counter/x', { body: Buffer.alloc(bytes) });

suite('bodies of website requests in hand', () => {
  test('are bounded together; what does not fit is 503 in plain text, until others are answered', async (t) => {
    const { origin, release, gateway } = await startNarrow(t);
    const waiting = await opened(t, origin, head(200 * KIB), Buffer.alloc(200 * KIB));
    assert.equal(gateway.requests.length, 1);
    for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
      const over = await send(origin, 'POST', '/site/counter/x', { body: Buffer.alloc(100 * KIB), headers });
      assert.equal(over.status, 503);
      assert.equal(over.headers['retry-after'], '1');
      assert.equal(over.headers['content-type'], 'text/plain; charset=utf-8');
      assert.match(
        over.text,
        /the bodies of all website requests and open calls together fill 0\.25 MiB: try again later/,
      );
    }
    assert.equal(gateway.requests.length, 1, 'the actor was not asked');
    assert.equal((await post(origin, 56 * KIB)).status, 200, 'what fits goes on');
    assert.equal((await send(origin, 'GET', '/site/counter/')).status, 200);
    const call = { body: JSON.stringify(['x'.repeat(100 * KIB)]), headers: { authorization: 'Bearer secret' } };
    assert.equal((await send(origin, 'POST', '/call-json/counter/echo', call)).status, 200, 'calls are not counted');
    release();
    await waiting.until(`${200 * KIB} bytes`);
    assert.equal((await post(origin, 256 * KIB)).status, 200);
  });

  test('count as they arrive, not as they are announced, and no more when their client is gone', async (t) => {
    const { origin } = await startNarrow(t);
    await opened(t, origin, head(250 * KIB));
    assert.equal((await post(origin, 250 * KIB)).status, 200);
    const chunk = `${(100 * KIB).toString(16)}\r\n${'x'.repeat(100 * KIB)}\r\n`;
    const partial = [
      await opened(t, origin, head(200 * KIB), Buffer.alloc(100 * KIB)),
      await opened(t, origin, CHUNKED_HEAD, chunk),
    ];
    assert.equal((await post(origin, 100 * KIB)).status, 503);
    for (const client of partial) await client[Symbol.asyncDispose]();
    await arrived();
    assert.equal((await post(origin, 256 * KIB)).status, 200);
  });

  test('of a client that leaves count until its actor has answered, since its message waits', async (t) => {
    const { origin, release } = await startNarrow(t);
    const client = await opened(t, origin, head(200 * KIB), Buffer.alloc(200 * KIB));
    await client[Symbol.asyncDispose]();
    await arrived();
    assert.equal((await post(origin, 100 * KIB)).status, 503);
    release();
    await arrived();
    assert.equal((await post(origin, 256 * KIB)).status, 200);
  });

  test('that are refused give back what had come of them, and the rest is not read', async (t) => {
    const { origin, gateway } = await startNarrow(t);
    for (let n = 0; n < 5; n++) {
      const large = await opened(t, origin, head(8 * KIB * KIB), Buffer.alloc(300 * KIB));
      assert.match(await large.ended(), /^HTTP\/1\.1 503 [^]*\r\nretry-after: 1\r\n/i);
      const tooLarge = await opened(
        t,
        origin,
        CHUNKED_HEAD,
        `${(9 * KIB * KIB).toString(16)}\r\n`,
        Buffer.alloc(300 * KIB),
      );
      assert.match(await tooLarge.ended(), /^HTTP\/1\.1 503 /);
    }
    assert.equal(gateway.requests.length, 0);
    assert.equal((await post(origin, 256 * KIB)).status, 200);
  });
});
