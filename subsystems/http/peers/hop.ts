/**
 * Requests between the servers of one service. A server that takes a request does all checks of check-order.ts, finds
 * out where its actor is, and hands the request on, with the verdict, to the owner; the owner takes no request further.
 *
 *     client ─► server ─checks─► Hop.take ─ here ─────► router, websites
 *                                     └─ elsewhere ─► Forwarding ─link─► owner: Hop.arrived, Hop.take ─► router
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type Clock, messageOf, type Readiness, ServerError, sleep } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import { type Cluster, LEAVING, LINK_NOTE, MISDIRECTED, type Place, TURNED_AWAY } from '../../cluster/index.ts';
import type { Gateway } from '../../gateway/index.ts';
import type { RequestTally } from '../../metrics/index.ts';
import { preferredType } from '../accept.ts';
import type { ClientAddresses } from '../client-addresses.ts';
import type { Responder } from '../responder.ts';
import type { ServedCanisters } from '../route.ts';
import { countedBy } from '../router.ts';
import { ServedRequest } from '../served-request.ts';
import type { ServedResponse } from '../served-response.ts';
import { OpenTarget } from '../open-targets.ts';
import { BUILT_IN, type Target } from '../targets.ts';
import { actorOfPath, type NamedActor } from './actor-of-path.ts';
import { gather } from './gathering.ts';
import { OWNER_WAIT_MS, OwnerLine } from './owner-line.ts';
import { Forwarding, ownerless } from './forwarding.ts';
import { CLIENT_HEADER, VERDICT_HEADER, Verdicts, writeVerdict } from './verdict.ts';

interface HopNeeds {
  readonly cluster: Cluster;
  readonly canisters: Pick<ServedCanisters, 'resolveIfAny'>;
  readonly responder: Responder;
  readonly clock: Clock;
  readonly forwarded: RequestTally;
  readonly readiness: Pick<Readiness, 'isReady'>;
  readonly clients: Pick<ClientAddresses, 'of'>;
  /** For tests: milliseconds that a request waits for an owner (5 s). */
  readonly ownerWaitMs?: number | undefined;
}

const MISDIRECTED_STATUS = 421;
const READY_LOOK_MS = 20;
const LISTS = /^\/(?:actors|inspect)(?:\?|$)/;
const MOVES = /^\/x\/cluster\/move\//;
const EVENTS = 'text/event-stream';

/** Where the actor of a request is, or why nobody knows. */
type Found = Place | { readonly kind: 'unasked'; readonly error: ServerError };

interface Located {
  readonly named: NamedActor;
  readonly found: Found;
}

export class Hop {
  readonly #needs: HopNeeds;
  readonly #links = new WeakSet<Socket>();
  readonly #located = new WeakMap<IncomingMessage, Located>();
  readonly #verdicts = new Verdicts();
  readonly #line: OwnerLine;

  constructor(needs: HopNeeds) {
    this.#needs = needs;
    this.#line = new OwnerLine({ ...needs, waitMs: needs.ownerWaitMs ?? OWNER_WAIT_MS });
  }

  /** Notes a connection of another server, which has proven to be one. */
  link(socket: Socket): void {
    this.#links.add(socket);
  }

  /** Returns the names of websites' hosts: a label that is no actor's here may be that of another server's. */
  hostsOf(gateway: Pick<Gateway, 'referenceOfHost'>): Pick<Gateway, 'referenceOfHost'> {
    return { referenceOfHost: (label) => gateway.referenceOfHost(label) ?? label };
  }

  /** Returns true if the request's actor is another server's. */
  isElsewhere(request: IncomingMessage): boolean {
    const located = this.#located.get(request);
    return located !== undefined && located.found.kind !== 'here';
  }

  /**
   * Finds out where the actor of a request is, before anything is decided about it. Calls back at once where that is
   * known. A request of another server brings its verdict; one without is cut off.
   */
  arrived(request: IncomingMessage, response: ServedResponse, target: Target | undefined, located: () => void): void {
    if (this.#links.has(request.socket) && !this.#judged(request, response)) {
      request.socket.destroy();
      return;
    }
    if (!this.#links.has(request.socket)) this.#locate(request, response, target, located);
    else if (this.#needs.responder.isClosing) refuse(this.#needs.responder, response, TURNED_AWAY);
    else if (this.#needs.readiness.isReady) this.#locate(request, response, target, located);
    else void this.#untilReady().then(() => this.#locate(request, response, target, located));
  }

  /** Waits until this server serves its shard, which it has told the others some moments before. */
  async #untilReady(): Promise<void> {
    const { clock, readiness } = this.#needs;
    for (const untilMs = clock.nowMs() + OWNER_WAIT_MS; !readiness.isReady && clock.nowMs() < untilMs;)
      await sleep(clock, READY_LOOK_MS);
  }

  #locate(request: IncomingMessage, response: ServedResponse, target: Target | undefined, located: () => void): void {
    const named = target === undefined ? undefined : namedBy(request, target);
    if (named === undefined) located();
    else this.#locateActor(named, request, response, located);
  }

  #locateActor(named: NamedActor, request: IncomingMessage, response: ServedResponse, located: () => void): void {
    const own = this.#own(named.reference);
    if (own !== undefined) {
      // The request for a move waits for the move, which must not wait for that.
      const isWaiting = own === 'rejected' || MOVES.test(request.url ?? '');
      const opened = isWaiting ? undefined : this.#needs.cluster.enter(own, response);
      if (opened === undefined) located();
      else void opened.then(() => this.#locateActor(named, request, response, located));
      return;
    }
    const note = (found: Found): void => {
      this.#located.set(request, { named, found });
      located();
    };
    const place = this.#needs.cluster.placeOf(named.reference);
    if (place instanceof Promise || place.kind === 'ownerless')
      void this.#find(named.reference, place, () => response.destroyed).then(note);
    else note(place);
  }

  /** Waits until it is known who has an actor, and for the next owner of a shard that has none. */
  async #find(reference: string, first: Place | Promise<Place>, isGone: () => boolean): Promise<Found> {
    try {
      const place = await first;
      return place.kind === 'ownerless' ? await this.#line.next(reference, isGone) : place;
    } catch (error) {
      return { kind: 'unasked', error: notAsked(error) };
    }
  }

