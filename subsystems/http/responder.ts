import { LINK_NOTE } from '../cluster/index.ts';
import { ERROR_KIND_OF_OUTCOME, REJECT_CODE, type Outcome } from '../ic/index.ts';
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { SiteAnswer } from '../gateway/index.ts';
import { comeBackLater, isEventSource } from './event-source.ts';
import { errorCodeOf, HTTP_STATUS } from './http-status.ts';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ServedResponse } from './served-response.ts';
import { TurnLine } from './turn-line.ts';
import { UntakenAnswers } from './untaken-answers.ts';

export const TEXT = 'text/plain; charset=utf-8';
export const JSON_TYPE = 'application/json; charset=utf-8';
export const BYTES = 'application/octet-stream';
const EVENTS = 'text/event-stream; charset=utf-8';

/**
 * Bytes up to which a body leaves in one write with the header, as one Latin-1 string (a byte a character); larger
 * bodies are handed over as they are.
 */
const JOINED_BYTES_MAX = 16 * 1024;
/** Bytes up to which building the string in a loop beats the call into native code. */
const LOOPED_BYTES_MAX = 64;
/** Milliseconds that a client that is refused in the middle of its body may take to read the answer. */
const LINGER_MS = 1000;
/** Longer texts of actors take turns. */
const TEXT_AT_ONCE_MAX = 64 * 1024;
const RETRY_AFTER_SECONDS = 1;
/**
 * Milliseconds between two looks of a stream whose client takes nothing: has that lasted too long, or does the server
 * stop?
 */
const STALL_CHECK_MS = 250;

const NO_HEADERS: readonly string[] = [];
/** Headers of a 401. */
export const CHALLENGE: readonly string[] = ['www-authenticate', 'Bearer'];
const RETRY_HEADERS: readonly string[] = ['retry-after', String(RETRY_AFTER_SECONDS)];
const CLOSE_HEADERS: readonly string[] = ['connection', 'close'];
const ALLOW_ORIGIN = 'access-control-allow-origin';
const EXPOSE_HEADERS = 'access-control-expose-headers';
/** Headers of our answers that a page of another origin may read, besides those that every page may (Fetch, 2.2.2). */
const EXPOSED =
  'svc-version, svc-message, retry-after, www-authenticate, etag, content-disposition, svc-next, svc-reach, svc-at';
/** Headers that are not an actor's to set, by their length; ALLOW_ORIGIN may be set once. */
const OUR_SITE_HEADERS: ReadonlyMap<number, readonly string[]> = new Map([
  [10, ['connection']],
  [11, ['svc-version']],
  [LINK_NOTE.length, [LINK_NOTE]],
  [14, ['content-length']],
  [17, ['transfer-encoding']],
  [ALLOW_ORIGIN.length, [ALLOW_ORIGIN]],
]);

interface StreamOptions {
  /** Further headers, names and values by turns. */
  readonly more?: readonly string[];
  /** True if the answer lasts only as long as its client takes to read it: a server that stops lets it end. */
  readonly isSoonOver?: boolean;
  /** Ends the answer with its reason, also while the client takes nothing. */
  readonly signal?: AbortSignal;
  /** Milliseconds for which the client may take nothing, if that is less than for every answer. */
  readonly stallMaxMs?: number;
}

interface ResponderOptions {
  readonly clock: Clock;
  /** Milliseconds that a streamed answer waits for a client that takes nothing. */
  readonly stallMaxMs: number;
  /** Bytes of answers that may wait for clients; see UntakenAnswers. */
  readonly untakenBytesMax?: number | undefined;
}

/**
 * Writes every answer: one `writeHead` with a flat list of headers and one `end`. That is the cheapest form that
 * node:http has (3 to 4 µs less a request than setting headers one by one and sending a buffer), and the one place
 * that puts the version and the CORS header on each answer.
 */
export class Responder {
  readonly #version: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #stallMaxMs: number;
  /** Answers of websites, and answers to clients that have not shown the token. */
  readonly #untaken: UntakenAnswers;
  /** Answers with long texts. */
  readonly #long = new TurnLine();
  /** True when the server stops: every further answer ends its connection, unless another one is owed behind it. */
  isClosing = false;
  /** Returns true if no other request has begun on the connection since. */
  isNewest: (response: ServerResponse) => boolean = () => true;
  /**
   * Returns true if the connection has not shown the token. Answers to other clients are bounded by whoever sends
   * them.
   */
  isStranger: (response: ServerResponse) => boolean = () => true;

