import type { Socket } from 'node:net';
import type { Connections } from './connections.ts';
import type { ParserError } from './request-flow.ts';
import type { Responder } from './responder.ts';

export const HEADER_BYTES_MAX = 16 * 1024;

/**
 * Answers what never became a request: malformed, too slow, header too large. node:http would send a bare status line.
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
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      responder.raw(socket, 408, 'Request Timeout', `the request was not received within ${requestTimeoutMs / 1000} s`);
      return;
    case 'HPE_HEADER_OVERFLOW':
      responder.raw(
        socket,
        431,
        'Request Header Fields Too Large',
        `the request line and headers are larger than ${HEADER_BYTES_MAX} bytes`,
      );
      return;
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      responder.raw(socket, 413, 'Payload Too Large', 'the chunk extensions of the body are too large');
      return;
    default:
      responder.raw(socket, 400, 'Bad Request', `malformed HTTP request: ${error.reason ?? error.message}`);
  }
}
