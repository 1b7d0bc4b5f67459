/**
 * Fixes undici's parser of responses, whose version is pinned, where it fails on valid responses or reports errors
 * meant for its authors: `100 Continue` ended the request, a status below 100 was an assertion, and a reset ended a
 * body as a close does.
 */
import type { Socket } from 'node:net';
import { OUTCALL_FAILURES } from './outcall-failures.ts';
import { loadUndici } from './load-undici.ts';

/** The part of undici's parser that is fixed. The WebAssembly that reads the bytes calls its methods. */
interface ResponseParser {
  /** Alternating names and values of the response's headers. */
  readonly headers: readonly Uint8Array[];
  readonly llhttp: {
    llhttp_get_http_major(parser: number): number;
    llhttp_set_lenient_keep_alive(parser: number, on: 0 | 1): void;
    llhttp_set_lenient_spaces_after_chunk_size(parser: number, on: 0 | 1): void;
  };
  readonly ptr: number;
  /** -1: none. */
  contentLength: number;
  onHeadersComplete(status: number, isUpgrade: boolean, isKeptAlive: boolean): number;
  createError(error: number): Error;
  /**
   * Called when the other side has closed. Returns the reason why the response is incomplete, or null if it is
   * complete.
   */
  finish(): Error | null;
}

/** An interim status that undici skips. */
const READ_OVER = 102;
const LENGTH_NAME = 'content-length';

/** Errors of llhttp, by number. */
const PROBLEMS: Readonly<Record<number, string>> = {
  3: 'a line does not end with CR LF',
  4: 'content-length is there twice, or beside transfer-encoding',
  5: 'more came behind its end',
  8: 'it does not begin with HTTP/',
  9: 'its version is none that is known',
  10: 'a header is malformed',
  11: 'content-length is no number',
  12: 'the length of a chunk is malformed',
  13: 'the status is no number of three digits',
  14: 'it ended before it was complete',
  15: 'transfer-encoding does not end with chunked, or content-length is beside it',
  25: 'a line does not end with CR LF',
  30: 'a header is malformed',
};

/** Fixes the parser of a socket; called once for each socket, when undici has it. */
export function mendParser(socket: Socket): void {
  const parser = Reflect.get(socket, loadUndici().parserOfSocket) as ResponseParser;
  const headersComplete = parser.onHeadersComplete.bind(parser);
  const finish = parser.finish.bind(parser);
  // RFC 9112, 7.1.1: who receives a blank before an extension has to read over it.
  parser.llhttp.llhttp_set_lenient_spaces_after_chunk_size(parser.ptr, 1);
  parser.onHeadersComplete = (status, isUpgrade, isKeptAlive) => {
    // The parser also knows HTTP/0.9 and HTTP/2.0, which look otherwise.
    if (parser.llhttp.llhttp_get_http_major(parser.ptr) !== 1) throw malformed('its version is not HTTP/1');
    expectStatus(status);
    const isInterim = status < 200;
    // The answer follows an interim answer even if that one says `connection: close` or HTTP/1.0.
    parser.llhttp.llhttp_set_lenient_keep_alive(parser.ptr, isInterim ? 1 : 0);
    // Undici parses blanks after the number as digits.
    if (parser.contentLength !== -1) parser.contentLength = lengthOf(parser.headers);
    return headersComplete(isInterim ? READ_OVER : status, isUpgrade, isKeptAlive);
  };
  parser.createError = (error) => malformed(PROBLEMS[error] ?? 'it cannot be read');
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

function malformed(problem: string): Error {
  return OUTCALL_FAILURES['outcall-failed'](`the response is no valid HTTP/1.1: ${problem}`);
}

function lengthOf(headers: readonly Uint8Array[]): number {
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at];
    if (name?.length === LENGTH_NAME.length && latin1(name).toLowerCase() === LENGTH_NAME)
      return Number(latin1(headers[at + 1]));
  }
  return -1;
}

function latin1(bytes: Uint8Array = new Uint8Array(0)): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
