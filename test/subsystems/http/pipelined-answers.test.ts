import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { arrived } from '../../support/arrived.ts';
import { RawClient } from '../../support/http-client.ts';
import { type HttpHost, startHttpHost } from './counter-host.ts';

const KIB = 1024;
const TOKEN = 'secret';

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`;

/** Starts a server that keeps 1 MiB of untaken answers; the site does not answer `/held` before `release`. */
async function startPipelined(t: TestContext): Promise<HttpHost & { readonly release: () => void }> {
  const held = Promise.withResolvers<void>();
  const host = await startHttpHost(t, { token: TOKEN, untakenBytesMax: KIB * KIB });
  const { gateway, canisters } = host;
  async function* streamed(pieces: number): AsyncGenerator<Uint8Array> {
    for (let left = pieces; left > 0; left--) yield Buffer.alloc(20 * KIB);
  }
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('piece');
    throw new ServerError('badWebsite', 'website-failed', 'no more');
  }
  canisters.resolve('counter').held = held.promise;
  gateway.script = async ({ url }) => {
    if (url === '/held') await held.promise;
    if (url === '/joined') return { body: Buffer.alloc(16 * KIB) };
    if (url === '/headers') return { status: 304, headers: ['x', 'x'.repeat(16 * KIB)] };
    if (url === '/stream') return { rest: streamed(2) };
    return url === '/broken' ? { rest: broken() } : { body: Buffer.from('ok') };
  };
  return { ...host, release: held.resolve };
}

/**
 * Opens connections that send this text, one after the other, until the first one is cut; returns for each whether it
 * is open then. The number of requests that are taken up at once depends on the machine (request-flow.ts).
 */
async function openUntilCut(t: TestContext, { origin }: HttpHost, text: string): Promise<boolean[]> {
  const clients: RawClient[] = [];
  while (clients.length < 60 && clients[0]?.isClosed !== true) {
    const client = new RawClient(origin);
    t.after(() => client[Symbol.asyncDispose]());
    clients.push(client);
    client.write(text);
    await arrived();
  }
  return clients.map(({ isClosed }) => !isClosed);
}

/** Asserts that the connections that have waited longest are cut, and that the newest waits. */
function assertOldestCut(open: readonly boolean[]): void {
  const cut = open.indexOf(true);
  assert.ok(cut > 0, `of ${open.length} connections so many were cut: ${cut}`);
  assert.ok(!open.slice(cut).includes(false));
}

suite('answers behind one that is not given yet', () => {
  for (const [what, target, count] of [
    ['short ones', '/site/counter/joined', 20],
    ['those that are headers alone', '/site/counter/headers', 20],
    ['streams that are less than makes them wait', '/site/counter/stream', 10],
  ] as const) {
    test(`${what} are bounded together: the connections that have waited longest are cut`, async (t) => {
      const host = await startPipelined(t);
      const text = get('/site/counter/held') + get(target).repeat(count);
      assertOldestCut(await openUntilCut(t, host, text));
    });
  }

  test('answers of open built-in routes, and refusals, count too', async (t) => {
    const host = await startPipelined(t);
    const text = get('/site/counter/held') + (get('/health') + get('/actors')).repeat(16);
    assertOldestCut(await openUntilCut(t, host, text));
  });

  test('a client that has shown the token is not cut for strangers, nor are those below the bound', async (t) => {
    const host = await startPipelined(t);
    const { origin, release } = host;
    const call = (method: string, body: string): string =>
      `POST /call/counter/${method} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    await using known = new RawClient(origin);
    const echoed = JSON.stringify(['x'.repeat(200 * KIB)]);
    known.write(call('slow', '[]') + call('echo', echoed).repeat(5));
    await arrived();
    const text = get('/site/counter/held') + get('/site/counter/joined').repeat(20);
    assertOldestCut(await openUntilCut(t, host, text));
    assert.equal(known.isClosed, false);
    release();
    known.write(call('inc', '[]'));
    await known.until('[1]');
    assert.equal(known.received.split(echoed).length, 6);
  });

  test('one that breaks off takes its connection with it, though it has not begun to be sent', async (t) => {
    const { origin } = await startPipelined(t);
    await using client = new RawClient(origin);
    client.write(get('/site/counter/held') + get('/site/counter/broken'));
    assert.equal(await client.ended(5000), '');
  });
});
