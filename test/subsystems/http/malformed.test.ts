import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

/** Asserts that the answer is one of ours: version, CORS, plain text or JSON, and the end of the connection. */
function assertRefusal(answer: string, status: number, text: RegExp, isJson = false): void {
  assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
  assert.match(answer, /\r\nsvc-version: 9\.8\.7\r\n/);
  assert.match(answer, /\r\naccess-control-allow-origin: \*\r\n/);
  assert.match(answer, /\r\naccess-control-expose-headers: svc-version, svc-message, retry-after, /);
  const type = isJson
    ? /\r\ncontent-type: application\/json; charset=utf-8\r\n/
    : /\r\ncontent-type: text\/plain; charset=utf-8\r\n/;
  assert.match(answer, type);
  assert.match(answer, /\r\nconnection: close\r\n/i);
  assert.equal(answer.split(/HTTP\/1\.1 \d/).length, 2, 'one answer');
  const [, length] = /content-length: (\d+)/.exec(answer) ?? [];
  const body = answer.slice(answer.indexOf('\r\n\r\n') + 4);
  assert.equal(body.length, Number(length));
  if (!isJson) return assert.match(body, text);
  const { code, message, ...rest } = JSON.parse(body) as { code: number; message: string };
  assert.deepEqual([code, rest], [status, {}]);
  return assert.match(message, text);
}