  /** Called for each answer of the server's own that is 401 or 403, before it leaves. */
  onDenied: ((response: ServerResponse, status: number) => void) | undefined = undefined;

  constructor(version: string, log: Logger, { clock, stallMaxMs, untakenBytesMax }: ResponderOptions) {
    this.#version = version;
    this.#log = log;
    this.#clock = clock;
    this.#stallMaxMs = stallMaxMs;
    this.#untaken = new UntakenAnswers(untakenBytesMax);
  }

  bytes(
    response: ServerResponse,
    status: number,
    contentType: string,
    body: Uint8Array,
    more: readonly string[] = NO_HEADERS,
  ): void {
    const headers: (string | number)[] = [
      'svc-version',
      this.#version,
      ALLOW_ORIGIN,
      '*',
      EXPOSE_HEADERS,
      EXPOSED,
      'content-type',
      contentType,
      'content-length',
      body.length,
    ];
    if (more.length > 0) headers.push(...more);
    if (this.#endsConnection(response)) headers.push(...CLOSE_HEADERS);
    response.writeHead(status, headers);
    const mayWait = endWith(response, body);
    if (mayWait && this.isStranger(response)) this.#untaken.wrote(response);
    this.#answered(response, status);
  }

  text(response: ServerResponse, status: number, text: string, more?: readonly string[]): void {
    this.bytes(response, status, TEXT, Buffer.from(text, 'utf8'), more);
  }

  json(response: ServerResponse, status: number, value: unknown, more?: readonly string[]): void {
    this.bytes(response, status, JSON_TYPE, Buffer.from(JSON.stringify(value), 'utf8'), more);
  }

  /**
   * Streams an answer of unknown length, as fast as the client takes it; resolves with the number of bytes. The
   * header waits for the first piece: a failure before it is answered as an error. A later failure cuts the
   * connection, so that the client does not take a part for the whole; so does a client that stalls and, unless the
   * answer is soon over, a server that stops. `pieces` is always ended by its `return`.
   */
  stream(
    response: ServerResponse,
    contentType: string,
    pieces: AsyncIterable<Uint8Array>,
    { more = NO_HEADERS, ...options }: StreamOptions = {},
  ): Promise<number> {
    const headers = ['svc-version', this.#version, ALLOW_ORIGIN, '*', EXPOSE_HEADERS, EXPOSED];
    return this.#stream(response, 200, [...headers, 'content-type', contentType, ...more], pieces, options);
  }

  async #stream(
    response: ServerResponse,
    status: number,
    headers: readonly (string | number)[],
    pieces: AsyncIterable<Uint8Array>,
    options: StreamOptions = {},
  ): Promise<number> {
    let bytes = 0;
    for await (const piece of pieces) {
      if (response.destroyed) throw cut(bytes, 'the client is gone');
      if (this.isClosing && options.isSoonOver !== true) throw cut(bytes, 'the server stops');
      if (piece.length === 0) continue;
      if (!response.headersSent) response.writeHead(status, [...headers]);
      bytes += piece.length;
      const hasRoom = response.write(piece);
      // When node:http has handed it on, at the end of this turn.
      process.nextTick(() => this.#untaken.wrote(response));
      if (!hasRoom) await this.#drained(response, bytes, options);
    }
    if (response.destroyed) throw cut(bytes, 'the client is gone');
    if (!response.headersSent) response.writeHead(status, [...headers]);
    response.end();
    this.#untaken.wrote(response);
    this.#answered(response, status);
    return bytes;
  }

  /**
   * Resolves when there is room again, or the client is gone. While the server stops, a client that takes nothing is
   * soon gone (connections.ts).
   */
  async #drained(
    response: ServerResponse,
    bytes: number,
    { isSoonOver = false, signal, stallMaxMs = Number.POSITIVE_INFINITY }: StreamOptions,
  ): Promise<void> {
    const mostMs = Math.min(this.#stallMaxMs, stallMaxMs);
    if (this.isClosing && !isSoonOver) throw cut(bytes, 'the server stops');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const settle = (): void => resolve();
    response.once('drain', settle).once('close', settle);
    let waitedMs = 0;
    using _looking = this.#clock.every(STALL_CHECK_MS, () => {
      waitedMs += STALL_CHECK_MS;
      if (signal?.aborted === true) reject(signal.reason as Error);
      else if (this.isClosing && !isSoonOver) reject(cut(bytes, 'the server stops'));
      else if (waitedMs >= mostMs) reject(cut(bytes, `the client has taken nothing for ${waitedMs} ms`));
    });
    try {
      if (!response.destroyed) await promise;
    } finally {
      response.off('drain', settle).off('close', settle);
    }
  }

