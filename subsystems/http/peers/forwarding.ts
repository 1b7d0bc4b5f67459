/**
 * One request, handed on to the server that owns its actor, and the answer, handed back as it comes. Bodies are not
 * kept: a small one is, so that it can be sent again where nothing of it was executed.
 *
 * Nothing that may have been executed is sent twice. What was sent and not answered has an unknown outcome, and is
 * answered 503 `outcome-unknown`. What changes nothing and what has a key are asked again: the same server first, since
 * its connection alone may have broken, and then whoever owns the actor next.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import {
  type AnswerFlow,
  LEAVING,
  MISDIRECTED,
  TURNED_AWAY,
  type Peer,
  type PeerAnswer,
  type Place,
} from '../../cluster/index.ts';
import type { Responder } from '../responder.ts';
import { readBody } from '../request-body.ts';
import type { ServedResponse } from '../served-response.ts';
import { answerHeadersOf, requestHeadersOf } from './forwarded-headers.ts';
import type { NamedActor } from './actor-of-path.ts';
import type { OwnerLine } from './owner-line.ts';
import { CLIENT_HEADER, VERDICT_HEADER } from './verdict.ts';

/** A body up to here is kept until its request is answered. */
const KEPT_BYTES_MAX = 64 * 1024;
const CALL = /^\/call(?:-json)?\//;
const QUERY = /^\/query(?:-json)?\//;
const EVENTS = 'text/event-stream';
/** Status of a request that a server which stops does not, or no longer, serve. */
const STOPPING_STATUS = 503;

interface ForwardingNeeds {
  readonly line: Pick<OwnerLine, 'next' | 'forget' | 'own'>;
  readonly responder: Pick<Responder, 'error' | 'errorAsText'>;
  readonly clock: { nowMs(): number };
}

interface ForwardedRequest {
  readonly request: IncomingMessage;
  readonly response: ServedResponse;
  readonly named: NamedActor;
  readonly verdict: string;
  readonly client: string;
  /** True for websites, whose errors are plain text. */
  readonly isSite: boolean;
}

export class Forwarding implements PeerAnswer {
  readonly #needs: ForwardingNeeds;
  readonly #given: ForwardedRequest;
  /** The kept body; undefined: it goes along as it comes, and was not sent yet. */
  #body: Uint8Array | Readable | null = null;
  /** The server that was asked last. */
  #peer: Peer | undefined;
  /** True if the server that was asked first has been asked twice. */
  #isAskedAgain = false;
  #isSentAgain = false;
  #isMisdirected = false;
  /** True if the server that stops may have executed something. */
  #hasBegun = false;
  #flow: AnswerFlow | undefined;

  constructor(needs: ForwardingNeeds, given: ForwardedRequest) {
    this.#needs = needs;
    this.#given = given;
  }

  start(peer: Peer): void {
    const { request, response } = this.#given;
    response.once('close', () => {
      if (!response.writableFinished) this.#flow?.abort();
    });
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    if (coding === undefined && Number(length ?? 0) <= KEPT_BYTES_MAX) {
      readBody(
        request,
        KEPT_BYTES_MAX,
        (body) => {
          this.#body = body.length === 0 ? null : body;
          this.#send(peer);
        },
        (error) => this.#fail(error),
      );
      return;
    }
    this.#body = request;
    this.#send(peer);
  }

