import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { attempts } from '../../support/attempts.ts';
import { arrived, settled } from '../../support/arrived.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { startHttpHost } from './counter-host.ts';

const get = (target: string, ...lines: readonly string[]): string =>
  `GET ${target} HTTP/1.1\r\n${['Host: x', ...lines].join('\r\n')}\r\n\r\n`;
const post = (target: string, body: string, ...lines: readonly string[]): string =>
  `POST ${target} HTTP/1.1\r\nHost: x\r\n${[...lines, `Content-Length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`;
const chunked = (target: string, pieces: readonly string[]): string =>
  `POST ${target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n` +
  [...pieces, ''].map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('');

/** Returns status and body of each answer, in order. */
function answersIn(received: string): string[] {
  const answers: string[] = [];
  for (let at = 0; ;) {
    const end = received.indexOf('\r\n\r\n', at);
    if (end < 0) return answers;
    const head = received.slice(at, end);
    const [, status = ''] = /^HTTP\/1\.1 (\d+)/.exec(head) ?? [];
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (received.length < end + 4 + length) return answers;
    answers.push(`${status} ${received.slice(end + 4, end + 4 + length)}`);
    at = end + 4 + length;
  }
}

suite('requests that are sent ahead', () => {
  test('are answered all and in order, whatever they are and in whatever pieces they come', async (t) => {
    const { origin, log } = await startHttpHost(t, { token: 'x' });
    for (const seed of new ProofSeeds(12)) {
      const random = seeded(seed);
      const expected: string[] = [];
      let text = '';
      for (let left = 1 + random.below(400); left > 0; left--) {
        const body = JSON.stringify(['b'.repeat(random.below(random.below(10) === 0 ? 5000 : 30))]);
        const pieces = Array.from({ length: 1 + random.below(9) }, (_, index) =>
          `${index}`.repeat(1 + random.below(60)),
        );
        const [request, answer] = random.pick([
          [get('/health'), '200 ok'],
          [get('/actors'), '401 missing or wrong bearer token'],
          [
            get('/health', `A: ${'a'.repeat(random.below(2000))}`, ...Array<string>(random.below(80)).fill('B: b')),
            '200 ok',
          ],
          [post('/call/counter/echo', body, 'Authorization: Bearer x'), `200 ${body}`],
          [post('/call/counter/echo', body), '401 missing or wrong bearer token'],
          [
            chunked('/call/counter/echo', pieces).replace('Host: x', 'Host: x\r\nAuthorization: Bearer x'),
            `200 ${pieces.join('')}`,
          ],
        ] as const);
        text += request;
        expected.push(answer);
      }
      await using client = new RawClient(origin);
      for (let at = 0; at < text.length;) {
        const end = at + 1 + random.below(random.pick([3, 300, 30_000]));
        client.write(text.slice(at, end));
        if (random.below(3) === 0) await sleep(random.below(3));
        at = end;
      }
      client.write(get('/health/ready', 'Connection: close'));
      assert.deepEqual(answersIn(await client.ended(60_000)), [...expected, '200 ready'], `seed ${seed}`);
    }
    assert.deepEqual(log.errors, []);
  });

  test('of one connection, so many are worked on at a time, and reading goes on when they are answered', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { token: 'x', requestTimeoutMs: 1000 });
    const counter = canisters.resolve('counter');
    const held = Promise.withResolvers<void>();
    counter.held = held.promise;
    const slow = post('/call/counter/slow', '[]', 'Authorization: Bearer x');
    await using client = new RawClient(origin);
    client.write(slow.repeat(500));
    // The wait is longer than a request may take to arrive: the client does not keep the requests back.
    while (counter.messagesByName < 16) await sleep(1);
    await sleep(1500);
    const begun = counter.messagesByName;
    assert.ok(begun >= 16 && begun <= 40, `${begun} are being worked on`);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
    held.resolve();
    client.write(get('/health', 'Connection: close'));
    const answers = answersIn(await client.ended(30_000));
    assert.deepEqual(answers, [...Array<string>(500).fill('200 ["done"]'), '200 ok']);
    assert.equal(counter.messagesByName, 500);
  });

  test('connections that send nothing are ended one after the other, as they were opened', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x', requestTimeoutMs: 1500 });
    const { hostname, port } = new URL(origin);
    const ends: number[] = [];
    const all: Promise<void>[] = [];
    for (let n = 0; n < 100; n++) {
      const socket = connect(Number(port), hostname).resume();
      socket.on('error', () => undefined);
      all.push(
        new Promise((resolve) => {
          socket.on('close', () => {
            ends.push(performance.now());
            resolve();
          });
        }),
      );
      await sleep(8);
    }
    await Promise.all(all);
    // They were opened over 0.8 s. A look a second finds nearly all of them late at once.
    const ended = ends.toSorted((one, other) => one - other);
    const mostAtOnce = Math.max(...ended.map((from) => ended.filter((at) => at >= from && at < from + 90).length));
    assert.ok(mostAtOnce <= 45, `${mostAtOnce} of 100 were ended within 90 ms`);
  });

  test('connections that are idle together are closed some at a time, but for those that ask again', async (t) => {
    const clock = new FakeClock();
    const { origin } = await startHttpHost(t, { clock, idleMaxMs: 1000 });
    const { hostname, port } = new URL(origin);
    let closed = 0;
    const sockets = Array.from({ length: 600 }, () => connect(Number(port), hostname));
    const ask = (asking: readonly Socket[]): Promise<unknown> =>
      Promise.all(asking.map((socket) => (socket.write(get('/health')), once(socket, 'data'))));
    for (const socket of sockets) socket.on('close', () => closed++).on('error', () => undefined);
    t.after(() => sockets.forEach((socket) => socket.destroy()));
    const turn = async (ms: number, closedThen: number): Promise<void> => {
      clock.advance(ms);
      await settled(() => closed);
      assert.equal(closed, closedThen);
    };
    await ask(sockets);
    // The first look finds that they have done something, the second one that they have done nothing since.
    await turn(1000, 0);
    await turn(1000, 256);
    // The last ones are closed first.
    await ask(sockets.slice(0, 10));
    await turn(20, 512);
    await turn(20, 590);
    await turn(900, 590);
  });

  test('what was sent ahead of nonsense is answered, as far as it came in before', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write(`${get('/health').repeat(300)}nonsense\r\n\r\n`);
    const answers = answersIn(await client.ended());
    assert.ok(answers.length >= 250 && answers.every((answer) => /^(?:200 ok|400 malformed)/.test(answer)));
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });

  test('a stop answers what is being worked on, and ends the rest', async (t) => {
    const clock = new FakeClock();
    const { origin, server, canisters } = await startHttpHost(t, { clock });
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using client = new RawClient(origin);
    client.write(post('/call/counter/slow', '[]').repeat(200));
    while (canisters.keys.length === 0) await sleep(1);
    // No more requests are taken up, but one may have been read in part: parsing stops by bytes and time.
    await settled(() => canisters.keys.length);
    const begun = canisters.keys.length;
    const closed = server.close();
    clock.advance(1200); // This is longer than a request may still take to arrive then.
    held.resolve();
    const answers = answersIn(await client.ended());
    await closed;
    // A request whose header was whole is executed; the next one that is read is refused, which ends the connection.
    const worked = canisters.keys.length;
    assert.ok(begun >= 1 && worked < 200 && worked - begun <= 1, `${begun} begun, ${worked} worked on`);
    assert.deepEqual(answers.slice(0, worked), Array<string>(worked).fill('200 ["done"]'));
    const refused = answers.slice(worked);
    assert.deepEqual(refused, refused.length === 0 ? [] : ['503 shutting down']);
  });

  test('a client that takes no answer is cut, and one that takes them slowly is not', async (t) => {
    const { origin } = await startHttpHost(t, { idleMaxMs: 300, stallMaxMs: 900 });
    const { hostname, port } = new URL(origin);
    const flood = get('/health').repeat(1000);
    // A thread that was held up for longer than those times cuts the slow connection, too.
    await attempts(10, async () => {
      const deaf = connect({ host: hostname, port: Number(port) }).pause();
      const slow = connect({ host: hostname, port: Number(port) }).pause();
      t.after(() => [deaf, slow].forEach((socket) => socket.destroy()));
      const closed = new Promise((resolve) => deaf.once('close', resolve));
      for (const socket of [deaf, slow]) {
        socket.on('error', () => undefined);
        const pour = (): void => {
          while (!socket.destroyed && socket.write(flood));
        };
        socket.on('drain', pour);
        pour();
      }
      let taken = 0;
      const taking = setInterval(() => (taken += (slow.read(65_536) as Buffer | null)?.length ?? 0), 20);
      try {
        await closed;
        assert.equal(slow.destroyed, false);
        assert.ok(taken > 0);
      } finally {
        clearInterval(taking);
        slow.destroy();
      }
    });
  });
});

suite('more connections than descriptors allow', () => {
  /** Room for 16 connections. */
  const descriptors = { limit: 100, inUse: () => 36 };

  test('the one that was silent longest goes, and those with a token stay', async (t) => {
    const clock = new FakeClock();
    const { origin, log } = await startHttpHost(t, { token: 'x', descriptors, clock });
    const clients: RawClient[] = [];
    t.after(() => Promise.all(clients.map((client) => client[Symbol.asyncDispose]())));
    const open = async (text: string, until: string): Promise<RawClient> => {
      const client = new RawClient(origin);
      clients.push(client);
      client.write(text);
      if (until !== '') await client.until(until);
      return client;
    };
    const known = await open(get('/actors', 'Authorization: Bearer x'), 'counter');
    const silent = await open('', '');
    await arrived();
    const probe = await open(get('/health'), 'ok');
    for (let count = 3; count < 16; count++) await open(get('/health'), 'ok');
    assert.ok(!silent.isClosed && !known.isClosed);
    await open(get('/health'), 'ok');
    await silent.ended();
    // Strangers' connections displace each other.
    for (let count = 0; count < 100; count++) await open(get('/health'), 'ok');
    await probe.ended();
    known.write(get('/actors', 'Authorization: Bearer x'));
    await known.until('counter');
    assert.equal(clients.filter((client) => !client.isClosed).length, 16);
    clock.advance(5000);
    assert.match(
      log.warnings.join('\n'),
      /were closed to make room for others: at most 16 at once: of the 100 descriptors/,
    );
  });

  test('a connection that waits for its answer does not go: the new one is refused', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { descriptors });
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    const waiting = Array.from({ length: 16 }, () => new RawClient(origin));
    t.after(() => Promise.all(waiting.map((client) => client[Symbol.asyncDispose]())));
    for (const client of waiting) client.write(post('/call/counter/slow', '[]'));
    await arrived();
    await using refused = new RawClient(origin);
    assert.match(
      await refused.ended(),
      /^HTTP\/1\.1 503 [^]*svc-version: [^]*all 16 connections of this server are in use: try again later$/,
    );
    held.resolve();
    for (const client of waiting) await client.until('done');
    waiting[0]?.write(get('/health'));
    await waiting[0]?.until('\r\n\r\nok');
  });

  test('while the server starts, few are taken; then as many as files leave room for', async (t) => {
    let inUse = 40;
    const { origin, server, readiness, log } = await startHttpHost(t, {
      descriptors: { limit: 1000, inUse: () => inUse },
      idleMaxMs: 20_000,
    });
    readiness.isReady = false;
    server.serve();
    const clients = Array.from({ length: 80 }, () => new RawClient(origin));
    t.after(() => Promise.all(clients.map((client) => client[Symbol.asyncDispose]())));
    await arrived();
    assert.equal(clients.filter((client) => !client.isClosed).length, 64);
    readiness.isReady = true;
    inUse += 64;
    server.serve();
    assert.match(
      log.infos.at(-1) ?? '',
      /^at most 710 connections at once: of the 1000 descriptors .* 40 are in use and 250 stay free/,
    );
  });

  test('a limit that leaves no room is said, and some are taken all the same', async (t) => {
    const { origin, server, log } = await startHttpHost(t, { descriptors: { limit: 64, inUse: () => 60 } });
    server.serve();
    assert.match(log.warnings.join('\n'), /at most 16 connections at once: .*raise the limit \(ulimit -n\)/);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });
});
