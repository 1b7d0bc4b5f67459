/**
 * Fixes undici's parser of responses, whose version is pinned, where it fails on valid responses or reports errors
 * meant for its authors: `100 Continue` ended the request, a status below 100 was an assertion, a reset ended a body as
 * a close does, and some forms of lines were unknown to it (response-bytes.ts).
 */
import type { Socket } from 'node:net';
import { LINE_WRONG } from './chunk-line.ts';
import { malformed, OUTCALL_FAILURES } from './outcall-failures.ts';
import { loadUndici } from './load-undici.ts';
import { ResponseBytes } from './response-bytes.ts';

/** The part of undici's parser that is fixed. The WebAssembly that reads the bytes calls its methods. */
interface ResponseParser {
  /** Alternating names and values of the response's headers. */
  readonly headers: readonly Uint8Array[];
  readonly llhttp: {
    readonly memory: WebAssembly.Memory;
    llhttp_get_error_reason(parser: number): number;
    llhttp_get_http_major(parser: number): number;
    llhttp_get_http_minor(parser: number): number;
    llhttp_set_lenient_keep_alive(parser: number, on: 0 | 1): void;
    llhttp_set_lenient_version(parser: number, on: 0 | 1): void;
  };
  readonly ptr: number;
  /** -1: none. */
  contentLength: number;
  /** Reads bytes; an error destroys the socket. */
  execute(bytes: Buffer): void;
  onHeadersComplete(status: number, isUpgrade: boolean, isKeptAlive: boolean): number;
  onMessageComplete(): number;
  createError(error: number): Error;
  /**
   * Called when the other side has closed. Returns the reason why the response is incomplete, or null if it is
   * complete.
   */
  finish(): Error | null;
}

/** An interim status that undici skips. */
const READ_OVER = 102;

const LENGTH_BESIDE_CHUNKS = 'content-length is beside transfer-encoding';

/** Errors of llhttp, by number. */
const PROBLEMS: Readonly<Record<number, string>> = {
  3: LINE_WRONG,
  4: 'content-length is there twice',
  5: 'more came behind its end',
  8: 'it does not begin with HTTP/',
  9: 'its version is none that is known',
  10: 'a header is malformed',
  11: 'content-length is no number',
  13: 'the status is no number of three digits',
  14: 'it ended before it was complete',
  25: LINE_WRONG,
  30: 'a header is malformed',
};

/** The same by the words of llhttp, where one number stands for several. */
const PROBLEMS_BY_REASON: Readonly<Record<string, string>> = {
  "Content-Length can't be present with Transfer-Encoding": LENGTH_BESIDE_CHUNKS,
  "Transfer-Encoding can't be present with Content-Length": LENGTH_BESIDE_CHUNKS,
  'Expected LF after headers': LINE_WRONG,
};

/**
 * Fixes the parser of a socket; called once for each socket, when undici has it. `announced` is called with the length
 * of each chunk before its bytes come, and throws if that is too much.
 */
export function mendParser(socket: Socket, announced: (bytes: number) => void): void {
  const parser = Reflect.get(socket, loadUndici().parserOfSocket) as ResponseParser;
  const execute = parser.execute.bind(parser);
  const headersComplete = parser.onHeadersComplete.bind(parser);
  const messageComplete = parser.onMessageComplete.bind(parser);
  const finish = parser.finish.bind(parser);
  // RFC 9110, 2.5: an answer of HTTP/1.2 or later is read as one of HTTP/1.1.
  parser.llhttp.llhttp_set_lenient_version(parser.ptr, 1);
  const feed = (bytes: Buffer): boolean => {
    execute(bytes);
    return !socket.destroyed;
  };
  const bytes = new ResponseBytes({ feed, announced });
  parser.execute = (piece) => {
    try {
      // Undici asks without bytes whether a body that was given up has more to tell.
      if (piece.length === 0) execute(piece);
      else bytes.add(piece);
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  };
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) => {
    const { llhttp, ptr, headers } = parser;
    // HTTP/0.9 and HTTP/2.0 look otherwise.
    if (llhttp.llhttp_get_http_major(ptr) !== 1) throw malformed('its version is not HTTP/1');
    expectStatus(status);
    const isInterim = status < 200;
    // The answer follows an interim answer even if that one says `connection: close` or HTTP/1.0.
    llhttp.llhttp_set_lenient_keep_alive(ptr, isInterim ? 1 : 0);
    // Undici parses blanks after the number as digits.
    if (parser.contentLength !== -1) parser.contentLength = Number(valueOf(headers, 'content-length'));
    const encoding = valueOf(headers, 'transfer-encoding');
    if (encoding === undefined && bytes.hasEmptyEncoding) throw malformed('transfer-encoding names no coding');
    bytes.headEnded(encoding?.toLowerCase() === 'chunked');
    // RFC 9112, 6.1: HTTP/1.0 has no such encoding, so nobody knows where another answer begins.
    const isSure = encoding === undefined || llhttp.llhttp_get_http_minor(ptr) > 0;
    return headersComplete(isInterim ? READ_OVER : status, isUpgrade, isKeptAlive && isSure);
  };
  parser.onMessageComplete = () => {
    bytes.ended();
    return messageComplete();
  };
  parser.createError = (error) => {
    const problem = PROBLEMS_BY_REASON[reasonOf(parser)] ?? PROBLEMS[error] ?? 'it cannot be read';
    return malformed(
      problem === LENGTH_BESIDE_CHUNKS && bytes.isInTrailer ? 'content-length is in a trailer' : problem,
    );
  };
  // A reset is no valid end: a server that sends until the close may have had more to send.
  parser.finish = () => socket.errored ?? finish();
}

function expectStatus(status: number): void {
  if (status === 101)
    throw OUTCALL_FAILURES['outcall-failed'](
      'the server switches to another protocol (status 101), which the actor has not asked for',
    );
  if (status < 100) throw malformed(`its status is ${String(status).padStart(3, '0')}, and the least is 100`);
}

/** Returns what llhttp says of its last error. */
function reasonOf({ llhttp, ptr }: ResponseParser): string {
  const memory = new Uint8Array(llhttp.memory.buffer, llhttp.llhttp_get_error_reason(ptr));
  return latin1(memory.subarray(0, memory.indexOf(0)));
}

/** Returns the value of the first header of this name. */
function valueOf(headers: readonly Uint8Array[], wanted: string): string | undefined {
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at];
    if (name?.length === wanted.length && latin1(name).toLowerCase() === wanted) return latin1(headers[at + 1]);
  }
  return undefined;
}

function latin1(bytes: Uint8Array = new Uint8Array(0)): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
