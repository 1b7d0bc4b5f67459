import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readiness } from '../../kernel/index.ts';
import type { AgentMode } from '../agents/index.ts';
import type { Auth } from '../auth/index.ts';
import { prefersJson } from './accept.ts';
import { isEventSource } from './event-source.ts';
import { CHALLENGE, type Responder } from './responder.ts';
import { bodyTooLarge } from './request-body.ts';
import type { BrowserGuard } from './browser-guard.ts';
import { asBearer, isAgentTarget } from './agent-routes.ts';
import { OpenTarget, type OpenTargets } from './open-targets.ts';
import { preflightHeaders } from './preflight.ts';
import { BODY_BYTES_MIN, bodyBytesMaxOf, isHealthProbe, isOpenTarget } from './request-target.ts';
import { GATEWAY_BYTES_MAX } from './route-table.ts';
import type { ServedResponse } from './served-response.ts';
import { BUILT_IN, type Target } from './targets.ts';

const RETRY_HEADERS: readonly string[] = ['retry-after', '1'];
/** Makes a browser ask again by itself, which it does not do for Retry-After. */
const REFRESH_HEADERS: readonly string[] = [...RETRY_HEADERS, 'refresh', '1'];
/** Pages that a person may open while the server starts. */
const PAGES: ReadonlySet<string> = new Set(['/', '/inspector']);
/** An unread body up to here is skipped so that the connection can go on; for more it is closed. */
const SKIPPED_BYTES_MAX = 64 * 1024;
const SHOWN_CHARACTERS_MAX = 80;
/** RFC 3986, 3.2.2 and 3.2.3; empty is how a client names a server that has no name (RFC 9112, 3.2). */
const HOST = /^(?:\[[\da-f:.]+\]|[\w\-.~!$&'()*+,;=%]*)(?::\d*)?$/i;

/** The `Expect` header of a request: none, `100-continue`, or an expectation that no server can meet. */
export type Expectation = 'nothing' | 'continue' | 'unknown';

/** Returns the text that `/health/ready` and every refused request answer while the server takes no work. */
export function notReadyText(readiness: Readiness, isClosing: boolean): string {
  if (isClosing) return 'shutting down';
  return readiness.note === 'shutting down' ? readiness.note : `starting: ${readiness.note}`;
}

/**
 * The checks of a request, in the order that docs/http.md promises; all before anything of the body is read:
 *
 *   0. the version is HTTP/1, the target has a form that can be looked at, HTTP/1.1 names a host, and nobody names
 *      two, or what is none; HTTP/1.0 has no transfer coding
 *   1. `OPTIONS` on a path that is no website's: 204
 *   2. bearer token, unless the exact target is open, or asks for an open method without `Authorization`: 401; a
 *      token with scopes goes on, and its scopes are looked at when the request is routed; where there is no token,
 *      `--browser-guard` has its say: 403
 *   3. the body, as the header announces it, and the connection ends: `Content-Length` against the cap of the
 *      path: 413; a transfer coding other than `chunked`: 501; an expectation other than `100-continue`: 417
 *   4. readiness, for anything but a health probe: 503; an `EventSource` is told to come back (event-source.ts)
 *
 * Then comes routing. What fails here is answered in plain text: 401, 413 and 503 always, all else unless `Accept` asks
 * for JSON.
 */
export class CheckOrder {
  readonly #auth: Auth;
  readonly #readiness: Readiness;
  readonly #responder: Responder;
  /** Undefined if everybody who reaches the server may use it, or if the token says who may. */
  readonly #guard: BrowserGuard | undefined;
  readonly #open: Pick<OpenTargets, 'find'>;
  readonly #agents: AgentMode;
  /** The last one that was looked at and is as it should be: most requests name the same. */
  #host: string | undefined = undefined;

  constructor(
    auth: Auth,
    readiness: Readiness,
    responder: Responder,
    open: Pick<OpenTargets, 'find'>,
    guard?: BrowserGuard,
    agents: AgentMode = 'off',
  ) {
    this.#agents = agents;
    this.#open = open;
    this.#auth = auth;
    this.#readiness = readiness;
    this.#responder = responder;
    this.#guard = guard;
  }

  /**
   * Returns what the request may go on to: the router, a website, or an open method. Undefined: it has been answered.
   * The answer to a token that has a name has its `grant` from then on.
   */
  admit(
    request: IncomingMessage,
    response: ServedResponse,
    expectation: Expectation,
    target: Target | undefined,
  ): Target | OpenTarget | undefined {
    const { headers, method, url = '' } = request;
    // The parser takes a request line that says so, but what follows is read as HTTP/1.1.
    if (request.httpVersionMajor !== 1) {
      return this.#refuseUnread(request, response, 505, `this server speaks HTTP/1.1, not HTTP/${request.httpVersion}`);
    }
    if (target === undefined)
      return this.#malformed(
        request,
        response,
        `bad request target ${JSON.stringify(url.slice(0, SHOWN_CHARACTERS_MAX))}: expected a path`,
      );
    const isBuiltIn = target === BUILT_IN;
    if (headers.host === undefined && request.httpVersion === '1.1')
      return this.#malformed(request, response, 'an HTTP/1.1 request needs a Host header');
    if (namesHostTwice(request.rawHeaders))
      return this.#malformed(request, response, 'malformed HTTP request: it has more than one Host header');
    if (headers.host !== this.#host) {
      if (headers.host !== undefined && !HOST.test(headers.host)) {
        const shown = JSON.stringify(headers.host.slice(0, SHOWN_CHARACTERS_MAX));
        return this.#malformed(
          request,
          response,
          `malformed HTTP request: the Host header ${shown} is no name or address with a port`,
        );
      }
      this.#host = headers.host;
    }
    // Who stands in front may not know what that is, and take the body's end for the next request (RFC 9112, 6.1).
    if (request.httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined)
      return this.#malformed(request, response, 'malformed HTTP request: HTTP/1.0 has no transfer codings');

    if (method === 'OPTIONS' && isBuiltIn) {
      this.#responder.empty(response, 204, preflightHeaders(url, headers['access-control-request-headers']));
      return undefined;
    }
    const needsToken = isBuiltIn && !isOpenTarget(method, url);
    const admitted = needsToken ? this.#admitted(request, response, expectation) : target;
    if (admitted === undefined) return undefined;
    const length = headers['content-length'];
    if (length !== undefined && Number(length) > BODY_BYTES_MIN) {
      const bytesMax = bytesMaxOf(request, admitted);
      if (Number(length) > bytesMax)
        return this.#refuse(request, response, expectation, 413, bodyTooLarge(bytesMax).message);
    }
    const coding = headers['transfer-encoding'];
    if (coding !== undefined && coding.toLowerCase() !== 'chunked')
      return this.#refuseCoding(request, response, coding);
    if (expectation === 'unknown') {
      return this.#refuseUnread(request, response, 417, 'this server meets no expectation other than 100-continue');
    }
    if ((!this.#readiness.isReady || this.#responder.isClosing) && !(isBuiltIn && isHealthProbe(method, url))) {
      return this.#refuseNow(request, response, expectation, isBuiltIn);
    }
    return admitted;
  }

  /**
   * Begins to prove what the request shows, if that takes time: `admit` is to be asked when the promise is resolved.
   * Undefined: it can be asked at once, as always where nobody is proven.
   */
  prove(request: IncomingMessage, response: ServedResponse, target: Target | undefined): Promise<void> | undefined {
    if (this.#auth.prove === undefined || target !== BUILT_IN || response.verdict !== undefined) return undefined;
    const { headers, method, url = '' } = request;
    if (method === 'OPTIONS' || isOpenTarget(method, url)) return undefined;
    const isAgent = this.#agents !== 'off' && isAgentTarget(url);
    if (isAgent && this.#agents === 'open') return undefined;
    const shown = isAgent ? asBearer(headers.authorization) : headers.authorization;
    return this.#auth.prove(shown)?.then((reason) => {
      response.unproven = reason;
    });
  }

  /** Returns true if the request shows a token: what needs none says nothing about who is there. */
  showsToken(request: IncomingMessage, { grant }: ServedResponse, target: Target | undefined): boolean {
    const { headers, method, url = '' } = request;
    if (target !== BUILT_IN) return false;
    if (grant !== undefined) return true;
    return this.#auth.allows(headers.authorization) && method !== 'OPTIONS' && !isOpenTarget(method, url);
  }

  /** Returns what a request for a target that is not open to everybody may ask for; undefined: it has been answered. */
  #admitted(
    request: IncomingMessage,
    response: ServedResponse,
    expectation: Expectation,
  ): typeof BUILT_IN | OpenTarget | undefined {
    if (response.verdict !== undefined) return this.#judgedBefore(request, response, expectation);
    const { authorization, accept } = request.headers;
    const isAgent = this.#agents !== 'off' && isAgentTarget(request.url ?? '');
    // Signatures say who asks.
    if (isAgent && this.#agents === 'open') return BUILT_IN;
    const shown = isAgent ? asBearer(authorization) : authorization;
    response.grant = this.#auth.grantOf?.(shown);
    if (response.grant !== undefined) return BUILT_IN;
    if (!this.#auth.allows(shown)) {
      const open = this.#open.find(request);
      if (open !== undefined) return open;
      const challenge = challengeOf(response);
      return this.#refuse(request, response, expectation, 401, 'missing or wrong bearer token', challenge);
    }
    const refusal = this.#guard?.refusal(request);
    if (refusal === undefined) return BUILT_IN;
    const open = this.#open.find(request);
    if (open !== undefined) return open;
    return this.#refuse(request, response, expectation, 403, refusal, [], prefersJson(accept));
  }

  /** Goes by the verdict of the server that has handed the request on. */
  #judgedBefore(
    request: IncomingMessage,
    response: ServedResponse,
    expectation: Expectation,
  ): typeof BUILT_IN | OpenTarget | undefined {
    if (response.verdict !== 'stranger') return BUILT_IN;
    const open = this.#open.find(request);
    return open ?? this.#refuse(request, response, expectation, 401, 'missing or wrong bearer token', CHALLENGE);
  }

  /** Refuses a request while the server takes no work. */
  #refuseNow(
    request: IncomingMessage,
    response: ServerResponse,
    expectation: Expectation,
    isBuiltIn: boolean,
  ): undefined {
    const { method, url = '' } = request;
    const text = notReadyText(this.#readiness, this.#responder.isClosing);
    if (isBuiltIn && isEventSource(request)) {
      this.#responder.comeBackLater(response, 503, text);
      return undefined;
    }
    const isPage = method === 'GET' && PAGES.has(url) && text.startsWith('starting: ');
    return this.#refuse(request, response, expectation, 503, text, isPage ? REFRESH_HEADERS : RETRY_HEADERS);
  }

  #malformed(request: IncomingMessage, response: ServerResponse, text: string): undefined {
    return this.#refuseUnread(request, response, 400, text);
  }

  #refuseUnread({ headers }: IncomingMessage, response: ServerResponse, status: number, text: string): undefined {
    this.#responder.refuseUnread(response, status, text, [], prefersJson(headers.accept));
    return undefined;
  }

  /**
   * Refuses a transfer coding. A body whose last coding is not `chunked` has no end that can be found: the request is
   * malformed (RFC 9112, 6.3).
   */
  #refuseCoding(request: IncomingMessage, response: ServerResponse, coding: string): undefined {
    const shown = JSON.stringify(coding.slice(0, SHOWN_CHARACTERS_MAX));
    const hasEnd = /(?:^|,)\s*chunked\s*$/i.test(coding);
    if (!hasEnd)
      return this.#malformed(request, response, `malformed HTTP request: the transfer coding ${shown} has no end`);
    const text = `this server cannot undo the transfer coding ${shown}: send the body as chunked alone, or with its Content-Length`;
    return this.#refuseUnread(request, response, 501, text);
  }

  #refuse(
    request: IncomingMessage,
    response: ServerResponse,
    expectation: Expectation,
    status: number,
    text: string,
    more: readonly string[] = [],
    isJson = false,
  ): undefined {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    const isSmall = length === undefined ? encoding === undefined : Number(length) <= SKIPPED_BYTES_MAX;
    // A client that waits to be told to send a body may or may not send it now: nobody could tell it from the next
    // request.
    if (isSmall && expectation === 'nothing') this.#responder.refuse(response, status, text, more, isJson);
    else this.#responder.refuseUnread(response, status, text, more, isJson);
    return undefined;
  }
}

/** Returns the headers of a 401, with the reason where there is one (RFC 6750, 3). */
function challengeOf({ unproven }: ServedResponse): readonly string[] {
  if (unproven === undefined) return CHALLENGE;
  return ['www-authenticate', `Bearer error="invalid_token", error_description="${unproven}"`];
}

/** Returns the number of bytes that the body of a request may have. */
function bytesMaxOf({ method, url = '' }: IncomingMessage, admitted: Target | OpenTarget): number {
  if (admitted === BUILT_IN) return bodyBytesMaxOf(method, url);
  return admitted instanceof OpenTarget ? Math.min(bodyBytesMaxOf(method, url), GATEWAY_BYTES_MAX) : GATEWAY_BYTES_MAX;
}

/** Node keeps the first one; a proxy in front may go by another (RFC 9112, 3.2). */
function namesHostTwice(rawHeaders: readonly string[]): boolean {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && (name === 'Host' || name === 'host' || name.toLowerCase() === 'host')) count++;
  }
  return count > 1;
}
