/**
 * Outcalls through undici: HTTP/1.1, reused connections, verified certificates, no redirects followed, nothing
 * decompressed.
 *
 * A redirect is an answer. An actor that wants to follow it makes another outcall, whose address is checked like any
 * other, and decides which of its headers the other server gets.
 */
import { ServerError } from '../../kernel/index.ts';
import { type Connection, type ConnectionOptions, Connections } from './connections.ts';
import {
  abortReason,
  OUTCALL_FAILURES,
  type OutcallHeader,
  type OutcallRequest,
  type OutcallResponse,
  type Outcalls,
} from './index.ts';
import { ResponseCollector } from './response-collector.ts';

export type UndiciOutcallsOptions = ConnectionOptions;

export class UndiciOutcalls implements Outcalls {
  readonly #options: UndiciOutcallsOptions;
  /** Made at the first outcall, when undici is loaded. */
  #connections: Connections | undefined;
  #isClosed = false;
  /** The last URL: an actor that asks once asks again, and parsing is a tenth of a request's cost here. */
  #url: URL | undefined;

  constructor(options: UndiciOutcallsOptions) {
    this.#options = options;
  }

  send(request: OutcallRequest, { signal }: { readonly signal: AbortSignal }): Promise<OutcallResponse> {
    if (this.#isClosed) return Promise.reject(stopping());
    this.#connections ??= new Connections(this.#options);
    const connections = this.#connections;
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(abortReason(signal));
        return;
      }
      const url = this.#parsed(request.url);
      const connection = connections.take(url.origin);
      let isOver = false;
      const fail = (error: Error): void => {
        if (isOver) return;
        isOver = true;
        signal.removeEventListener('abort', abort);
        connections.destroy(connection);
        reject(error);
      };
      const abort = (): void => fail(abortReason(signal));
      signal.addEventListener('abort', abort);
      const collector = new ResponseCollector(request, {
        started: () => connection.started(),
        failed: (error) => fail(this.#isClosed ? stopping() : explained(error)),
        ended: (response) => {
          if (isOver) return;
          isOver = true;
          signal.removeEventListener('abort', abort);
          connections.release(connection);
          resolve(response);
        },
      });
      try {
        dispatch(connection, url, request, collector, fail);
      } catch (error) {
        fail(explained(error));
      }
    });
  }

  #parsed(text: string): URL {
    if (this.#url?.href !== text) this.#url = new URL(text);
    return this.#url;
  }

  /** Ends running outcalls, and closes all connections. */
  close(): void {
    this.#isClosed = true;
    this.#connections?.close();
  }
}

function dispatch(
  connection: Connection,
  url: URL,
  { method, headers, body, responseBytesMax }: OutcallRequest,
  collector: ResponseCollector,
  fail: (error: Error) => void,
): void {
  connection.dispatch(
    {
      method,
      path: pathOf(url),
      headers: namesAndValues(headers),
      body: body.length === 0 ? null : body,
      // Undici computes any `content-length` that must be sent.
      idempotent: false,
    },
    collector,
    {
      bodyBytesMax: responseBytesMax,
      announced: (bytes) => collector.announced(bytes),
      overflow: () =>
        fail(OUTCALL_FAILURES['outcall-too-large']('the server sends far more than what becomes the body')),
    },
  );
}

/** Returns path and query as they are written: `search` is empty for a query that is there and empty. */
function pathOf({ pathname, search, href }: URL): string {
  const isEmptyQuery = search === '' && href.replace(/#.*$/su, '').endsWith('?');
  return isEmptyQuery ? `${pathname}?` : `${pathname}${search}`;
}

function namesAndValues(headers: readonly OutcallHeader[]): string[] {
  const list: string[] = [];
  for (const { name, value } of headers) list.push(name, bytesAsCharacters(value));
  return list;
}

/** Returns the text's UTF-8 bytes as characters, because undici encodes characters as Latin-1. */
function bytesAsCharacters(text: string): string {
  // ASCII is the same in both encodings.
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

function stopping(): ServerError {
  return OUTCALL_FAILURES['outcalls-stopping']('the server is stopping');
}

/** Descriptions of codes whose own messages say little. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens there (ECONNREFUSED)',
  ECONNRESET: 'the server closed the connection (ECONNRESET)',
  EPIPE: 'the server closed the connection (EPIPE)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the name could not be looked up (EAI_AGAIN)',
  ETIMEDOUT: 'the connection timed out (ETIMEDOUT)',
  EHOSTUNREACH: 'the host cannot be reached (EHOSTUNREACH)',
  ENETUNREACH: 'the network cannot be reached (ENETUNREACH)',
  UND_ERR_SOCKET: 'the server closed the connection before the response was complete',
  UND_ERR_HEADERS_OVERFLOW: 'the headers of the response are larger than 64 KiB',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the body does not have the length that content-length says',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is that of another host (ERR_TLS_CERT_ALTNAME_INVALID)',
  ...Object.fromEntries(
    [
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ].map((code) => [
      code,
      `the certificate is of no authority that is known here; name a file with that of your own in NODE_EXTRA_CA_CERTS (${code})`,
    ]),
  ),
};

function explained(error: unknown): Error {
  if (error instanceof ServerError) return error;
  const { code } = error as { readonly code?: unknown };
  // With several addresses each has its own error; the first one says enough.
  if (error instanceof AggregateError && error.errors.length > 0 && code === undefined)
    return explained(error.errors[0]);
  return OUTCALL_FAILURES['outcall-failed'](typeof code === 'string' ? reasonOf(code) : UNEXPLAINED, error);
}

/**
 * Messages of libraries are for their users, not for actors: they name files, assertions and addresses of this machine.
 * Codes are enough to look up.
 */
const UNEXPLAINED = 'the request could not be sent, or what came could not be read';

function reasonOf(code: string): string {
  const reason = REASONS[code];
  if (reason !== undefined) return reason;
  if (/^(?:EAI_)?E?[A-Z0-9]+$/.test(code)) return `the connection failed (${code})`;
  if (/^(?:ERR_SSL|ERR_TLS)_/.test(code)) return `the server speaks no TLS that is taken here (${code})`;
  if (/^(?:UND_ERR|ERR|HPE)_/.test(code)) return UNEXPLAINED;
  // The other codes are OpenSSL's for certificates.
  return `the certificate is not valid (${code})`;
}
