/**
 * A process of harmful clients, for tests that measure their effect on others:
 *
 *     node hostile-client.ts <origin> <kind> <connections>
 *
 * Each kind keeps so many connections busy until the process is killed; a closed connection is made anew. All begin
 * when most of them are connected: before, the first would keep the server from the others for seconds. Again and again
 * the process prints a line of JSON: connections now, connections closed by the server, bytes received.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { TestOwner } from './server.ts';

const THIS_FILE = fileURLToPath(import.meta.url);
const WRITE_BYTES = 64 * 1024;
const AGAIN_MS = 1000;
const DRIP_MS = 1000;
const TELL_EVERY_MS = 50;
/** The share of connections that have been made when all begin. */
const MOST = 0.9;
/**
 * Number of connections that are opened at a time: a system queues a few hundred that the server has not accepted yet.
 */
const OPENED_AT_ONCE = 50;

const filled = (request: string): string => request.repeat(Math.ceil(WRITE_BYTES / request.length));

/** Writes without end, as fast as the server reads. */
function pour(socket: Socket, first: string, more: string): void {
  const write = (): void => {
    while (!socket.destroyed && socket.write(more, 'latin1'));
  };
  socket.on('drain', write);
  socket.write(first, 'latin1');
  write();
}

const KINDS = {
  /** Sends requests without end, and reads the answers without waiting for them. */
  pipelining: (socket: Socket) => pour(socket, '', filled('GET /health HTTP/1.1\r\nHost:\r\n\r\n')),
  /** Sends the same, and reads nothing. */
  deaf(socket: Socket) {
    socket.pause();
    pour(socket, '', filled('GET /version HTTP/1.1\r\nHost:\r\n\r\n'));
  },
  /** Calls without a token, each with a body. */
  refused: (socket: Socket) =>
    pour(socket, '', filled('POST /call/counter/inc HTTP/1.1\r\nHost:\r\nContent-Length: 1\r\n\r\nx')),
  /** One request whose body comes in chunks of one byte. */
  crumbs: (socket: Socket) =>
    pour(socket, 'GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', filled('1\r\nx\r\n')),
  /** Requests of 3,000 header lines. */
  headers: (socket: Socket) =>
    pour(socket, '', filled(`GET /health HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(3000)}\r\n`)),
  /** Asks an open method without end. */
  openQueries: (socket: Socket) =>
    pour(socket, '', filled('POST /query-json/shop/get HTTP/1.1\r\nHost:\r\nContent-Length: 2\r\n\r\n[]')),
  /** Calls an open method that changes the actor, without end; each call has a key of its own. */
  openUpdates(socket: Socket) {
    let key = 0;
    const prefix = Math.random().toString(36).slice(2);
    const request = (): string =>
      `POST /call-json/shop/inc HTTP/1.1\r\nHost:\r\nIdempotency-Key: ${prefix}${key++}\r\nContent-Length: 2\r\n\r\n[]`;
    const write = (): void => {
      while (!socket.destroyed && socket.write(request()));
    };
    socket.on('drain', write);
    write();
  },
  /** One call of an open method whose body comes in chunks of one byte. */
  openCrumbs: (socket: Socket) =>
    pour(
      socket,
      'POST /call-json/shop/inc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n',
      filled('1\r\n \r\n'),
    ),
  /** Watches an open query. */
  openWatches: (socket: Socket) => void socket.write('GET /watch/shop/get HTTP/1.1\r\nHost:\r\n\r\n'),
  /** Does nothing. */
  silent: () => undefined,
  /** Sends a header, letter by letter. */
  dripping(socket: Socket) {
    socket.write('GET /health HTTP/1.1\r\nA: ');
    const timer = setInterval(() => socket.write('a'), DRIP_MS);
    socket.once('close', () => clearInterval(timer));
  },
  /** Connects and disconnects without end. */
  churning: (socket: Socket) => void socket.destroy(),
} satisfies Record<string, (socket: Socket) => void>;

export type Hostility = keyof typeof KINDS;

interface HostileClient {
  readonly kind: Hostility;
  /** Last line that the process printed. */
  readonly said: { readonly open: number; readonly closed: number; readonly bytes: number };
  stop(): Promise<void>;
}

/**
 * Starts a process with so many clients of one kind; it is killed when the test ends. Resolves when most of them were
 * connected.
 */
export async function startHostileClient(
  t: TestOwner,
  origin: string,
  kind: Hostility,
  connections: number,
): Promise<HostileClient> {
  const child: ChildProcess = spawn(process.execPath, [THIS_FILE, origin, kind, String(connections)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let said: HostileClient['said'] = { open: 0, closed: 0, bytes: 0 };
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
  };
  t.after(stop);
  const isUp = Promise.withResolvers<void>();
  child.once('exit', () => isUp.reject(new Error(`the ${kind} client ended`)));
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said = JSON.parse(text.trim().split('\n').at(-1) ?? '') as HostileClient['said'];
    if (said.open + said.closed >= connections * MOST) isUp.resolve();
  });
  await isUp.promise;
  return {
    kind,
    get said() {
      return said;
    },
    stop,
  };
}

function main(origin: string, kind: Hostility, connections: number): void {
  const { hostname, port } = new URL(origin);
  const act: (socket: Socket) => void = KINDS[kind];
  let open = 0;
  let closed = 0;
  let bytes = 0;
  /** Connections that wait for the others; undefined once all have begun. */
  let waiting: Socket[] | undefined = [];
  const connected = (socket: Socket): void => {
    open++;
    socket.once('close', () => open--);
    if (waiting === undefined) return act(socket);
    waiting.push(socket);
    if (open + closed < connections * MOST) return;
    const first = waiting.filter(({ destroyed }) => !destroyed);
    waiting = undefined;
    for (const each of first) act(each);
  };
  const begin = (): void => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on('error', () => undefined);
    socket.once('connect', () => connected(socket));
    if (kind !== 'deaf') socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
    socket.once('close', () => {
      closed++;
      setTimeout(begin, kind === 'churning' ? 0 : AGAIN_MS);
    });
  };
  let left = connections;
  const opening = setInterval(() => {
    for (let i = 0; i < OPENED_AT_ONCE && left > 0; i++, left--) begin();
    if (left === 0) clearInterval(opening);
  }, 10);
  setInterval(() => process.stdout.write(`${JSON.stringify({ open, closed, bytes })}\n`), TELL_EVERY_MS);
}

if (import.meta.main) {
  const [origin = '', kind = '', connections = ''] = process.argv.slice(2);
  main(origin, kind as Hostility, Number(connections));
}