  /**
   * Sends the answer of a website. If a part of its body is streamed, that part goes out as `stream` says, and the
   * promise resolves when all of it has been sent; otherwise the answer has been given on return.
   */
  site(response: ServerResponse, { status, headers: own, body, rest }: SiteAnswer): Promise<number> | undefined {
    const headers = this.#siteHeaders(own);
    if (this.#endsConnection(response)) headers.push(...CLOSE_HEADERS);
    const isHead = response.req.method === 'HEAD';
    const mayHaveBody = status !== 204 && status !== 304;
    const hasBody = mayHaveBody && !isHead;
    if (rest !== undefined && hasBody) {
      if (response instanceof ServedResponse) response.isOpenEnded = true;
      return this.#stream(response, status, headers, joined(body, rest));
    }
    // A HEAD is told the length that a GET would have only where it is known.
    const isLengthKnown = hasBody || (isHead && rest === undefined && body.length > 0);
    if (mayHaveBody && isLengthKnown) headers.push('content-length', body.length);
    response.writeHead(status, headers);
    const mayWait = endWith(response, hasBody ? body : undefined);
    if (mayWait) this.#untaken.wrote(response);
    this.#answered(response, status);
    return undefined;
  }

  /** While the server stops. An answer that says so is the connection's last one: node:http sends none behind it. */
  #endsConnection(response: ServerResponse): boolean {
    return this.isClosing && this.isNewest(response);
  }

  /** The actor's headers, and ours: what an actor says of the connection and the version does not count. */
  #siteHeaders(own: readonly string[]): (string | number)[] {
    const headers: (string | number)[] = ['svc-version', this.#version];
    let hasOrigin = false;
    for (let at = 0; at < own.length; at += 2) {
      const name = own[at] ?? '';
      const known = OUR_SITE_HEADERS.get(name.length);
      if (known !== undefined) {
        const lower = name.toLowerCase();
        if (lower === ALLOW_ORIGIN) {
          if (hasOrigin) continue;
          hasOrigin = true;
        } else if (known.includes(lower)) continue;
      }
      headers.push(name, own[at + 1] ?? '');
    }
    if (!hasOrigin) headers.push(ALLOW_ORIGIN, '*');
    return headers;
  }

