import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerError } from '../../../kernel/index.ts';
import { arrived as settle } from '../../support/arrived.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const MIB = 1024 * 1024;
const TOKEN = 'secret';
const COUNTER_ID = '80000000001000010101';
type Pairs = readonly (readonly [string, string])[];

/** Sends one request by hand; returns the whole answer. */
async function raw(origin: string, text: string): Promise<string> {
  await using client = new RawClient(origin);
  client.write(text);
  return await client.ended();
}
const get = (origin: string, target: string, host = 'x'): Promise<string> =>
  raw(origin, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
const bodyOf = (answer: string): string => answer.slice(answer.indexOf('\r\n\r\n') + 4);
const statusOf = (answer: string): number => Number(answer.slice(9, 12));
const pairsOf = (flat: readonly string[]): Pairs =>
  flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1] ?? ''] as const] : []));

suite('what an actor sees of a request', () => {
  test('the target is what was sent, without what names the actor, whatever it looks like', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN });
    const seen: readonly (readonly [string, string])[] = [
      ['/site/counter/', '/'],
      ['/site/counter/?a=1&a=2', '/?a=1&a=2'],
      ['/site/counter#top', '/#top'],
      ['/site/counter//', '//'],
      ['/site/counter//etc/../../passwd', '//etc/../../passwd'],
      ['/site/counter/../bare/x', '/../bare/x'],
      ['/site/counter/%2e%2e/%2E%2E/x', '/%2e%2e/%2E%2E/x'],
      ['/site/counter/%00%zz%', '/%00%zz%'],
      ['/site/counter/a%2Fb?c=%26#d', '/a%2Fb?c=%26#d'],
      ['/site/counter/a;b=c/,', '/a;b=c/,'],
      ['/site/counter/site/bare/', '/site/bare/'],
      ['/site/counter/health', '/health'],
      [`/site/${COUNTER_ID}/x`, '/x'],
      ['/site/%63ounter/x', '/x'],
    ];
    for (const [target, url] of seen) {
      assert.equal(bodyOf(await get(origin, target)), `site ${url}`, target);
      assert.equal(gateway.requests.at(-1)?.request.url, url);
    }
  });

  test('GET and HEAD without the slash are sent to it; other methods and unknown actors are not', async (t) => {
    const { origin, gateway, readiness } = await startHttpHost(t, { token: TOKEN });
    const moved: readonly (readonly [string, string])[] = [
      ['/site/counter', '/site/counter/'],
      ['/site/counter?', '/site/counter/?'],
      ['/site/counter?a=1&b=%2F/c?d', '/site/counter/?a=1&b=%2F/c?d'],
      [`/site/${COUNTER_ID}?x`, `/site/${COUNTER_ID}/?x`],
      ['/site/%63ounter', '/site/%63ounter/'],
      ['http://elsewhere.example/site/counter?a', '/site/counter/?a'],
    ];
    for (const [target, location] of moved) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await raw(origin, `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
        assert.equal(statusOf(answer), 308, target);
        assert.match(answer, /\r\ncontent-length: 0\r\n/);
        assert.equal(/\r\nlocation: (.*)\r\n/.exec(answer)?.[1], location);
        assert.equal(bodyOf(answer), '');
      }
    }
    assert.equal(gateway.requests.length, 0, 'no actor was asked');
    // The connection goes on, whatever body came with it.
    await using client = new RawClient(origin);
    client.write('GET /site/counter HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc');
    await client.until('location: ');
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND']) {
      assert.equal((await send(origin, method, '/site/counter?a=1', { body: '' })).status, 200, method);
      assert.equal(gateway.requests.at(-1)?.request.url, '/?a=1');
    }
    assert.equal(statusOf(await get(origin, '/site/nobody')), 404);
    assert.equal(statusOf(await get(origin, '/site')), 401, 'that is no website');
    readiness.isReady = false;
    assert.equal(statusOf(await get(origin, '/site/counter')), 503);
  });

  test('a target that is not ASCII is 400; header values are bytes', async (t) => {
    const { origin, gateway } = await startHttpHost(t);
    for (const byte of ['\xff', '\xc3\xa4', '\0', ' ', '\t']) {
      assert.equal(statusOf(await get(origin, `/site/counter/a${byte}b`)), 400, JSON.stringify(byte));
    }
    assert.equal(gateway.requests.length, 0);
    await raw(origin, 'GET /site/counter/ HTTP/1.1\r\nHost: x\r\nA: \xff\xc3\xa4\r\nConnection: close\r\n\r\n');
    assert.equal(gateway.requests[0]?.request.rawHeaders[3], '\xff\xc3\xa4');
  });

  test('any method, and headers as they were sent: their case, their order, repeated ones', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN });
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND', 'HEAD', 'TRACE']) {
      assert.equal((await send(origin, method, '/site/counter/x')).status, 200, method);
      assert.equal(gateway.requests.at(-1)?.request.method, method);
    }
    const answer = await raw(
      origin,
      'GET /site/counter/x HTTP/1.1\r\nHOST: a\r\nx-A: 1\r\nX-a: 2\r\nCookie: a\r\ncookie: b\r\nauthorization: Bearer wrong\r\n' +
        'x-caller: not a principal\r\nConnection: close\r\nAccept-Encoding: \r\n\r\n',
    );
    assert.equal(statusOf(answer), 200);
    assert.deepEqual(pairsOf(gateway.requests.at(-1)?.request.rawHeaders ?? []), [
      ['HOST', 'a'],
      ['x-A', '1'],
      ['X-a', '2'],
      ['Cookie', 'a'],
      ['cookie', 'b'],
      ['authorization', 'Bearer wrong'],
      ['x-caller', 'not a principal'],
      ['Connection', 'close'],
      ['Accept-Encoding', ''],
    ]);
  });

  test('bodies with a length and in chunks', async (t) => {
    const { origin, gateway } = await startHttpHost(t);
    await send(origin, 'POST', '/site/counter/x', { body: 'abc' });
    await send(origin, 'POST', '/site/counter/x', { body: 'def', headers: { 'transfer-encoding': 'chunked' } });
    await send(origin, 'GET', '/site/counter/x', { body: 'ghi' });
    assert.deepEqual(
      gateway.requests.map(({ request }) => Buffer.from(request.body).toString()),
      ['abc', 'def', 'ghi'],
    );
  });

  test('HTTP/1.0, the absolute form, requests to upgrade and Expect are requests like others', async (t) => {
    const { origin, gateway } = await startHttpHost(t);
    const old = await raw(origin, 'GET /site/counter/old HTTP/1.0\r\n\r\n');
    assert.match(old, /^HTTP\/1\.1 200 [^]*\r\n\r\nsite \/old$/);
    assert.equal(bodyOf(await get(origin, 'http://elsewhere.example:80/site/counter/a?b')), 'site /a?b');
    assert.equal(bodyOf(await get(origin, 'http://elsewhere.example/site/counter/')), 'site /');
    const upgrading = await raw(
      origin,
      'GET /site/counter/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n',
    );
    assert.equal(statusOf(upgrading), 200);
    assert.equal(bodyOf(upgrading), 'site /ws');
    const expecting = await raw(
      origin,
      'POST /site/counter/e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab',
    );
    assert.match(expecting, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
    assert.equal(gateway.requests.length, 5);
  });

  test('two ends of one body, and what else is malformed, never reach an actor', async (t) => {
    const { origin, gateway } = await startHttpHost(t);
    const head = 'POST /site/counter/x HTTP/1.1\r\nHost: x\r\n';
    const smuggled = [
      `${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /site/counter/smuggled HTTP/1.1\r\nHost: x\r\n\r\n`,
      `${head}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
      `${head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
      `${head}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      `${head}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
      `${head}Content-Length : 1\r\n\r\na`,
      `${head} folded: x\r\n\r\n`,
    ];
    for (const text of smuggled) assert.equal(statusOf(await raw(origin, text)), 400, JSON.stringify(text));
    assert.equal(gateway.requests.length, 0);
  });

  test('10,000 headers are too many', async (t) => {
    const { origin, gateway } = await startHttpHost(t);
    const answer = await raw(origin, `GET /site/counter/ HTTP/1.1\r\nHost: x\r\n${'a: b\r\n'.repeat(10_000)}\r\n`);
    assert.equal(statusOf(answer), 431);
    assert.match(answer, /\r\nsvc-version: 9\.8\.7\r\n/);
    const many = await raw(origin, `GET /site/counter/ HTTP/1.0\r\nHost: x\r\n${'a: b\r\n'.repeat(2_000)}\r\n`);
    assert.equal(statusOf(many), 200);
    assert.equal(gateway.requests[0]?.request.rawHeaders.length, 2 * 2_001);
  });
});

suite('what a client sees of an answer', () => {
  const answering = async (
    t: Parameters<typeof startHttpHost>[0],
    script: HttpHost['gateway']['script'],
    options?: HttpHostOptions,
  ): Promise<HttpHost> => {
    const host = await startHttpHost(t, options);
    host.gateway.script = script;
    return host;
  };

  test('status, headers and body are the actor’s, less the three that are the connection’s', async (t) => {
    const { origin } = await answering(t, () => ({
      status: 418,
      headers: [
        'Content-Type',
        'x/y',
        'Set-Cookie',
        'a=1',
        'SET-COOKIE',
        'b=2',
        'Content-Length',
        '3',
        'Connection',
        'close',
        'transfer-encoding',
        'chunked',
        'SVC-Version',
        'mine',
        'X-Empty',
        '',
        'ETag',
        '"\xc3\xbc"',
      ],
      body: Buffer.from('hello'),
    }));
    const answer = await get(origin, '/site/counter/');
    assert.match(answer, /^HTTP\/1\.1 418 /);
    const lines = answer.slice(0, answer.indexOf('\r\n\r\n')).split('\r\n').slice(1);
    assert.deepEqual(
      lines.filter((line) => !/^date:/i.test(line)),
      [
        'svc-version: 9.8.7',
        'Content-Type: x/y',
        'Set-Cookie: a=1',
        'SET-COOKIE: b=2',
        'X-Empty: ',
        'ETag: "\xc3\xbc"',
        'access-control-allow-origin: *',
        'content-length: 5',
        'Connection: close',
      ],
    );
    assert.equal(bodyOf(answer), 'hello');
  });

  test('an actor’s own Access-Control-Allow-Origin takes the place of the host’s, never two', async (t) => {
    const { origin, gateway } = await answering(t, () => ({
      headers: ['Access-Control-Allow-Origin', 'https://a.example', 'ACCESS-CONTROL-ALLOW-ORIGIN', '*'],
    }));
    assert.deepEqual((await get(origin, '/site/counter/')).match(/access-control-allow-origin: .*/gi), [
      'Access-Control-Allow-Origin: https://a.example',
    ]);
    gateway.script = () => ({});
    assert.deepEqual((await get(origin, '/site/counter/')).match(/access-control-allow-origin: .*/gi), [
      'access-control-allow-origin: *',
    ]);
  });

  test('HEAD has the length and no body; 204 and 304 have neither; a connection goes on behind them', async (t) => {
    const { origin } = await answering(t, ({ url }) => ({
      status: Number(url.slice(1)),
      body: Buffer.from('hello'),
      headers: ['x', 'y'],
    }));
    await using client = new RawClient(origin);
    const request = (method: string, status: number): string =>
      `${method} /site/counter/${status} HTTP/1.1\r\nHost: x\r\n\r\n`;
    client.write(request('HEAD', 200) + request('GET', 204) + request('GET', 304) + request('GET', 203));
    const text = await client.until('203 ');
    const [head = '', none = '', same = ''] = text.split('HTTP/1.1 ').slice(1);
    assert.match(head, /^200 [^]*\r\ncontent-length: 5\r\n[^]*\r\n\r\n$/);
    assert.doesNotMatch(none, /content-length|hello/);
    assert.doesNotMatch(same, /content-length|hello/);
    await client.until('\r\n\r\nhello');
  });

  test('a body that is streamed comes in chunks, to HTTP/1.0 up to the end of the connection', async (t) => {
    async function* rest(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('b');
      yield Buffer.alloc(0);
      yield Buffer.alloc(100_000, 'c');
    }
    const { origin, log } = await answering(t, () => ({ headers: ['a', 'b'], body: Buffer.from('a'), rest: rest() }));
    const answer = await send(origin, 'GET', '/site/counter/');
    assert.equal(answer.text, `ab${'c'.repeat(100_000)}`);
    assert.equal(answer.headers['transfer-encoding'], 'chunked');
    assert.equal(answer.headers['content-length'], undefined);
    const old = await raw(origin, 'GET /site/counter/ HTTP/1.0\r\n\r\n');
    assert.equal(bodyOf(old), `ab${'c'.repeat(100_000)}`);
    const head = await raw(origin, 'HEAD /site/counter/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    assert.equal(bodyOf(head), '');
    assert.doesNotMatch(head, /content-length/);
    assert.deepEqual(
      log.events.map(({ fields }) => [fields['kind'], fields['method'], fields['ok']]),
      Array.from({ length: 3 }, () => ['query', 'http_request', 'true']),
    );
  });

  test('a streamed body that fails before its first byte is an error, afterwards the connection is cut', async (t) => {
    const arrived = Promise.withResolvers<void>();
    async function* rest(first: string): AsyncGenerator<Uint8Array> {
      yield Buffer.from(first);
      if (first !== '') await arrived.promise;
      throw new ServerError('badWebsite', 'website-failed', 'no more');
    }
    const { origin, log } = await answering(t, ({ url }) => ({ rest: rest(url.slice(1)) }));
    const early = await get(origin, '/site/counter/');
    assert.deepEqual([statusOf(early), bodyOf(early)], [502, 'no more']);
    await using client = new RawClient(origin);
    client.write('GET /site/counter/piece HTTP/1.1\r\nHost: x\r\n\r\n');
    await client.until('5\r\npiece\r\n');
    arrived.resolve();
    const cut = await client.ended();
    assert.match(cut, /^HTTP\/1\.1 200 /);
    assert.doesNotMatch(cut, /\r\n0\r\n\r\n$/);
    assert.deepEqual(log.warnings, ['no more']);
    assert.equal(log.events.at(-1)?.fields['ok'], 'false');
  });

  test('a client that never reads holds up the stream, and ends it when it leaves', async (t) => {
    let pieces = 0;
    let isEnded = false;
    async function* rest(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          pieces++;
          await sleep(0);
          yield Buffer.alloc(256 * 1024);
        }
      } finally {
        isEnded = true;
      }
    }
    const { origin, log } = await answering(t, () => ({ rest: rest() }));
    const { hostname, port } = new URL(origin);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.pause();
    socket.write('GET /site/counter/ HTTP/1.1\r\nHost: x\r\n\r\n');
    let before = -1;
    // The loop ends when the system's buffers are full.
    while ((pieces !== before || pieces === 0) && pieces < 1_000) {
      before = pieces;
      await settle();
    }
    assert.ok(pieces * 256 * 1024 < 64 * MIB, `${pieces} pieces were made for a client that reads nothing`);
    assert.equal(isEnded, false);
    socket.destroy();
    for (let waited = 0; !isEnded && waited < 1_000; waited++) await sleep(50);
    assert.equal(isEnded, true);
    assert.deepEqual([log.warnings, log.errors], [[], []]);
    assert.equal(log.events.at(-1)?.fields['ok'], 'false');
  });

  test('a stream without end is cut when the server stops', async (t) => {
    async function* rest(): AsyncGenerator<Uint8Array> {
      for (;;) {
        await sleep(1);
        yield Buffer.from('x');
      }
    }
    const { origin, server } = await answering(t, () => ({ rest: rest() }));
    await using client = new RawClient(origin);
    client.write('GET /site/counter/ HTTP/1.1\r\nHost: x\r\n\r\n');
    await client.until('\r\n\r\n1\r\nx');
    await server.close();
    await client.ended();
    assert.doesNotMatch(client.received, /\r\n0\r\n\r\n$/);
  });

  test('errors are plain text with the status of their kind', async (t) => {
    const { origin, gateway, log } = await answering(t, () => ({}));
    const kinds = { badWebsite: 502, outOfCycles: 402, unavailable: 503, invalid: 400, missing: 404 } as const;
    for (const [kind, status] of Object.entries(kinds)) {
      gateway.script = () => new ServerError(kind as keyof typeof kinds, 'code', 'why <b>');
      const answer = await send(origin, 'GET', '/site/counter/');
      assert.equal(answer.status, status);
      assert.equal(answer.text, 'why <b>');
      assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
      assert.equal(answer.headers['retry-after'], status === 503 ? '1' : undefined);
      assert.equal(answer.headers['access-control-allow-origin'], '*');
    }
    gateway.script = () => {
      throw new TypeError('a secret');
    };
    const answer = await send(origin, 'GET', '/site/counter/');
    assert.equal(answer.status, 500);
    assert.doesNotMatch(answer.text, /secret/);
    assert.equal(log.errors.length, 1);
    for (const nobody of ['/site/nobody/x', '/site//x', '/site/', '/site/%zz/x', '/site/%00']) {
      const missing = await send(origin, 'GET', nobody);
      assert.equal(missing.status, 404, nobody);
      assert.equal(missing.headers['content-type'], 'text/plain; charset=utf-8');
    }
  });

  test('a body over 8 MiB is 413, from its length or as it arrives', async (t) => {
    const { origin, gateway } = await answering(t, () => ({}));
    const over = await send(origin, 'POST', '/site/counter/x', { headers: { 'content-length': 8 * MIB + 1 } });
    assert.equal(over.status, 413);
    assert.match(over.text, /8388608 bytes/);
    const chunked = await send(origin, 'POST', '/site/counter/x', {
      headers: { 'transfer-encoding': 'chunked' },
      body: Buffer.alloc(8 * MIB + 1),
    });
    assert.equal(chunked.status, 413);
    assert.equal(chunked.headers['content-type'], 'text/plain; charset=utf-8');
    assert.equal(gateway.requests.length, 0);
    const fits = await send(origin, 'POST', '/site/counter/x', { body: Buffer.alloc(8 * MIB) });
    assert.equal(fits.status, 200);
  });

  test('jobs are queries, or calls where the actor was updated; requests count as site', async (t) => {
    const { origin, log } = await answering(t, () => ({}));
    await send(origin, 'GET', '/site/counter/');
    await send(origin, 'POST', '/site/counter/');
    await send(origin, 'GET', '/site/nobody/');
    assert.deepEqual(
      log.events.map(({ fields: { kind, actor, method, ok } }) => [kind, actor, method, ok]),
      [
        ['query', COUNTER_ID, 'http_request', 'true'],
        ['call', COUNTER_ID, 'http_request_update', 'true'],
        ['query', '', '', 'false'],
      ],
    );
  });
});

suite('--web', () => {
  const options = { token: TOKEN, web: 'counter' };

  test('whatever is not built in is the website’s, with any method and without a token', async (t) => {
    const { origin } = await startHttpHost(t, options);
    const targets = [
      '/',
      '/?x=1',
      '/index.html',
      '/a/b?c',
      '/call',
      '/call/counter',
      '/call/counter/',
      '/call//inc',
      '/health/',
      '/Health',
      '/%68ealth',
      '/health/%72eady',
      '/mops/%63losure/a.mo',
      '//health',
      '/health/ready/',
      '/site',
      '/mops',
      '/actors/',
      '/install',
      '/x#y',
      '/health#a',
      '/openapi',
      '/call/a/b/c',
      '/../actors',
      '/.',
      '/*',
      '/inspector/',
    ];
    for (const target of targets) {
      for (const method of ['GET', 'POST', 'OPTIONS', 'DELETE']) {
        const answer = await raw(origin, `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
        assert.equal(bodyOf(answer), `site ${target}`, `${method} ${target}`);
      }
    }
  });

  test('a built-in path is never the website’s: wrong methods and queries are 401, with the token 404', async (t) => {
    const { origin, gateway } = await startHttpHost(t, options);
    const headers = { authorization: `Bearer ${TOKEN}` };
    const built: readonly (readonly [string, string])[] = [
      ['GET', '/actors?x=1'],
      ['POST', '/actors'],
      ['GET', '/health?x=1'],
      ['HEAD', '/health'],
      ['GET', '/call/counter/inc'],
      ['PUT', '/call/counter/in%20c'],
      ['GET', '/version?'],
      ['PATCH', '/inspector'],
      ['GET', '/inspector?x'],
      ['POST', '/mops/closure/a/b.mo'],
      ['GET', '/install/x'],
      ['GET', '/call/counter/inc#x'],
      ['DELETE', '/health/ready'],
    ];
    for (const [method, target] of built) {
      assert.equal((await send(origin, method, target)).status, 401, `${method} ${target}`);
      assert.equal((await send(origin, method, target, { headers })).status, 404, `${method} ${target}`);
    }
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
    assert.equal((await send(origin, 'OPTIONS', '/actors')).status, 204);
    const star = await raw(origin, 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    assert.equal(statusOf(star), 204);
    assert.equal(gateway.requests.length, 0);
  });

  test('other actors keep their path, and the order of checks holds', async (t) => {
    const { origin, gateway, readiness } = await startHttpHost(t, options);
    await send(origin, 'GET', '/site/bare/x');
    assert.equal(gateway.requests.at(-1)?.actor, 'bare');
    assert.equal((await send(origin, 'POST', '/x', { headers: { 'content-length': 8 * MIB + 1 } })).status, 413);
    readiness.isReady = false;
    assert.equal((await send(origin, 'POST', '/x', { headers: { 'content-length': 8 * MIB + 1 } })).status, 413);
    const starting = await send(origin, 'GET', '/x');
    assert.deepEqual([starting.status, starting.text], [503, 'starting: ready']);
  });

  test('an actor that is not there is 404, and the start says so', async (t) => {
    const { origin, server, log } = await startHttpHost(t, { web: 'blog' });
    server.serve();
    assert.match(
      log.warnings.join('\n'),
      /--web blog: no such actor: blog; until there is one its pages are answered 404/,
    );
    assert.equal((await send(origin, 'GET', '/x')).status, 404);
  });
});

