/**
 * A client of HTTP/2 over TLS, as browsers and curl are: a stream that was ended by REFUSED_STREAM is asked again,
 * because that is the promise that nobody has begun to work on it (RFC 9113, 8.7).
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';

const AUTHORITY = readFileSync(new URL('../fixtures/tls/ca.pem', import.meta.url));
const REPEATS_MAX = 5;
const SESSION_MEGABYTES_MAX = 1000;

interface Http2Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Http2Request {
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
}

export class Http2Client implements AsyncDisposable {
  readonly #session: ClientHttp2Session;
  /** Number of requests that were sent again because they had been refused. */
  repeats = 0;

  /** Opens a connection to a port of 127.0.0.1, from another loopback address: the proxy's own would be trusted. */
  static async connect(port: number, localAddress = '127.0.0.2'): Promise<Http2Client> {
    const tcp = connectTcp({ host: '127.0.0.1', port, localAddress });
    await once(tcp, 'connect');
    const socket = connectTls({ socket: tcp, servername: 'localhost', ca: AUTHORITY, ALPNProtocols: ['h2'] });
    await once(socket, 'secureConnect');
    if (socket.alpnProtocol !== 'h2') throw new Error(`the proxy speaks ${String(socket.alpnProtocol)}, not HTTP/2`);
    // Node counts bodies that are being sent, and answers nothing more when they pass 10 MB.
    const options = { createConnection: () => socket, maxSessionMemory: SESSION_MEGABYTES_MAX };
    return new Http2Client(connect(`https://localhost:${port}`, options));
  }

  private constructor(session: ClientHttp2Session) {
    this.#session = session;
    session.on('error', () => undefined); // Requests under way fail with it.
  }

  /** Sends a request and reads all of the answer; rejects if there is none. */
  async request(method: string, path: string, { headers = {}, body }: Http2Request = {}): Promise<Http2Answer> {
    for (let sent = 0; ; sent++) {
      const stream = this.#open(method, path, headers, body);
      try {
        const answered = await headersOf(stream);
        let text = '';
        stream.setEncoding('utf8');
        for await (const part of stream) text += String(part);
        return { status: Number(answered[':status']), headers: answered, body: text };
      } catch (error) {
        if (stream.rstCode !== constants.NGHTTP2_REFUSED_STREAM || sent === REPEATS_MAX) throw error;
        this.repeats++;
      }
    }
  }

  /** Opens a stream of server-sent events. */
  async events(path: string, headers: OutgoingHttpHeaders = {}): Promise<Http2Events> {
    const stream = this.#open('GET', path, { accept: 'text/event-stream', ...headers });
    const answered = await headersOf(stream);
    if (Number(answered[':status']) !== 200) throw new Error(`${path}: ${String(answered[':status'])}`);
    return new Http2Events(stream);
  }

  #open(method: string, path: string, headers: OutgoingHttpHeaders, body?: string | Uint8Array): ClientHttp2Stream {
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
    const stream = this.#session.request({ ':method': method, ':path': path, ...length, ...headers });
    stream.on('error', () => undefined); // Readers of the answer get it, too.
    stream.end(body);
    return stream;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#session.destroy();
    return Promise.resolve();
  }
}

/** Resolves to the headers of the answer; rejects if the stream ends without one. */
async function headersOf(stream: ClientHttp2Stream): Promise<IncomingHttpHeaders> {
  const unanswered = once(stream, 'close').then(() => {
    throw new Error(`the stream was ended without an answer (code ${String(stream.rstCode)})`);
  });
  const [answered] = (await Promise.race([once(stream, 'response'), unanswered])) as [IncomingHttpHeaders];
  return answered;
}

/** Events of a stream as they come. */
class Http2Events {
  readonly #stream: ClientHttp2Stream;
  readonly #parts: AsyncIterator<unknown>;
  #text = '';

  constructor(stream: ClientHttp2Stream) {
    this.#stream = stream;
    this.#parts = stream.setEncoding('utf8')[Symbol.asyncIterator]();
  }

  /** Resolves to the next event as it was sent, comments left out; rejects when the stream has ended. */
  async next(): Promise<string> {
    for (;;) {
      const end = this.#text.indexOf('\n\n');
      if (end >= 0) {
        const event = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        if (!event.startsWith(':')) return event;
        continue;
      }
      const part = await this.#parts.next();
      if (part.done === true) throw new Error('the stream has ended');
      this.#text += String(part.value);
    }
  }

  close(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }
}
