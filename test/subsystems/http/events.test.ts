import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { DebugLine, OutputReader } from '../../../subsystems/canisters/index.ts';
import type { RouteHost } from '../../../subsystems/http/route.ts';
import { eventsHandlers } from '../../../subsystems/http/routes/events.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { arrived, settled } from '../../support/arrived.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { type CounterCanister, type HttpHost, startHttpHost } from './counter-host.ts';

/** Makes a client that follows an actor; resolves when the server has answered. */
async function follow({ origin }: HttpHost, headers = ''): Promise<RawClient> {
  const client = new RawClient(origin);
  client.write(`GET /events/counter HTTP/1.1\r\nHost: x\r\n${headers}\r\n`);
  await client.until('\r\n\r\n');
  return client;
}

/** Returns the numbers of the received lines. */
function seqsOf({ received }: RawClient): number[] {
  return Array.from(received.matchAll(/^id: (\d+)$/gm), ([, seq]) => Number(seq));
}

/** Makes a client that follows and never reads. */
async function stall(host: HttpHost): Promise<RawClient> {
  const client = await follow(host);
  client.pause();
  return client;
}

const counterOf = ({ canisters }: HttpHost): CounterCanister => canisters.resolve('counter');

suite('/events', () => {
  test('sends what nobody has read, and then each line when it is printed', async (t) => {
    const host = await startHttpHost(t);
    counterOf(host).print('before');
    await using client = await follow(host);
    assert.match(client.received, /^HTTP\/1\.1 200 OK\r\n/);
    for (const header of [
      'svc-version: 9.8.7',
      'access-control-allow-origin: *',
      'access-control-expose-headers: svc-version, svc-message, retry-after, www-authenticate, etag, ' +
        'content-disposition, svc-next, svc-reach, svc-at',
      'content-type: text/event-stream; charset=utf-8',
      'cache-control: no-store',
      'x-accel-buffering: no',
    ])
      assert.ok(client.received.toLowerCase().includes(`\r\n${header}\r\n`), header);
    await client.until('data: before\n\n');
    counterOf(host).print('after ü');
    await client.until('\n\nid: 2\nevent: debug\ndata: after Ã¼\n\n');
    assert.equal((await send(host.origin, 'GET', '/logs/counter')).text, '');
    assert.deepEqual(host.log.events, [{ ...host.log.events[0] }], 'only the reading of the log is a job');
  });

  test('no output forges an event', async (t) => {
    const host = await startHttpHost(t);
    await using client = await follow(host);
    counterOf(host).print('a\r\rid: 99\nevent: deleted\r\ndata: x\n\n: \0 end');
    await client.until('end\n\n');
    const [, stream] = client.received.split('\r\n\r\n');
    assert.equal(
      stream,
      'id: 1\nevent: debug\ndata: a\ndata: \ndata: id: 99\ndata: event: deleted\ndata: data: x\ndata: \ndata: : \0 end\n\n',
    );
  });

  test('an actor that is not there is 404, and a stream needs the token', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x' });
    assert.equal((await send(origin, 'GET', '/events/counter')).status, 401);
    const headers = { authorization: 'Bearer x' };
    assert.equal((await send(origin, 'GET', '/events/nobody', { headers })).status, 404);
    assert.equal((await send(origin, 'GET', '/events/counter?x', { headers })).status, 404);
  });

  test('readers share the lines, with /logs too: each line goes to exactly one of them', async (t) => {
    const host = await startHttpHost(t);
    await using one = await follow(host);
    await using two = await follow(host);
    for (let count = 1; count <= 20; count++) {
      counterOf(host).print(`line ${count}`);
      await sleep(1);
    }
    await arrived();
    const [first, second] = [seqsOf(one), seqsOf(two)];
    assert.deepEqual(
      [...first, ...second].toSorted((a, b) => a - b),
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    assert.ok(first.length > 0 && second.length > 0, 'both get some');
    assert.equal((await send(host.origin, 'GET', '/logs/counter')).text, '');
  });

  test('who comes back gets again, once, what was sent down the closed connection after the line it names', async (t) => {
    const host = await startHttpHost(t);
    const client = await follow(host);
    await using other = await follow(host);
    for (let count = 1; count <= 6; count++) {
      counterOf(host).print(`line ${count}`);
      await sleep(1);
    }
    await arrived();
    const [mine, others] = [seqsOf(client), seqsOf(other)];
    assert.equal(mine.length + others.length, 6);
    await client[Symbol.asyncDispose]();
    await using again = await follow(host, `Last-Event-ID: ${mine[0]}\r\n`);
    await again.until(`id: ${mine.at(-1)}\n`);
    await arrived();
    assert.deepEqual(seqsOf(again), mine.slice(1), 'not those of the other reader, which still has its own');
    await using third = await follow(host, `Last-Event-ID: ${mine[0]}\r\n`);
    await arrived();
    assert.deepEqual(seqsOf(third), []);
  });

  test('who comes back before its old connection is known to be closed gets them when that is known', async (t) => {
    const host = await startHttpHost(t);
    const client = await follow(host);
    for (let count = 1; count <= 3; count++) counterOf(host).print(`line ${count}`);
    await client.until('line 3\n\n');
    await using again = await follow(host, 'Last-Event-ID: 1\r\n');
    await arrived();
    assert.deepEqual(seqsOf(again), []);
    await client[Symbol.asyncDispose]();
    await again.until('line 3\n\n');
    assert.deepEqual(seqsOf(again), [2, 3]);
  });

  test('an id that nobody was sent is as good as none', async (t) => {
    const host = await startHttpHost(t);
    counterOf(host).print('hello');
    for (const id of ['999', '-1', 'x', '1e3', '9'.repeat(400)]) {
      await using client = await follow(host, `Last-Event-ID: ${id}\r\n`);
      counterOf(host).print('hello');
      await client.until('data: hello\n\n');
    }
  });

  test('a reader that takes nothing keeps little from the others, and nothing grows for it', async (t) => {
    const host = await startHttpHost(t);
    await using slow = await stall(host);
    await using quick = await follow(host);
    const line = 'x'.repeat(16 * 1024);
    const total = 4000;
    for (let count = 0; count < total; count++) {
      counterOf(host).print(line);
      if (count % 20 === 0) await sleep(1);
    }
    await settled(() => quick.received.length);
    slow.resume();
    await settled(() => slow.received.length);
    const [kept, taken] = [seqsOf(slow).length, seqsOf(quick).length];
    // The slow client gets the lines that the system's buffers have for it (some megabytes), and a batch.
    assert.ok(kept > 0 && kept < total / 4, `${kept} lines waited for the slow one`);
    const dropped = Array.from((slow.received + quick.received).matchAll(/\((\d+) older lines? w/g), ([, n]) =>
      Number(n),
    );
    const lost = dropped.reduce((sum, count) => sum + count, 0);
    assert.equal(kept + taken - dropped.length + lost, total, 'every line is there, or counted');
  });

  test('readers that leave too much untaken together are cut, those first that have waited longest', async (t) => {
    const host = await startHttpHost(t, { untakenBytesMax: 256 * 1024 });
    const slow: RawClient[] = [];
    for (let count = 0; count < 4; count++) slow.push(await stall(host));
    await using quick = await follow(host);
    const line = 'x'.repeat(64 * 1024);
    for (let count = 0; count < 1200; count++) {
      counterOf(host).print(line);
      if (count % 5 === 0) await sleep(1);
    }
    await settled(() => quick.received.length);
    for (const client of slow) client.resume();
    await arrived();
    const cut = slow.filter(({ isClosed }) => isClosed).length;
    assert.ok(cut > 0 && cut < 4, `${cut} of 4 were cut`);
    assert.equal(quick.isClosed, false);
    for (const client of slow) await client[Symbol.asyncDispose]();
  });

  test('a stop ends streams at once, also one whose client takes nothing', { timeout: 60_000 }, async (t) => {
    const host = await startHttpHost(t);
    await using client = await follow(host);
    await using _slow = await stall(host);
    for (let count = 0; count < 2000; count++) counterOf(host).print('x'.repeat(16 * 1024));
    await arrived();
    const startedMs = performance.now();
    await host.server.close();
    assert.ok(performance.now() - startedMs < 30_000, 'not the five minutes of a client that takes nothing');
    await client.ended();
  });

  test('the deletion of the actor ends the stream with an event', async (t) => {
    const host = await startHttpHost(t);
    await using client = await follow(host);
    counterOf(host).print('last words');
    const deleted = await send(host.origin, 'DELETE', '/actors/counter?force=true');
    assert.equal(deleted.status, 200);
    const received = await client.ended();
    assert.ok(received.endsWith('data: last words\n\nevent: deleted\ndata: counter\n\n'), received);
  });

  test('a stream that is silent is not idle: it gets a comment every 15 s', async (t) => {
    const clock = new FakeClock();
    const host = await startHttpHost(t, { clock, idleMaxMs: 1000 });
    await using client = await follow(host);
    await using idle = new RawClient(host.origin);
    idle.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.until('ok');
    for (let second = 0; second < 46; second++) {
      clock.advance(1000);
      await sleep(1);
    }
    await idle.ended();
    await arrived();
    const comments = client.received.split(': keep-alive\n\n').length - 1;
    assert.ok(comments === 3 || comments === 4, `${comments} comments in 46 s`);
    counterOf(host).print('still there');
    await client.until('data: still there\n\n');
  });

  test('streams leave connections for others', { timeout: 60_000 }, async (t) => {
    const descriptors = { limit: 1024, inUse: () => 1024 };
    const host = await startHttpHost(t, { descriptors });
    // 16 connections at least, and 12 of them for streams.
    await using open = new AsyncDisposableStack();
    for (let count = 0; count < 12; count++) open.use(await follow(host));
    const refused = await send(host.origin, 'GET', '/events/counter');
    assert.equal(refused.status, 503);
    assert.match(refused.text, /12 event streams are open/);
    assert.equal((await send(host.origin, 'GET', '/health')).text, 'ok');
    await open.disposeAsync();
    await arrived();
    await using _again = await follow(host);
  });

  test('a stream behind an answer that is not there yet begins when that is sent', async (t) => {
    const host = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    counterOf(host).held = held.promise;
    await using client = new RawClient(host.origin);
    client.write('POST /call/counter/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n');
    client.write('GET /events/counter HTTP/1.1\r\nHost: x\r\n\r\n');
    await arrived();
    counterOf(host).print('meanwhile');
    held.resolve();
    await client.until('data: meanwhile\n\n');
    assert.match(client.received, /\["done"\]HTTP\/1\.1 200 OK/);
  });
});

test('a stream that its first lines get cut ends what follows the output', () => {
  let ends = 0;
  const following = { resume: () => undefined, end: () => void ends++ };
  const host = {
    canisters: {
      resolve: () => ({ name: 'talker' }),
      followOutput: (_canister: unknown, reader: OutputReader) => {
        reader.write([{ seq: 1, text: 'first' } as DebugLine]);
        return following;
      },
    },
    streams: {
      open: (_request: unknown, _response: unknown, events: { closed(): void }) => {
        const stream = { isOpen: true, hasRoom: true, send: () => (stream.cut(), false), cut: () => undefined as void };
        stream.cut = () => {
          stream.isOpen = false;
          events.closed();
        };
        return stream;
      },
    },
  };
  const handle = eventsHandlers(host as unknown as RouteHost)['GET /events/:actor'];
  const request = { headers: {} } as unknown as Parameters<typeof handle>[0];
  const parameters = { actor: 'talker' } as unknown as Parameters<typeof handle>[2];
  void handle(request, {} as Parameters<typeof handle>[1], parameters, {} as Parameters<typeof handle>[3]);
  assert.equal(ends, 1);
});