suite('what the HTTP parser refuses', () => {
  test('malformed requests are 400', async (t) => {
    const { origin } = await startHttpHost(t);
    const requests = [
      'rubbish\r\n\r\n',
      '\u0000\u0001\u0002\u0003',
      'GET / HTTP/9.9\r\n\r\n',
      'GET /a b HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /ü HTTP/1.1\r\nHost: x\r\n\r\n'.replace('ü', '\u0001'),
      'GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: x\r\nA: b\u0000c\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999999\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n',
      // A proxy in front may know no codings in HTTP/1.0, and take the rest for another request.
      ...['POST /call/counter/inc', 'OPTIONS /'].map(
        (start) =>
          `${start} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.0\r\n\r\n`,
      ),
    ];
    for (const request of requests) {
      await using client = new RawClient(origin);
      client.write(request);
      assertRefusal(await client.ended(), 400, /^malformed HTTP request: ./);
    }
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });

  test('a missing Host, a second one and CONNECT are 400', async (t) => {
    const { origin } = await startHttpHost(t);
    await using hostless = new RawClient(origin);
    hostless.write('GET /health HTTP/1.1\r\n\r\n');
    assertRefusal(await hostless.ended(), 400, /needs a Host header/);
    for (const more of ['Host: x', 'HOST: y', 'hOSt:']) {
      await using several = new RawClient(origin);
      several.write(`GET /health HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n${more}\r\n\r\n`);
      assertRefusal(await several.ended(), 400, /more than one Host/);
    }
    await using connect = new RawClient(origin);
    connect.write('CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n');
    assertRefusal(await connect.ended(), 400, /not a proxy/);
    await using old = new RawClient(origin);
    old.write('GET /health HTTP/1.0\r\n\r\n');
    assert.match(await old.ended(), /^HTTP\/1\.1 200 OK[^]*\r\n\r\nok$/);
  });

  test('a Host that is no name or address is 400, and a version other than HTTP/1 is 505', async (t) => {
    const { origin } = await startHttpHost(t);
    const answerTo = async (version: string, host: string): Promise<string> => {
      await using client = new RawClient(origin);
      client.write(`GET /health HTTP/${version}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      return await client.ended();
    };
    for (const host of [
      'a b',
      'a/b',
      'a@b',
      'user:secret@a',
      'a:b',
      'a:1:2',
      '[::1',
      '[g::1]',
      '<a>',
      'ä',
      'a"',
      'a,b c',
    ]) {
      assertRefusal(
        await answerTo('1.1', host),
        400,
        /^malformed HTTP request: the Host header ".+" is no name or address/,
      );
    }
    for (const host of [
      'a',
      'a_b.example:80',
      'a:',
      '127.0.0.1:7000',
      '[::1]:7000',
      '[::ffff:1.2.3.4]',
      'x--y.localhost',
      '',
    ]) {
      assert.match(await answerTo('1.1', host), /^HTTP\/1\.1 200 OK[^]*\r\n\r\nok$/, host);
    }
    assertRefusal(await answerTo('2.0', 'x'), 505, /^this server speaks HTTP\/1\.1, not HTTP\/2\.0$/);
    assertRefusal(await answerTo('0.9', 'x'), 505, /not HTTP\/0\.9$/);
  });

  test('an upgrade that nobody offers is an ordinary request', async (t) => {
    const { origin } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write('GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    assert.match(await client.until('\r\n\r\nok'), /^HTTP\/1\.1 200 OK/);
  });

  test('headers beyond 16 KiB are 431', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const request of [
      `GET /${'x'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      `GET / HTTP/1.1\r\nHost: x\r\nA: ${'y'.repeat(17_000)}\r\n\r\n`,
    ]) {
      await using client = new RawClient(origin);
      client.write(request);
      assertRefusal(await client.ended(), 431, /larger than 16384 bytes/);
    }
    await using many = new RawClient(origin);
    many.write(`GET /actors HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(3000)}Connection: close\r\n\r\n`);
    assert.match(await many.ended(), /^HTTP\/1\.1 200 OK/);
  });

  test('a request that does not arrive in time is 408, in its head or in its body', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { requestTimeoutMs: 150 });
    for (const start of [
      '',
      'GET /health HT',
      'GET /health HTTP/1.1\r\nHost: x\r\nA: ',
      'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab',
    ]) {
      await using client = new RawClient(origin);
      client.write(start);
      assertRefusal(await client.ended(), 408, /not received within 0\.15 s/);
    }
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('what asks for JSON is refused in JSON', async (t) => {
    const { origin } = await startHttpHost(t, { requestTimeoutMs: 150 });
    const long = 'y'.repeat(17_000);
    const malformed = /^malformed HTTP request: ./;
    const refusals: readonly (readonly [number, string, RegExp, isKnown?: false])[] = [
      [400, `GET / HTTP/1.1\r\nHost: x\r\nACCEPT\r\nbad header\r\n\r\n`, malformed],
      [400, `GET / HTTP/1.1\r\nACCEPT\r\nHost: x\r\nA: b\u0000c\r\n\r\n`, malformed],
      [400, `POST /x HTTP/1.1\r\nACCEPT\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`, malformed],
      [400, `POST /x HTTP/1.1\r\nACCEPT\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n`, malformed],
      [
        400,
        `POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nACCEPT\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
        malformed,
      ],
      [400, `GET /health HTTP/1.1\r\nACCEPT\r\n\r\n`, /needs a Host header/],
      [400, `GET /health HTTP/1.1\r\nHost: a b\r\nACCEPT\r\n\r\n`, /is no name or address/],
      [400, `GET health HTTP/1.1\r\nHost: x\r\nACCEPT\r\n\r\n`, /expected a path|malformed/],
      [
        417,
        `POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nACCEPT\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n`,
        /no expectation/,
      ],
      [
        501,
        `POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nACCEPT\r\nTransfer-Encoding: gzip, chunked\r\n\r\n`,
        /transfer coding/,
      ],
      [505, `GET /health HTTP/2.0\r\nHost: x\r\nACCEPT\r\n\r\n`, /not HTTP\/2\.0/],
      [431, `GET / HTTP/1.1\r\nHost: x\r\nACCEPT\r\nA: ${long}\r\n\r\n`, /larger than 16384 bytes/],
      [
        408,
        `POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nACCEPT\r\nContent-Length: 5\r\n\r\nab`,
        /not received within/,
      ],
      // The parser keeps what has come of a header to itself until its end.
      [408, `GET /health HTTP/1.1\r\nHost: x\r\nACCEPT\r\n`, /not received within/, false],
    ];
    for (const [status, request, message, isKnown = true] of refusals) {
      for (const [accept, isJson] of [
        ['application/json', true],
        ['application/json, text/plain, */*', true],
        ['text/plain;q=0.5, application/json;q=0.9', true],
        ['*/*', false],
        ['text/html, text/plain, application/json;q=0.9', false],
      ] as const) {
        await using client = new RawClient(origin);
        client.write(request.replace('ACCEPT', `accept: ${accept}`));
        assertRefusal(await client.ended(), status, message, isJson && isKnown);
      }
    }
  });

  test('answering is not bounded by the time for reading', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { requestTimeoutMs: 100, idleMaxMs: 100 });
    canisters.resolve('counter').held = sleep(600);
    const answer = await send(origin, 'POST', '/call-json/counter/slow', { body: '[]' });
    assert.deepEqual(answer.json(), ['done']);
  });

  test('rubbish after a request that is being answered ends the connection without a false answer', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using client = new RawClient(origin);
    client.write('POST /call/counter/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nrubbish\r\n\r\n');
    assert.equal(await client.ended(), '');
    held.resolve();
    await sleep(10);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });
});