  /**
   * Begins an answer that stays open (event-streams.ts). The header leaves with the first bytes, or at the end of
   * this turn.
   */
  beginEvents(response: ServerResponse): void {
    // The connection ends with it, so nothing has to mark the ends of its pieces.
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, [
      'svc-version',
      this.#version,
      ALLOW_ORIGIN,
      '*',
      EXPOSE_HEADERS,
      EXPOSED,
      'content-type',
      EVENTS,
      'cache-control',
      'no-store',
      // Some proxies keep small answers back unless they are told not to.
      'x-accel-buffering',
      'no',
      ...CLOSE_HEADERS,
    ]);
    if (response instanceof ServedResponse) response.isOpenEnded = true;
    // Counted as it begins: it may be open for days.
    this.#answered(response, 200);
    setImmediate(() => response.flushHeaders());
  }

  /** Answers in place of a 503, which would end an `EventSource` for good (event-source.ts). */
  comeBackLater(response: ServerResponse, code: number, message: string): void {
    this.bytes(response, 200, EVENTS, comeBackLater(code, message), ['cache-control', 'no-store']);
  }

  /** An answer without a body (204). */
  empty(response: ServerResponse, status: number, more: readonly string[]): void {
    const headers: string[] = ['svc-version', this.#version, ALLOW_ORIGIN, '*', EXPOSE_HEADERS, EXPOSED, ...more];
    if (this.#endsConnection(response)) headers.push(...CLOSE_HEADERS);
    response.writeHead(status, headers);
    const mayWait = endWith(response, undefined);
    if (mayWait && this.isStranger(response)) this.#untaken.wrote(response);
    this.#answered(response, status);
  }

  /** Counts an answer when all of it has been handed over, with the time that it took if that is the server's doing. */
  #answered(response: ServerResponse, status: number): void {
    if (!(response instanceof ServedResponse)) return;
    const { tally, startedMs, isOpenEnded } = response;
    if (isOpenEnded) tally?.streamed(status);
    else tally?.answered(status, this.#clock.nowMs() - startedMs);
  }

  /** An error of a website: the same in plain text. */
  errorAsText(response: ServerResponse, error: unknown): void {
    if (response.headersSent || !(error instanceof ServerError)) {
      this.error(response, error);
      return;
    }
    if (error.kind === 'tooLarge') {
      this.refuseBody(response, error);
      return;
    }
    const more = error.kind === 'unavailable' ? RETRY_HEADERS : NO_HEADERS;
    this.text(response, HTTP_STATUS[error.kind], error.message, more);
  }

  /**
   * Sends an error of a built-in route: `{code,message}`, `logs` where a failed install printed something, and the
   * fields of `more`.
   */
  error(response: ServerResponse, error: unknown, more: object = {}): void {
    if (response.headersSent) {
      // Nothing can be said any more; the client must not take a half answer for a whole one.
      if (error instanceof ServerError) this.#log.warn(error.message);
      else this.#log.error('an answer failed after its header was sent', error);
      cutAnswer(response);
      return;
    }
    if (!(error instanceof ServerError)) {
      this.#log.error(`a request failed unexpectedly: ${messageOf(error)}`, error);
      this.json(response, 500, { code: 500, message: 'internal error; the cause is in the server log' });
      return;
    }
    if (error.kind === 'tooLarge' || error.code === 'website-bodies-full') {
      const headers = error.kind === 'tooLarge' ? NO_HEADERS : RETRY_HEADERS;
      this.refuseUnread(response, HTTP_STATUS[error.kind], error.message, headers, true);
      return;
    }
    if (error.kind === 'unauthenticated' || error.kind === 'forbidden')
      this.onDenied?.(response, HTTP_STATUS[error.kind]);
    if (error.kind === 'unauthenticated') {
      this.refuse(response, HTTP_STATUS.unauthenticated, error.message, CHALLENGE, false);
      return;
    }
    const { outcome, logs } = error as { outcome?: { code?: unknown }; logs?: unknown };
    const rejectCode = typeof outcome?.code === 'number' ? outcome.code : REJECT_CODE.CANISTER_ERROR;
    const code = errorCodeOf(error.kind, rejectCode);
    if (error.kind === 'unavailable' && isEventSource(response.req)) {
      this.comeBackLater(response, code, error.message);
      return;
    }
    const { message } = error;
    const body = Array.isArray(logs) ? { ...more, code, message, logs } : { ...more, code, message };
    this.json(response, HTTP_STATUS[error.kind], body, error.kind === 'unavailable' ? RETRY_HEADERS : NO_HEADERS);
  }

  /**
   * An outcome that is not a reply. An actor may reject with a text of megabytes, which takes up to 40 ms: such answers
   * take turns, and the promise resolves when this one is on its way.
   */
  fault(
    response: ServerResponse,
    { kind, code, message }: Exclude<Outcome, { kind: 'reply' }>,
    more: readonly string[] = NO_HEADERS,
  ): void | Promise<void> {
    const error = ERROR_KIND_OF_OUTCOME[kind];
    const headers = error === 'unavailable' ? RETRY_HEADERS : more;
    const send = (): void =>
      this.json(response, HTTP_STATUS[error], { code: errorCodeOf(error, code), message }, headers);
    return message.length > TEXT_AT_ONCE_MAX ? this.#long.run(send) : send();
  }

  /** Tells the client of a website, in plain text, why the rest of its body is not read. */
  refuseBody(response: ServerResponse, { kind, message }: ServerError): void {
    this.refuseUnread(response, HTTP_STATUS[kind], message, kind === 'unavailable' ? RETRY_HEADERS : NO_HEADERS);
  }

  /**
   * Answers with an error, leaves the rest of the body unread and ends the connection. Closing a socket that still
   * holds unread bytes resets the connection, and the client would lose the answer with it: so the sending half is
   * closed first, and the rest follows when the client had time to read. The answer is plain text, or `{code,message}`.
   */
  refuseUnread(
    response: ServerResponse,
    status: number,
    message: string,
    more: readonly string[] = NO_HEADERS,
    isJson = false,
  ): void {
    const { socket } = response;
    if (socket !== null) this.#lingerBeforeDestroy(socket);
    this.refuse(response, status, message, this.#endsConnection(response) ? more : [...more, ...CLOSE_HEADERS], isJson);
  }

  /** Answers with an error of the server's own, whose code is its status: plain text, or `{code,message}`. */
  refuse(response: ServerResponse, status: number, message: string, more: readonly string[], isJson: boolean): void {
    if (isJson) this.json(response, status, { code: status, message }, more);
    else this.text(response, status, message, more);
  }

  /** An answer outside node:http, where it has no request to answer: the parser's own errors. */
  raw(socket: Socket, status: number, reason: string, message: string, isJson = false): void {
    this.#lingerBeforeDestroy(socket);
    this.#writeRaw(socket, status, reason, message, isJson);
    socket.destroySoon();
  }

  /** Answers like `raw` on a connection that must be gone at once: its client may not see the answer. */
  rawAtOnce(socket: Socket, status: number, reason: string, message: string): void {
    this.#writeRaw(socket, status, reason, message, false);
    socket.destroy();
  }

  /** Makes the end of this socket a gentle one: first the sending half, a little later the rest. */
  #lingerBeforeDestroy(socket: Socket): void {
    socket.destroySoon = () => {
      socket.end();
      this.#clock.after(LINGER_MS, () => socket.destroy());
    };
  }

  #writeRaw(socket: Socket, status: number, reason: string, message: string, isJson: boolean): void {
    const body = Buffer.from(isJson ? JSON.stringify({ code: status, message }) : message, 'utf8');
    const head =
      `HTTP/1.1 ${status} ${reason}\r\nsvc-version: ${this.#version}\r\n${ALLOW_ORIGIN}: *\r\n` +
      `${EXPOSE_HEADERS}: ${EXPOSED}\r\ncontent-type: ${isJson ? JSON_TYPE : TEXT}\r\n` +
      `content-length: ${body.length}\r\nconnection: close\r\n\r\n`;
    socket.write(head, 'latin1');
    socket.write(body);
  }
}

