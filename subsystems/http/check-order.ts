import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readiness } from '../../kernel/index.ts';
import type { Auth } from '../auth/index.ts';
import type { Responder } from './responder.ts';
import { bodyTooLarge } from './request-body.ts';
import {
  bodyBytesMaxOf,
  GATEWAY_BYTES_MAX,
  isGatewayTarget,
  isHealthProbe,
  isOpenTarget,
  originFormOf,
} from './request-target.ts';

const PREFLIGHT_HEADERS: readonly string[] = [
  'access-control-allow-methods',
  'GET, POST, DELETE, OPTIONS',
  'access-control-allow-headers',
  'authorization, content-type, x-caller',
  'access-control-max-age',
  '86400',
];
const RETRY_HEADERS: readonly string[] = ['retry-after', '1'];
/** An unread body up to here is skipped so that the connection can go on; for more it is closed. */
const SKIPPED_BYTES_MAX = 64 * 1024;

/** What `/health/ready` and every refused request say while the server does not take work. */
export function notReadyText(readiness: Readiness, isClosing: boolean): string {
  if (isClosing) return 'shutting down';
  return readiness.note === 'shutting down' ? readiness.note : `starting: ${readiness.note}`;
}

/**
 * The contract's checks of a request, in the contract's order; all before anything of the body is read:
 *
 *   0. the target has a form that can be looked at, and HTTP/1.1 names a host
 *   1. `OPTIONS` on a path that is no website's: 204
 *   2. bearer token, unless the exact target is open: 401
 *   3. `Content-Length` against the cap of the path: 413, and the connection ends
 *   4. readiness, for anything but a health probe: 503
 *
 * Then comes routing. What fails here is answered in plain text.
 */
export class CheckOrder {
  readonly #auth: Auth;
  readonly #readiness: Readiness;
  readonly #responder: Responder;

  constructor(auth: Auth, readiness: Readiness, responder: Responder) {
    this.#auth = auth;
    this.#readiness = readiness;
    this.#responder = responder;
  }

  /** True if the request may go on to the router; otherwise it has been answered. */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { headers, method } = request;
    let target = request.url ?? '';
    if (target.charCodeAt(0) !== 0x2f) {
      const path = target === '*' && method === 'OPTIONS' ? '/*' : originFormOf(target);
      if (path === undefined)
        return this.#malformed(response, `bad request target ${JSON.stringify(target.slice(0, 80))}: expected a path`);
      target = path;
      request.url = path;
    }
    if (headers.host === undefined && request.httpVersion === '1.1')
      return this.#malformed(response, 'an HTTP/1.1 request needs a Host header');

    if (method === 'OPTIONS' && !isGatewayTarget(target)) {
      this.#responder.empty(response, 204, PREFLIGHT_HEADERS);
      return false;
    }
    if (!this.#auth.allows(headers.authorization) && !isOpenTarget(method, target)) {
      return this.#refuse(request, response, 401, 'missing or wrong bearer token', ['www-authenticate', 'Bearer']);
    }
    const length = headers['content-length'];
    if (length !== undefined && Number(length) > GATEWAY_BYTES_MAX) {
      const bytesMax = bodyBytesMaxOf(target);
      if (Number(length) > bytesMax) return this.#refuse(request, response, 413, bodyTooLarge(bytesMax).message);
    }
    if ((!this.#readiness.isReady || this.#responder.isClosing) && !isHealthProbe(method, target)) {
      return this.#refuse(
        request,
        response,
        503,
        notReadyText(this.#readiness, this.#responder.isClosing),
        RETRY_HEADERS,
      );
    }
    return true;
  }

  #malformed(response: ServerResponse, text: string): false {
    this.#responder.refuseUnread(response, 400, text);
    return false;
  }

  #refuse(
    request: IncomingMessage,
    response: ServerResponse,
    status: number,
    text: string,
    more: readonly string[] = [],
  ): false {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    const isSmall = length === undefined ? encoding === undefined : Number(length) <= SKIPPED_BYTES_MAX;
    if (isSmall) this.#responder.text(response, status, text, more);
    else this.#responder.refuseUnread(response, status, text, more);
    return false;
  }
}
