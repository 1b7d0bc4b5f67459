/** Responses byte by byte, from bare sockets: accepted and refused ones, and the messages about the latter. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import { UndiciOutcalls } from '../../../subsystems/outcalls/undici-outcalls.ts';
import { failureOf, NEVER, requestOf, textOf } from '../../../plugins/api/contracts/outcalls.ts';
import { OUTCALL_FAILURES, type OutcallMethod, type OutcallResponse } from '../../../subsystems/outcalls/index.ts';

/** Bytes that are written at once, or an end of the connection: END, RESET. */
type Piece = string;

const HI = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi';
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const head = (...lines: readonly string[]): string => ['HTTP/1.1 200 OK', ...lines, '', ''].join('\r\n');
const CHUNKED = head('transfer-encoding: chunked');
/** Words of undici, llhttp and Node, which must not appear in messages. */
const OF_A_LIBRARY =
  /assert|expression|evaluated|undici|UND_ERR|HPE_|match the HTTP|UND_ERR_SOCKET|TypeError|undefined|node:/i;

interface Bench {
  readonly connections: () => number;
  readonly ask: (pieces: readonly Piece[], method?: OutcallMethod, signal?: AbortSignal) => Promise<OutcallResponse>;
}

/** Starts a server that answers each request with the pieces of its test, each in a packet of its own. */
async function bench(t: TestContext): Promise<Bench> {
  const answers: (readonly Piece[])[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer({ noDelay: true }, (socket) => {
    connections++;
    sockets.add(socket.on('error', () => undefined));
    // Requests are small and arrive whole.
    socket.on('data', () => void answer(socket, answers.shift() ?? []));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const outcalls = new UndiciOutcalls({ denyPrivate: false });
  t.after(() => {
    outcalls.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    connections: () => connections,
    ask: (pieces, method = 'GET', signal = NEVER.signal) => {
      answers.push(pieces);
      const body = new Uint8Array(method === 'POST' ? 5 : 0);
      return outcalls.send(requestOf(url, { method, body }), { signal });
    },
  };
}

async function answer(socket: Socket, pieces: readonly Piece[]): Promise<void> {
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) await sleep(5);
    if (piece === 'END') socket.end();
    else if (piece === 'RESET') socket.resetAndDestroy();
    else socket.write(piece);
  }
}

async function refuses(asked: Promise<OutcallResponse>, words: RegExp, why: string): Promise<void> {
  const { code, message } = await failureOf(asked);
  assert.equal(code, 'outcall-failed', why);
  assert.match(message, words, why);
  assert.doesNotMatch(message, OF_A_LIBRARY, why);
  assert.ok(!message.includes('\n') && message.length < 200, message);
}

describe('interim answers are read over', () => {
  const interim: Readonly<Record<string, readonly Piece[]>> = {
    '100 in one packet with the answer': [CONTINUE + HI],
    '100 in a packet of its own': [CONTINUE, HI],
    'in pieces that end within its lines': ['HTTP/1.1 10', '0 Continue\r', '\n\r', '\nHTTP/1.', HI.slice(7)],
    'with headers': [`HTTP/1.1 100 Continue\r\nserver: x\r\ncontent-length: 7\r\n\r\n${HI}`],
    '102, 103 and one that nobody knows': ['102 Processing', '103 Early Hints', '199 x']
      .map((status) => `HTTP/1.1 ${status}\r\nlink: </a>\r\n\r\n`)
      .concat(HI),
    'many, one after the other': [CONTINUE.repeat(50), CONTINUE.repeat(50) + HI],
    'that say that the connection will close': [`HTTP/1.1 100 Continue\r\nconnection: close\r\n\r\n${HI}`],
    'in HTTP/1.0': [`HTTP/1.0 100 Continue\r\n\r\n${HI}`],
    'that say that they come in chunks': [`HTTP/1.1 103 x\r\ntransfer-encoding: chunked\r\n\r\n${HI}`],
  };
  for (const [name, pieces] of Object.entries(interim))
    test(name, async (t) => {
      const { ask } = await bench(t);
      for (const method of ['GET', 'POST', 'PUT'] as const) {
        const response = await ask(pieces, method);
        assert.deepEqual([response.status, textOf(response)], [200, 'hi'], method);
        assert.deepEqual(response.headers, [{ name: 'content-length', value: '2' }], 'those of the answer alone');
      }
      const response = await ask(pieces.map(withoutBody), 'HEAD');
      assert.deepEqual([response.status, response.body.length], [200, 0]);
    });

  test('and the connection is used again behind them', async (t) => {
    const { ask, connections } = await bench(t);
    for (let time = 0; time < 4; time++) assert.equal(textOf(await ask([CONTINUE, HI], 'POST')), 'hi');
    assert.equal(connections(), 1);
  });

  test('up to a bound; and one that changes the protocol is none of them', async (t) => {
    const { ask } = await bench(t);
    await refuses(ask([CONTINUE.repeat(101) + HI]), /more than 100 interim answers/, 'too many');
    const upgrade = 'HTTP/1.1 101 Switching Protocols\r\n';
    for (const more of ['', 'connection: upgrade\r\nupgrade: websocket\r\n'])
      for (const method of ['GET', 'HEAD', 'POST'] as const)
        await refuses(ask([`${upgrade}${more}\r\n${HI}`], method), /another protocol \(status 101\)/, more);
    await refuses(ask([`${CONTINUE}${upgrade}\r\n`]), /status 101/, 'behind another one');
  });

  test('a connection that ends behind them is no answer, and a deadline ends the wait for one', async (t) => {
    const { ask } = await bench(t);
    for (const end of ['END', 'RESET'] as const) {
      await refuses(ask([CONTINUE, end]), /closed the connection/, end);
      await refuses(ask(['HTTP/1.1 102 x\r\nconnection: close\r\n\r\n', end]), /closed the connection/, end);
    }
    const controller = new AbortController();
    const slow = ask(
      Array.from({ length: 60 }, () => CONTINUE),
      'GET',
      controller.signal,
    );
    setTimeout(() => controller.abort(OUTCALL_FAILURES['outcall-timeout']('too late')), 40);
    assert.equal((await failureOf(slow)).code, 'outcall-timeout');
  });
});

test('what servers send that is odd and right is taken', async (t) => {
  const { ask } = await bench(t);
  const taken: Readonly<Record<string, readonly Piece[]>> = {
    'no reason': ['HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nhi'],
    'an empty reason': ['HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nhi'],
    'any reason': ['HTTP/1.1 200 gr\u00fc\u00df dich\t!\r\ncontent-length: 2\r\n\r\nhi'],
    // RFC 9112, 4: the reason is not looked at.
    'control characters in the reason': ['HTTP/1.1 200 O\u0001\0K\r\ncontent-length: 2\r\n\r\nhi'],
    // RFC 9110, 2.4, allows it; servers that count a body's line end wrongly send one.
    'an empty line before it': [`\r\n\r\n${HI}`],
    // RFC 9110, 2.5: a later minor version is read as the latest that is known.
    'HTTP/1.2': ['HTTP/1.2 200 OK\r\ncontent-length: 2\r\n\r\nhi'],
    'HTTP/1.9 in chunks': ['HTTP/1.9 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n'],
    'HTTP/1.2 behind an interim answer of its own': ['HTTP/1.2 103 x\r\n\r\n', HI.replace('1.1', '1.2')],
    'HTTP/1.0 until the end': ['HTTP/1.0 200 OK\r\n\r\nhi', 'END'],
    'HTTP/1.0 with a length': ['HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi'],
    'byte by byte': HI.split(''),
    'blanks around content-length': [`${head('content-length:   2   ')}hi`],
    'a tab around content-length': [`${head('content-length:\t2\t')}hi`],
    'a folded header': [`${head('x-a: one \r\n\t two\r\n  three', 'content-length:\r\n 2\r\n ')}hi`],
    'a folded encoding': [`${head('transfer-encoding:\r\n chunked\r\n\t')}2\r\nhi\r\n0\r\n\r\n`],
    trailers: [`${CHUNKED}2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n`],
    'folded trailers': [`${CHUNKED}2\r\nhi\r\n0\r\nx-sum: 1\r\n 2\t\r\n\r\n`],
    'blanks behind the length of a chunk': [`${CHUNKED}2  \r\nhi\r\n0 ;d\r\n\r\n`],
    'blanks before an extension': [`${CHUNKED}2 ;a=b\r\nhi\r\n0\r\n\r\n`],
    'extensions of chunks': [`${CHUNKED}2;a=b;c\r\nhi\r\n0;d\r\n\r\n`],
    'blanks in extensions': [`${CHUNKED}2\t; a = b ;\tc\r\nh\u0069\r\n0; d\r\n\r\n`],
    'quoted extensions': [`${CHUNKED}2;a="b; \\"c\u00e9\\\\" ; d\r\nhi\r\n0;e=""\r\n\r\n`],
    'zeros before the length of a chunk': [`${CHUNKED}${'0'.repeat(40)}2\r\nhi\r\n00\r\n\r\n`],
    'an empty element before chunked': [`${head('transfer-encoding: , chunked')}2\r\nhi\r\n0\r\n\r\n`],
    'an empty element behind chunked': [`${head('Transfer-Encoding:chunked,')}2\r\nhi\r\n0\r\n\r\n`],
    'empty elements and tabs': [`${head('transfer-encoding: ,,\tchunked\t, ,\t')}2\r\nhi\r\n0\r\n\r\n`],
    'empty elements in a folded line': [`${head('transfer-encoding: ,\r\n chunked\r\n ,')}2\r\nhi\r\n0\r\n\r\n`],
    'an empty list beside chunked': [
      `${head('transfer-encoding:', 'transfer-encoding: chunked', 'transfer-encoding: ,')}2\r\nhi\r\n0\r\n\r\n`,
    ],
    'chunked in capitals': [`${head('Transfer-Encoding: Chunked  ')}2\r\nhi\r\n0\r\n\r\n`],
    'a tab behind the encoding': [`${head('transfer-encoding: chunked\t')}2\r\nhi\r\n0\r\n\r\n`],
    'chunks in HTTP/1.0': ['HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n'],
    'an odd keep-alive': [`${head('keep-alive: timeout=99999999999999999999', 'content-length: 2')}hi`],
    'no blank behind a colon': [`${head('content-length:2')}hi`],
    'an end without a length': [head('connection: close'), 'hi', 'END'],
  };
  for (const [name, pieces] of Object.entries(taken)) {
    const split = pieces.flatMap((piece) => (piece === 'END' ? [piece] : (piece.match(/.{1,2}/gsu) ?? [])));
    for (const sent of [pieces, split]) {
      const response = await ask(sent);
      assert.deepEqual([response.status, textOf(response)], [200, 'hi'], name);
    }
  }
  const { headers } = await ask(taken['a folded header'] ?? []);
  assert.deepEqual(headers[0], { name: 'x-a', value: 'one\t two  three' });
  const odd = await ask(['HTTP/1.1 999 x\r\ncontent-length: 2\r\n\r\nhi']);
  assert.deepEqual([odd.status, textOf(odd)], [999, 'hi'], 'a status of no known class is an answer');
});

test('blanks around the values of headers are no part of them', async (t) => {
  const { ask } = await bench(t);
  const long = ' '.repeat(30_000);
  const { headers } = await ask([
    head(
      'x-a: \t a \t b \t ',
      'x-b:    ',
      'x-c:c',
      `x-d: d${long}d${long}`,
      'x-e: \u00a0e\u00a0',
      'content-length: 0 ',
    ),
  ]);
  assert.deepEqual(
    headers.map(({ name, value }) => `${name}=${value}`),
    ['x-a=a \t b', 'x-b=', 'x-c=c', `x-d=d${long}d`, 'x-e=\u00a0e\u00a0', 'content-length=0'],
  );
});

test('what is no answer is refused in words for who asked', async (t) => {
  const { ask } = await bench(t);
  const status = (text: string): string => `HTTP/1.1 ${text}\r\ncontent-length: 2\r\n\r\nhi`;
  const refused: readonly (readonly [string, readonly Piece[], RegExp])[] = [
    ['status 000', [status('000 x')], /status is 000/],
    ['status 001', [status('001 x')], /status is 001/],
    ['status 099', [status('099 x')], /status is 099/],
    ['status 099, no body', ['HTTP/1.1 099 x\r\n\r\n', 'END'], /status is 099/],
    ['two digits', [status('20 x')], /three digits/],
    ['four digits', [status('2000 x')], /three digits/],
    ['no digits', [status('abc x')], /three digits/],
    ['a negative status', [status('-20 x')], /three digits/],
    ['a version of other bytes', ['HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nhi'], /version is not HTTP\/1/],
    ['a version without headers', ['HTTP/0.9 200 OK\r\n\r\nhi', 'END'], /version is not HTTP\/1/],
    ['a later version', ['HTTP/3.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'], /version is not HTTP\/1/],
    ['a version without a number', ['HTTP/1.x 200 OK\r\n\r\n'], /version/],
    ['a version of two digits', ['HTTP/1.10 200 OK\r\n\r\n'], /./],
    ['another protocol', ['ICY 200 OK\r\n\r\n'], /begin with HTTP/],
    ['HTTP/0.9', ['<html>', 'END'], /begin with HTTP/],
    ['line feeds alone', ['HTTP/1.1 200 OK\ncontent-length: 2\n\nhi'], /CR LF/],
    ['blanks behind the status', ['HTTP/1.1 200 OK\r\n\t\r\nx-a: one\r\n\r\n'], /header is malformed/],
    ['a line that is folded to the status', ['HTTP/1.1 200 OK\r\n x-a: one\r\n\r\n'], /header is malformed/],
    ['a blank before a colon', [`${head('x-a : one', 'content-length: 2')}hi`], /header is malformed/],
    ['no name', [`${head(': one', 'content-length: 2')}hi`], /header is malformed/],
    ['a zero byte', [`${head('x-a: a\0b', 'content-length: 2')}hi`], /header is malformed/],
    ['a carriage return', [`${head('x-a: a\rb', 'content-length: 2')}hi`], /CR LF/],
    ['content-length twice', [`${head('content-length: 2', 'content-length: 2')}hi`], /content-length is there twice$/],
    ['two lengths', [`${head('content-length: 2', 'content-length: 3')}hi`], /content-length is there twice$/],
    ['content-length as a list', [`${head('content-length: 2, 2')}hi`], /content-length is no number/],
    ['content-length with a sign', [`${head('content-length: +2')}hi`], /content-length is no number/],
    [
      'content-length over all numbers',
      [`${head(`content-length: ${'9'.repeat(30)}`)}hi`],
      /content-length is no number/,
    ],
    ['no content-length', [`${head('content-length:')}hi`, 'END'], /content-length is no number/],
    [
      'a length before chunks',
      [`${head('content-length: 2', 'transfer-encoding: chunked')}2\r\nhi\r\n0\r\n\r\n`],
      /content-length is beside transfer-encoding$/,
    ],
    [
      'a length behind chunks',
      [`${head('transfer-encoding: chunked', 'content-length: 2')}2\r\nhi\r\n0\r\n\r\n`],
      /content-length is beside transfer-encoding$/,
    ],
    [
      'chunks in chunks',
      [`${head('transfer-encoding: chunked', 'transfer-encoding: chunked')}2\r\nhi\r\n0\r\n\r\n`],
      /"chunked, chunked"/,
    ],
    ['identity', [`${head('transfer-encoding: identity')}hi`, 'END'], /"identity", and only chunked/],
    ['no encoding', [`${head('transfer-encoding: ')}hi`, 'END'], /transfer-encoding names no coding$/],
    ['no encoding in a list', [`${head('transfer-encoding: , ,')}hi`, 'END'], /transfer-encoding names no coding$/],
    ['no encoding beside a length', [`${head('transfer-encoding: ,', 'content-length: 2')}hi`], /names no coding$/],
    ['an encoding with a parameter', [`${head('transfer-encoding: chunked;a=b')}hi`], /"chunked;a=b"/],
    ['a line feed before it', [`\n${HI}`], /CR LF/],
    ['a carriage return before it', [`\r${HI}`], /CR LF/],
    ['a carriage return in the reason', [HI.replace('OK', 'O\rK')], /CR LF/],
    ['two carriage returns at the end of the head', ['HTTP/1.1 200 OK\r\r\nhi', 'END'], /CR LF/],
    ['another encoding', [`${head('transfer-encoding: gzip, chunked')}2\r\nhi\r\n0\r\n\r\n`], /"gzip, chunked"/],
    ['a chunk of no length', [`${CHUNKED}zz\r\nhi\r\n0\r\n\r\n`], /length of a chunk/],
    ['an empty line for a length', [`${CHUNKED}\r\nhi\r\n0\r\n\r\n`], /length of a chunk/],
    ['a blank before the length', [`${CHUNKED} 2\r\nhi\r\n0\r\n\r\n`], /length of a chunk/],
    ['a length with a sign', [`${CHUNKED}+2\r\nhi\r\n0\r\n\r\n`], /length of a chunk/],
    ['a longer chunk', [`${CHUNKED}2\r\nhi!\r\n0\r\n\r\n`], /does not end where its length says/],
    ['a chunk with a line feed', [`${CHUNKED}2\r\nhi\n0\r\n\r\n`], /does not end where its length says/],
    ['a length with a line feed', [`${CHUNKED}2\nhi\r\n0\r\n\r\n`], /CR LF/],
    ['an extension with a line feed', [`${CHUNKED}2;a\nhi\r\n0\r\n\r\n`], /CR LF/],
    ['an extension without a name', [`${CHUNKED}2;\r\nhi\r\n0\r\n\r\n`], /extension of a chunk/],
    ['an extension without its value', [`${CHUNKED}2;a=\r\nhi\r\n0\r\n\r\n`], /extension of a chunk/],
    ['an open quote', [`${CHUNKED}2;a="b\r\nhi\r\n0\r\n\r\n`], /extension of a chunk/],
    ['a control character in an extension', [`${CHUNKED}2;a\u0001\r\nhi\r\n0\r\n\r\n`], /extension of a chunk/],
    ['a trailer that is none', [`${CHUNKED}2\r\nhi\r\n0\r\nx y\r\n\r\n`], /header is malformed/],
    ['no end of chunks', [`${CHUNKED}2\r\nhi\r\n`, 'END'], /closed the connection before/],
    [
      'no end of chunks, closing',
      [`${head('transfer-encoding: chunked', 'connection: close')}2\r\nhi\r\n`, 'END'],
      /ended before/,
    ],
    [
      'content-length in a trailer',
      [`${CHUNKED}2\r\nhi\r\n0\r\ncontent-length: 2\r\n\r\n`],
      /content-length is in a trailer$/,
    ],
    ['half a body', [`${head('content-length: 9', 'connection: close')}hi`, 'END'], /ended before/],
    ['half a head', [HI.slice(0, 20), 'END'], /closed the connection/],
    ['nothing', ['END'], /closed the connection/],
    ['a reset at once', ['RESET'], /ECONNRESET/],
    ['a reset instead of an end', [head('connection: close'), 'hi', 'RESET'], /ECONNRESET/],
    ['a reset in HTTP/1.0', ['HTTP/1.0 200 OK\r\n\r\n', 'hi', 'RESET'], /ECONNRESET/],
    ['headers that are too large', [head(`x-a: ${'v'.repeat(70_000)}`)], /larger than 64 KiB/],
  ];
  for (const [name, pieces, words] of refused) await refuses(ask(pieces), words, name);
  await refuses(ask([status('099 x')], 'HEAD'), /status is 099/, 'HEAD');
  assert.equal(textOf(await ask([HI])), 'hi', 'and the next one is well');
});

test('a chunk that is longer than what is taken is refused before it comes', async (t) => {
  const { ask } = await bench(t);
  for (const length of ['1e8481', 'ffffffffffffffff', '9'.repeat(400)]) {
    const { code, message } = await failureOf(ask([`${CHUNKED}2\r\nhi\r\n${length};a\r\n`]));
    assert.equal(code, 'outcall-too-large', length);
    assert.match(message, /more than the 2000000 bytes/);
  }
});

test('an answer without a body may say how one would be sent', async (t) => {
  const { ask } = await bench(t);
  const gzip = head('transfer-encoding: gzip, chunked');
  assert.equal(textOf(await ask([gzip], 'HEAD')), '');
  assert.equal((await ask([gzip.replace('200', '304')])).status, 304);
});

test('behind chunks in HTTP/1.0 nobody knows where another answer begins', async (t) => {
  const { ask, connections } = await bench(t);
  const old = 'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n';
  assert.equal(textOf(await ask([`${old}content-length: 2\r\n\r\nhi`])), 'hi');
  assert.equal(textOf(await ask([`${old}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`])), 'hi');
  assert.equal(connections(), 1);
  assert.equal(textOf(await ask([HI])), 'hi');
  assert.equal(connections(), 2);
});

test('a server that answers before it has read the request, and reads no more of it, delays no other request', async (t) => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    socket.once('data', () => {
      socket.pause();
      socket.write(HI);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const outcalls = new UndiciOutcalls({ denyPrivate: false });
  t.after(() => {
    outcalls.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  // More than the system takes before anybody reads it.
  const body = new Uint8Array(64 * 2 ** 20);
  assert.equal(textOf(await outcalls.send(requestOf(url, { method: 'POST', body }), NEVER)), 'hi');
  assert.equal(textOf(await outcalls.send(requestOf(url), { signal: AbortSignal.timeout(60_000) })), 'hi');
  assert.equal(sockets.length, 2);
});

test('a connection that cannot be made is told by its code, without an address of this machine', async (t) => {
  const outcalls = new UndiciOutcalls({ denyPrivate: false });
  t.after(() => outcalls.close());
  const { message } = await failureOf(outcalls.send(requestOf('http://255.255.255.255:9/'), NEVER));
  assert.match(message, /\(E[A-Z]+\)$/);
  assert.doesNotMatch(message, /0[.]0[.]0[.]0|Local|connect /);
});

function withoutBody(piece: Piece): Piece {
  return piece.endsWith('\r\n\r\nhi') ? piece.slice(0, -2) : piece;
}