suite('--site-hosts', () => {
  const at = async (origin: string, host: string, target: string): Promise<string> =>
    bodyOf(await get(origin, target, host)) || 'nothing';

  test('a host name that is an actor’s serves its website, in any case, with any port', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN, siteHosts: true });
    const hosts = [
      'counter.localhost',
      'counter.localhost:7000',
      'COUNTER.LocalHost:1',
      'counter.localhost.',
      'bkyz2-fmaaa-aaaaa-qaaaq-cai.localhost',
    ];
    for (const host of hosts) {
      for (const target of ['/', '/?a', '/x/y', '/call/counter', '/Health']) {
        assert.equal(await at(origin, host, target), `site ${target}`, host + target);
        assert.equal(gateway.requests.at(-1)?.actor, 'counter');
      }
    }
    assert.equal(await at(origin, 'bare.localhost', '/x'), 'site /x');
    assert.equal(gateway.requests.at(-1)?.actor, 'bare');
    // The host of the absolute form replaces the header.
    assert.equal(await at(origin, 'x', 'http://bare.localhost/y'), 'site /y');
    assert.equal(await at(origin, 'bare.localhost', 'http://counter.localhost/y'), 'site /y');
    assert.equal(gateway.requests.at(-1)?.actor, 'counter');
  });

  test('built-in paths keep their meaning at every host', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN, siteHosts: true });
    assert.equal(await at(origin, 'counter.localhost', '/health'), 'ok');
    assert.equal(statusOf(await get(origin, '/actors', 'counter.localhost')), 401);
    assert.equal(statusOf(await get(origin, '/health?x', 'counter.localhost')), 401);
    await get(origin, '/site/bare/x', 'counter.localhost');
    assert.deepEqual(
      gateway.requests.map(({ actor }) => actor),
      ['bare'],
    );
  });

  test('a host that is nobody’s changes nothing', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN, siteHosts: true });
    const hosts = [
      'nobody.localhost',
      'localhost',
      '.localhost',
      'a.counter.localhost',
      'counter.example',
      'counter',
      'counterlocalhost',
      'counter.localhost.example',
      '127.0.0.1:7000',
      '[::1]:7000',
      '',
      `${'a'.repeat(64)}.localhost`,
    ];
    for (const host of hosts) assert.equal(statusOf(await get(origin, '/x', host)), 401, host);
    assert.equal(statusOf(await get(origin, '/x', 'counter.localhost:x')), 400);
    assert.equal(gateway.requests.length, 0);
    assert.equal(statusOf(await raw(origin, 'GET /x HTTP/1.0\r\n\r\n')), 401);
  });

  test('?canisterId= counts where the path is not built in, and names an actor', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { token: TOKEN, siteHosts: true });
    const id = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
    assert.equal(await at(origin, '127.0.0.1', `/x?canisterId=${id}`), `site /x?canisterId=${id}`);
    assert.equal(await at(origin, '127.0.0.1', `/x?a=b&canisterId=${id}&c`), `site /x?a=b&canisterId=${id}&c`);
    const named = `/x?%63anister%49d=${id}`;
    assert.equal(await at(origin, '127.0.0.1', named), `site ${named}`, 'names are decoded as on every route');
    const encoded = `/x?a=+&canisterId=${id.replaceAll('-', '%2D')}`;
    assert.equal(await at(origin, '127.0.0.1', encoded), `site ${encoded}`, 'and is handed on as it was sent');
    // The host takes precedence: there the parameter is the website's own.
    await at(origin, 'bare.localhost', `/x?canisterId=${id}`);
    assert.equal(gateway.requests.at(-1)?.actor, 'bare');
    const others = [
      '/x?canisterId=counter',
      '/x?canisterId=',
      '/x?canisterid=',
      `/x?xcanisterId=${id}`,
      `/x#?canisterId=counter`,
      '/x?canisterId=be2us-64aaa-aaaaa-qaabq-cai',
      `/actors?canisterId=${id}`,
    ];
    for (const target of others) assert.equal(statusOf(await get(origin, target, '127.0.0.1')), 401, target);
    // Tools of the Internet Computer print this address. Everything else at the root is the inspector's.
    assert.equal(await at(origin, '127.0.0.1', `/?canisterId=${id}`), `site /?canisterId=${id}`);
    assert.equal(await at(origin, '127.0.0.1', `/?a&canisterId=${id}&b`), `site /?a&canisterId=${id}&b`);
    for (const target of ['/?canisterId=counter', '/?canisterId=be2us-64aaa-aaaaa-qaabq-cai', '/?x=1'])
      assert.equal(statusOf(await get(origin, target, '127.0.0.1')), 401, target);
  });

  test('goes before --web, which has the rest', async (t) => {
    const { origin, gateway } = await startHttpHost(t, { siteHosts: true, web: 'bare' });
    const actorOf = async (host: string, target: string): Promise<string | undefined> => {
      await get(origin, target, host);
      return gateway.requests.at(-1)?.actor;
    };
    assert.equal(await actorOf('counter.localhost', '/'), 'counter');
    assert.equal(await actorOf('nobody.localhost', '/'), 'bare');
    assert.equal(await actorOf('localhost', '/?canisterId=bkyz2-fmaaa-aaaaa-qaaaq-cai'), 'counter');
    assert.equal(await actorOf('localhost', '/'), 'bare');
  });

  test('while the server starts, such a host is told so without a token', async (t) => {
    const { origin, readiness } = await startHttpHost(t, { token: TOKEN, siteHosts: true });
    readiness.isReady = false;
    readiness.note = 'reading the manifest';
    assert.equal(await at(origin, 'later.localhost', '/x'), 'starting: reading the manifest');
    assert.equal(statusOf(await get(origin, '/x', 'localhost')), 401);
  });

  test('without it host names mean nothing', async (t) => {
    const { origin } = await startHttpHost(t, { token: TOKEN });
    assert.equal(statusOf(await get(origin, '/x', 'counter.localhost')), 401);
    assert.equal(statusOf(await get(origin, '/x?canisterId=bkyz2-fmaaa-aaaaa-qaaaq-cai', 'x')), 401);
    assert.equal(statusOf(await get(origin, '/?canisterId=bkyz2-fmaaa-aaaaa-qaaaq-cai', 'x')), 401);
    const open = await startHttpHost(t, {});
    assert.equal(statusOf(await get(open.origin, '/?canisterId=bkyz2-fmaaa-aaaaa-qaaaq-cai', 'x')), 404);
  });
});
