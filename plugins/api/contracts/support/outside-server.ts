/**
 * A server of the outside world, HTTP or HTTPS, over bare sockets. Each request's path decides whether it behaves well
 * or badly.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { gzipSync } from 'node:zlib';

/** Owner of the server, a test, which ends it. */
interface ServerOwner {
  after(end: () => Promise<void>): void;
}

/** Key and certificate as PEM. */
interface ServerCertificate {
  readonly key: string;
  readonly cert: string;
}

interface Received {
  readonly method: string;
  readonly target: string;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export interface OutsideServer {
  /** URL of the server: `http://127.0.0.1:1234`. */
  readonly origin: string;
  readonly port: number;
  /** Whole requests in order of arrival. */
  readonly received: readonly Received[];
  /** Connections that were made; `open` counts those that still exist. */
  readonly connections: number;
  readonly open: number;
  /** Bytes written so far. */
  readonly written: number;
  /** Resolves when this many requests have arrived. */
  arrived(count: number): Promise<void>;
  /** Answers the requests that `/held` keeps. */
  release(): void;
  close(): Promise<void>;
}

const CHUNK = Buffer.alloc(64 * 1024, 'x');
const text = (body: string, head = '', status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${head}\r\n${body}`;

const interim = (status: number): string => `HTTP/1.1 ${status} Whatever\r\nx-interim: 1\r\n\r\n`;

/** Answers a request. The path's first segment chooses the answer; a number after it is `n`. */
type Answer = (socket: Socket, request: Received, n: number) => void;

export async function startOutsideServer(
  t: ServerOwner,
  { certificate, port = 0 }: { readonly certificate?: ServerCertificate; readonly port?: number } = {},
): Promise<OutsideServer> {
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  const held: (() => void)[] = [];
  const waiters: (() => void)[] = [];
  let connections = 0;
  let written = 0;

  /** Writes without end, as fast as the client reads. */
  const pour = (socket: Socket, piece: Uint8Array): void => {
    const more = (): void => {
      while (!socket.destroyed && socket.writable) {
        written += piece.length;
        if (!socket.write(piece)) return;
      }
    };
    socket.on('drain', more);
    more();
  };
  const every = (socket: Socket, ms: number, work: () => void): void => {
    const timer = setInterval(work, ms);
    socket.once('close', () => clearInterval(timer));
  };

  const answers: Readonly<Record<string, Answer>> = {
    hello: (socket) => socket.write(text('hello', 'content-type: text/plain\r\n')),
    json: (socket, _request, n) => socket.write(text(JSON.stringify({ n, name: 'Ada' }), 'X-Mixed: Case\r\n')),
    echo: (socket, { method, target, headers, body }) =>
      socket.write(text(JSON.stringify({ method, target, headers: [...headers], body: body.toString('base64') }))),
    status: (socket, _request, n) => socket.write(text('as asked', '', `${n} Whatever`)),
    head: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n'),
    bodiless: (socket, _request, n) => {
      const final = n < 200 ? text('hello') : '';
      socket.write(`HTTP/1.1 ${n} Whatever\r\ncontent-length: 99999999\r\netag: "1"\r\n\r\n${final}`);
    },
    interims: (socket, _request, n) => socket.write(`${interim(n).repeat(3)}${text('hello')}`),
    interimslate: (socket, _request, n) => {
      socket.write(interim(n).slice(0, 12));
      setTimeout(() => socket.write(interim(n).slice(12)), 5);
      setTimeout(() => socket.write(text('hello')), 10);
    },
    blanks: (socket) => socket.write(text('', 'x-blanks:  \t a b \t \r\n')),
    bytes: (socket, _request, n) => socket.write(text('b'.repeat(n))),
    chunked: (socket, _request, n) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      for (let sent = 0; sent < n; sent++) socket.write('1\r\nc\r\n');
      socket.write('0\r\n\r\n');
    },
    until: (socket, _request, n) => socket.end(`HTTP/1.0 200 OK\r\n\r\n${'u'.repeat(n)}`),
    gzip: (socket, _request, n) => {
      const body = gzipSync(Buffer.alloc(n));
      socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n`);
      socket.write(body);
    },
    utf8: (socket) => socket.write(Buffer.from(text('', 'x-utf8: grüß\r\n'), 'utf8')),
    latin1: (socket) => socket.write(Buffer.from(text('', 'x-latin1: grüß\r\n'), 'latin1')),
    headers: (socket, _request, n) =>
      socket.write(text('', Array.from({ length: n }, (_, at) => `x-${at}: v\r\n`).join(''))),
    longheader: (socket, _request, n) => socket.write(text('', `x-long: ${'v'.repeat(n)}\r\n`)),
    redirect: (socket, { target }) => socket.write(text('', `location: ${target}\r\n`, '302 Found')),
    held: (socket) => void held.push(() => socket.write(text('at last'))),
    // ---- misbehaviour
    stall: () => undefined,
    stallbody: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'),
    drip: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      every(socket, 5, () => socket.write('1\r\nd\r\n'));
    },
    flood: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      pour(socket, CHUNK);
    },
    announced: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n');
      pour(socket, CHUNK);
    },
    headerflood: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      pour(socket, Buffer.from(`x-more: ${'h'.repeat(1000)}\r\n`));
    },
    extensions: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1');
      pour(socket, Buffer.from(`;${'e'.repeat(60_000)}`));
    },
    interim: (socket) => pour(socket, Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n')),
    trailers: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n');
      pour(socket, Buffer.from(`x-trailer: ${'t'.repeat(1000)}\r\n`));
    },
    badheader: (socket) => socket.write('HTTP/1.1 200 OK\r\nno colon here\r\n\r\n'),
    badstatus: (socket) => socket.write('HTTP/1.1 hello\r\n\r\n'),
    lowstatus: (socket) => socket.write('HTTP/1.1 099 Whatever\r\ncontent-length: 0\r\n\r\n'),
    nothttp: (socket) => socket.write('SSH-2.0-OpenSSH_9.9\r\n'),
    smuggle: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello'),
    upgrade: (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    close: (socket) => socket.destroy(),
    closeearly: (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'),
    reset: (socket) => void socket.resetAndDestroy(),
    closechunked: (socket) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe'),
    toolong: (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhello, and more'),
  };

  const serve = (socket: Socket): void => {
    connections++;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
    let rest = Buffer.alloc(0);
    socket.on('data', (piece: Buffer) => {
      rest = Buffer.concat([rest, piece]);
      // The client starts a TLS handshake, but this server has no TLS.
      if (rest[0] === 0x16) socket.end(text('', '', '400 Bad Request'));
      for (;;) {
        const end = rest.indexOf('\r\n\r\n');
        if (end < 0) return;
        const [first = '', ...lines] = rest.toString('latin1', 0, end).split('\r\n');
        const headers = new Map(
          lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
        );
        const length = Number(headers.get('content-length') ?? 0);
        if (rest.length < end + 4 + length) return;
        const [method = '', target = ''] = first.split(' ');
        const request = { method, target, headers, body: rest.subarray(end + 4, end + 4 + length) };
        rest = rest.subarray(end + 4 + length);
        received.push(request);
        for (const wake of waiters.splice(0)) wake();
        const [, name = '', n = '0'] = /^\/(\w*)\/?(\d*)/.exec(target) ?? [];
        const answer = answers[name];
        if (answer === undefined) socket.write(text('no such page', '', '404 Not Found'));
        else answer(socket, request, Number(n));
      }
    });
  };

  const server: Server = certificate === undefined ? createServer(serve) : createTlsServer({ ...certificate }, serve);
  server.on('tlsClientError', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const bound = (server.address() as AddressInfo).port;
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    if (!server.listening) return;
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return {
    origin: `${certificate === undefined ? 'http' : 'https'}://${certificate === undefined ? '127.0.0.1' : 'localhost'}:${bound}`,
    port: bound,
    received,
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    get written() {
      return written;
    },
    arrived: async (count) => {
      while (received.length < count) await new Promise<void>((resolve) => waiters.push(resolve));
    },
    release: () => {
      for (const answer of held.splice(0)) answer();
    },
    close,
  };
}
