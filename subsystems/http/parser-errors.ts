import type { Socket } from 'node:net';
import { prefersJson } from './accept.ts';
import type { Connections } from './connections.ts';
import type { ParserError } from './request-flow.ts';
import type { Responder } from './responder.ts';

export const HEADER_BYTES_MAX = 16 * 1024;

/** The `Accept` line of a header. */
const ACCEPT = /\r\naccept:([^\r\n]*)/i;

/**
 * Answers what never became a request: malformed, too slow, header too large. node:http would send a bare status line.
 * The answer is plain text, or `{code,message}` where the request asks for JSON, as far as it has come.
 */
export function answerParserError(
  error: ParserError,
  socket: Socket,
  connections: Connections,
  responder: Responder,
  requestTimeoutMs: number,
): void {
  if (socket.writableEnded) return; // already answered: what follows is the rest of the same rubbish
  const pending = connections.pendingAnswerOf(socket);
  // An answer half sent, or owed for a request that came in whole, cannot be mixed with this one.
  const isBusy = pending !== undefined && (pending.headersSent || pending.req.complete);
  if (error.code === 'ECONNRESET' || !socket.writable || isBusy) {
    socket.destroy();
    return;
  }
  const isJson = prefersJson(pending === undefined ? acceptOf(error) : pending.req.headers.accept);
  const answer = (status: number, reason: string, message: string): void =>
    responder.raw(socket, status, reason, message, isJson);
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      answer(408, 'Request Timeout', `the request was not received within ${requestTimeoutMs / 1000} s`);
      return;
    case 'HPE_HEADER_OVERFLOW': {
      const message = `the request line and headers are larger than ${HEADER_BYTES_MAX} bytes`;
      answer(431, 'Request Header Fields Too Large', message);
      return;
    }
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      answer(413, 'Payload Too Large', 'the chunk extensions of the body are too large');
      return;
    default:
      answer(400, 'Bad Request', `malformed HTTP request: ${error.reason ?? error.message}`);
  }
}

/**
 * Returns the `Accept` of a request whose header could not be read to its end, from the bytes in which the parser
 * stopped. No other request is in them, or its answer would be owed.
 */
function acceptOf({ rawPacket }: ParserError): string | undefined {
  const [head = ''] = rawPacket?.toString('latin1').split('\r\n\r\n', 1) ?? [];
  return ACCEPT.exec(head)?.[1]?.trim();
}
