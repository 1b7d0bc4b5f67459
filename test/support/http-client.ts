import { once } from 'node:events';
import {
  type Agent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
} from 'node:http';
import { connect, type Socket } from 'node:net';

/** An answer that was read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
  /** The body parsed as JSON. */
  json(): unknown;
}

interface SendOptions {
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
  /** If given, the connection is kept and reused. */
  readonly agent?: Agent;
}

/** Sends one request with exactly this target (without the normalisation of `fetch`) and reads the whole answer. */
export async function send(origin: string, method: string, target: string, options: SendOptions = {}): Promise<Answer> {
  const { hostname, port } = new URL(origin);
  const headers: OutgoingHttpHeaders = { ...options.headers };
  const length = options.body === undefined ? 0 : Buffer.byteLength(options.body);
  if (options.body !== undefined && headers['transfer-encoding'] === undefined) headers['content-length'] ??= length;
  const request = httpRequest({
    host: hostname.replace(/^\[|\]$/g, ''),
    port,
    method,
    path: target,
    headers,
    agent: options.agent ?? false,
  });
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  request.end(options.body);
  const [response] = await answered;
  // A server that has answered may end the connection while the body is still being sent.
  request.on('error', () => undefined);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return answerOf(response.statusCode ?? 0, response.headers, Buffer.concat(chunks));
}

function answerOf(status: number, headers: IncomingHttpHeaders, body: Buffer): Answer {
  const text = body.toString('utf8');
  return { status, headers, body, text, json: () => JSON.parse(text) as unknown };
}

/** Time limit of a read: answers come soon, but a machine that is busy elsewhere may delay both sides for seconds. */
const PATIENCE_MS = 60_000;

/** A client that writes bytes as they are, for input that a proper client would not send. */
export class RawClient implements AsyncDisposable {
  readonly #socket: Socket;
  #received = '';

  constructor(origin: string) {
    const { hostname, port } = new URL(origin);
    this.#socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) });
    this.#socket.setEncoding('latin1');
    this.#socket.on('data', (text: string) => {
      this.#received += text;
    });
    this.#socket.on('error', () => undefined); // A reset connection shows as `ended`.
  }

  get isClosed(): boolean {
    return this.#socket.closed;
  }

  /** All bytes received so far, as Latin-1. */
  get received(): string {
    return this.#received;
  }

  write(text: string | Uint8Array): void {
    if (typeof text === 'string') this.#socket.write(text, 'latin1');
    else this.#socket.write(text);
  }

  /** Stops reading until `resume`. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Resolves when the received text contains `text`; rejects after `timeoutMs`. */
  async until(text: string, timeoutMs = PATIENCE_MS): Promise<string> {
    const signal = AbortSignal.timeout(timeoutMs);
    while (!this.#received.includes(text)) {
      if (this.#socket.closed)
        throw new Error(`closed before ${JSON.stringify(text)}; received ${JSON.stringify(this.#received)}`);
      const round = new AbortController();
      const either = { signal: AbortSignal.any([signal, round.signal]) };
      try {
        await Promise.race([once(this.#socket, 'data', either), once(this.#socket, 'close', either)]);
      } catch (error) {
        throw new Error(
          `no ${JSON.stringify(text)} within ${timeoutMs} ms; received ${JSON.stringify(this.#received)}`,
          { cause: error },
        );
      } finally {
        round.abort();
      }
    }
    return this.#received;
  }

  /** Resolves with all received text when the server has ended the connection. */
  async ended(timeoutMs = PATIENCE_MS): Promise<string> {
    if (!this.#socket.closed && !this.#socket.readableEnded) {
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        await Promise.race([once(this.#socket, 'end', { signal }), once(this.#socket, 'close', { signal })]);
      } catch (error) {
        throw new Error(`not ended within ${timeoutMs} ms; received ${JSON.stringify(this.#received)}`, {
          cause: error,
        });
      }
    }
    return this.#received;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#socket.closed) return;
    const closed = once(this.#socket, 'close');
    this.#socket.destroy();
    await closed;
  }
}