/**
 * Ends an answer with its body. Returns true if the answer may have to wait, because it is long or behind others of
 * its connection, and is to be counted. Of answers that are short and at the front there is one a connection; all
 * that this costs them is to read `socket`.
 */
function endWith(response: ServerResponse, body: Uint8Array | undefined): boolean {
  if (body === undefined) response.end();
  else if (body.length <= JOINED_BYTES_MAX) response.end(latin1Of(body), 'latin1');
  else {
    response.end(body);
    return true;
  }
  return response.socket === null;
}

async function* joined(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (first.length > 0) yield first;
  yield* rest;
}

/**
 * Ends an answer in its middle so that nobody takes the part for the whole: without chunks, an orderly end would be
 * the end of the body.
 */
export function cutAnswer(response: ServerResponse): void {
  if (response.writableFinished) return;
  // An answer that waits behind others has no socket that it could destroy; its connection must not wait for it.
  const { socket, httpVersion } = response.req;
  if (httpVersion === '1.0') socket.resetAndDestroy();
  else socket.destroy();
  response.destroy();
}

function cut(bytes: number, reason: string): ServerError {
  return new ServerError('unavailable', 'answer-cut', `an answer was cut after ${bytes} bytes: ${reason}`);
}

/** Bytes as a string of the same length, for writing with the encoding `latin1`. */
function latin1Of(bytes: Uint8Array): string {
  if (bytes.length > LOOPED_BYTES_MAX)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