  /** Takes a request that was admitted and is not for this server. Returns false if it is. */
  take(request: IncomingMessage, response: ServedResponse, admitted: Target | OpenTarget): boolean {
    const located = this.#located.get(request);
    if (located === undefined) return this.#gathered(request, response, admitted);
    const { cluster, responder, clock, forwarded, clients } = this.#needs;
    const { named, found } = located;
    if (this.#links.has(request.socket)) {
      // One hop at most: whoever sent it asks again.
      if (found.kind === 'here') return false;
      refuse(responder, response, MISDIRECTED);
      return true;
    }
    const isNobodys = found.kind === 'here';
    const place = isNobodys && named.isNew ? cluster.nextPlace() : found;
    if (place.kind === 'here') return false;
    countedBy(forwarded, response);
    const isSite = admitted !== BUILT_IN && !(admitted instanceof OpenTarget);
    if (place.kind !== 'elsewhere') {
      const refusal = place.kind === 'unasked' ? place.error : ownerless(place);
      if (isSite) responder.errorAsText(response, refusal);
      else responder.error(response, refusal);
      return true;
    }
    const verdict = writeVerdict(admitted === BUILT_IN ? (response.grant ?? 'whole') : 'stranger');
    const given = { request, response, named, verdict, client: clients.of(request), isSite };
    new Forwarding({ line: this.#line, responder, clock }, given).start(place.peer);
    return true;
  }

  /** Answers a request for a list of all servers' actors. Returns false for any other request. */
  #gathered(request: IncomingMessage, response: ServedResponse, admitted: Target | OpenTarget): boolean {
    if (admitted !== BUILT_IN || !isList(request) || this.#links.has(request.socket)) return false;
    const { clients, forwarded, responder } = this.#needs;
    countedBy(forwarded, response);
    const about = { verdict: writeVerdict(response.grant ?? 'whole'), client: clients.of(request) };
    gather(this.#needs, { request, response }, about).catch((error: unknown) => responder.error(response, error));
    return true;
  }

  /** Takes over what the other server has found out about who asks. */
  #judged(request: IncomingMessage, response: ServedResponse): boolean {
    const { headers } = request;
    const client = headers[CLIENT_HEADER];
    if (request instanceof ServedRequest && typeof client === 'string') request.handedOnFor = client;
    const text = headers[VERDICT_HEADER];
    const verdict = typeof text === 'string' ? this.#verdicts.read(text) : undefined;
    if (verdict === undefined) return false;
    response.verdict = typeof verdict === 'string' ? verdict : 'granted';
    if (typeof verdict !== 'string') response.grant = verdict;
    this.#noteEnd(response);
    return true;
  }

  /** Has the answer note that this server stops, if it does by then. */
  #noteEnd(response: ServedResponse): void {
    const writeHead = response.writeHead.bind(response) as (...values: unknown[]) => ServedResponse;
    response.writeHead = (status: number, ...more: unknown[]): ServedResponse => {
      const headers: unknown = more.at(-1);
      const isNoted = Array.isArray(headers) && headers.includes(LINK_NOTE);
      if (this.#needs.responder.isClosing && Array.isArray(headers) && !isNoted)
        headers.push(LINK_NOTE, response.isUnbegun ? TURNED_AWAY : LEAVING);
      return writeHead(status, ...more);
    };
  }

  #own(reference: string): Canister | 'rejected' | undefined {
    try {
      return this.#needs.canisters.resolveIfAny(reference);
    } catch (error) {
      // A rejected actor is this server's, too.
      if (error instanceof ServerError) return 'rejected';
      throw error;
    }
  }
}

/** Says that nothing was executed, and that another server is to be asked. */
function refuse(responder: Pick<Responder, 'empty'>, response: ServedResponse, note: string): void {
  responder.empty(response, MISDIRECTED_STATUS, ['content-length', '0', LINK_NOTE, note]);
}

/** Streams of `/inspect` are of one server. */
function isList({ method, url = '', headers }: IncomingMessage): boolean {
  if (method !== 'GET' || !LISTS.test(url)) return false;
  if (url.startsWith('/actors')) return true;
  return preferredType(headers.accept, ['application/json', EVENTS]) !== EVENTS;
}

function namedBy({ url = '' }: IncomingMessage, target: Target): NamedActor | undefined {
  return target === BUILT_IN ? actorOfPath(url) : { reference: target.actor, isNew: false };
}

function notAsked(error: unknown): ServerError {
  if (error instanceof ServerError) return error;
  const text = `who has that actor cannot be asked now; nothing was executed: ${messageOf(error)}`;
  return new ServerError('unavailable', 'owner-missing', text, { cause: error });
}