  #send(peer: Peer): void {
    this.#peer = peer;
    const { request, verdict, client } = this.#given;
    const headers = requestHeadersOf(request);
    headers.push(VERDICT_HEADER, verdict, CLIENT_HEADER, client);
    const { 'content-length': length } = request.headers;
    if (this.#body === request && length !== undefined) headers.push('content-length', length);
    this.#isMisdirected = false;
    const { method = 'GET', url = '/' } = request;
    try {
      peer.send({ method, path: url, headers, body: this.#body }, this);
    } catch (error) {
      this.failed(error instanceof Error ? error : new Error(messageOf(error)), false);
    }
  }

  began(status: number, headers: readonly string[], flow: AnswerFlow, note: string | undefined): void {
    this.#flow = flow;
    const { response, request, isSite } = this.#given;
    // Calls go on at the next owner of a server that stops, and those with a key can be asked for there.
    const isToldOff = note === LEAVING && status === STOPPING_STATUS && !isSite && isRepeatable(request);
    if (note === MISDIRECTED || note === TURNED_AWAY || isToldOff) {
      this.#isMisdirected = true;
      this.#hasBegun = isToldOff;
      return;
    }
    if (response.destroyed) {
      flow.abort();
      return;
    }
    const kept = answerHeadersOf(headers);
    const isStream = kept.some((text, at) => at % 2 === 1 && text.startsWith(EVENTS));
    if (isStream) response.isOpenEnded = true;
    response.writeHead(status, kept);
    if (isStream) response.flushHeaders();
  }

  piece(bytes: Uint8Array, flow: AnswerFlow): void {
    const { response } = this.#given;
    if (this.#isMisdirected || response.destroyed) return;
    if (response.write(bytes)) return;
    flow.pause();
    response.once('drain', () => flow.resume());
  }

  ended(): void {
    if (this.#isMisdirected) {
      void this.#again(() => (this.#hasBegun ? unknown(new Error('it stops')) : ownerless()));
      return;
    }
    const { response, named } = this.#given;
    // An actor may have been made, and was nobody's before.
    if (named.isNew) this.#needs.line.forget(named.reference);
    response.end();
    const { tally, startedMs, isOpenEnded, statusCode } = response;
    if (isOpenEnded) tally?.streamed(statusCode);
    else tally?.answered(statusCode, this.#needs.clock.nowMs() - startedMs);
  }

  failed(error: Error, wasSent: boolean): void {
    const { request, response, isSite } = this.#given;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    if (!wasSent) void this.#again(() => (error instanceof ServerError ? error : unreachable(error)));
    else if (isSite || !isRepeatable(request)) this.#fail(unknown(error));
    else if (this.#peer !== undefined && !this.#isAskedAgain && this.#isKept) {
      this.#isAskedAgain = true;
      this.#send(this.#peer);
    } else void this.#again(() => unknown(error));
  }

  /** True if the whole body is there to be sent again. */
  get #isKept(): boolean {
    const { request } = this.#given;
    return this.#body !== request || !request.readableDidRead;
  }

  /** Sends the request once more, to whoever owns the actor by now; nothing of it was executed, or it has a key. */
  async #again(refusal: () => ServerError): Promise<void> {
    const { named, response } = this.#given;
    if (this.#isSentAgain || !this.#isKept) {
      this.#needs.line.forget(named.reference);
      this.#fail(refusal());
      return;
    }
    this.#isSentAgain = true;
    try {
      const place = await this.#needs.line.next(named.reference, () => response.destroyed, this.#peer);
      if (response.destroyed) return;
      // An actor that has come here meanwhile is reached over a link, too: the request was handed on already.
      const next = place.kind === 'elsewhere' ? place.peer : place.kind === 'here' ? this.#needs.line.own : undefined;
      if (next !== undefined && next !== this.#peer) this.#send(next);
      else this.#fail(refusal());
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const { response, isSite } = this.#given;
    if (isSite) this.#needs.responder.errorAsText(response, error);
    else this.#needs.responder.error(response, error);
  }
}

/** Returns true for what changes nothing, and for a call with a key. */
function isRepeatable(request: IncomingMessage): boolean {
  const { method, url = '' } = request;
  return method === 'GET' || method === 'HEAD' || (method === 'POST' && QUERY.test(url)) || hasKey(request);
}

/** Returns true for a call that its owner executes once, however often it is sent: keys count nowhere else. */
function hasKey({ method, url = '', headers }: IncomingMessage): boolean {
  return (
    method === 'POST' && CALL.test(url) && headers['idempotency-key'] !== undefined && !namesKey(headers.connection)
  );
}

/** Returns true if the key is a header of the connection, and is not handed on. */
function namesKey(connection = ''): boolean {
  return connection.toLowerCase().includes('idempotency-key');
}

/** Returns the error of a request whose actor has no owner that can be reached now: nothing was executed. */
export function ownerless(place?: Extract<Place, { readonly kind: 'ownerless' }>): ServerError {
  const shard = place === undefined ? 'the shard of that actor' : `shard ${place.shard}, which has that actor,`;
  const text = `${shard} has no owner that can be reached now; nothing was executed: try again in a moment`;
  return new ServerError('unavailable', 'owner-missing', text);
}

function unreachable(error: Error): ServerError {
  const text = `the server that owns that actor cannot be reached: ${error.message}; nothing was executed`;
  return new ServerError('unavailable', 'owner-unreachable', text, { cause: error });
}

function unknown(error: Error): ServerError {
  const text =
    `outcome unknown: the server that owns that actor was asked and has not answered (${error.message}); the request ` +
    'may have been executed. With an Idempotency-Key it can be sent again';
  return new ServerError('unavailable', 'outcome-unknown', text, { cause: error });
}
