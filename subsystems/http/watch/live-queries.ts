/**
 * Live queries: a client names a query and gets its answer now, and again whenever a message has changed the actor
 * and the answer with it. One execution serves everybody who watches the same query. Live queries keep no actor
 * awake: a query is asked when it is first watched, and after a change, when the actor was awake anyway.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { WatchBounds } from '../access.ts';
import type { RouteHost } from '../route.ts';
import { LiveQuery, type LiveQueryHost, type PreparedCall, preparedCall, type WatchedQuery } from './live-query.ts';
import { Viewer } from './viewers.ts';
import { WatchedCanister } from './watched-canister.ts';

interface Watched {
  readonly watched: WatchedCanister;
  readonly subscription: Disposable;
}

export class LiveQueries {
  readonly #host: RouteHost;
  readonly #queryHost: LiveQueryHost;
  readonly #byKey = new Map<string, LiveQuery>();
  readonly #byCanister = new Map<Canister, Watched>();
  #answerBytes = 0;
  #listed = 0;
  readonly #bounds: WatchBounds;

  constructor(host: RouteHost, bounds: WatchBounds) {
    this.#host = host;
    this.#bounds = bounds;
    const { canisters, codec, clock, broadcast } = host;
    this.#queryHost = { canisters, codec, clock, broadcast, hold: (bytes) => this.#hold(bytes) };
  }

  /**
   * Answers a request with the stream of a query. Rejects with a ServerError when the query cannot be asked:
   * `invalid` (no query, or arguments that do not fit), `missing`, `unavailable`.
   */
  async open(request: IncomingMessage, response: ServerResponse, query: WatchedQuery): Promise<void> {
    await this.watch(query, (live) => {
      if (!response.destroyed) this.#join(live, request, response);
    });
  }

  /** Calls `join` with the query when it has an answer. Rejects like `open`. */
  async watch(query: WatchedQuery, join: (live: LiveQuery) => void): Promise<void> {
    const call = await this.#preparedCall(query);
    const key = keyOf(query, call.argument);
    const live = this.#byKey.get(key) ?? this.#begin(key, query, call);
    await live.joining(() => join(live));
  }

  /**
   * Prepares a call by the types of the code that the actor has when this resolves: the code may change while its
   * types are asked for, or while a large argument is encoded.
   */
  async #preparedCall(query: WatchedQuery): Promise<PreparedCall> {
    for (;;) {
      const { module } = query.canister;
      const isPast = (): boolean => query.canister.module !== module;
      try {
        refuseUnlessQuery(query);
        const call = await preparedCall(this.#host, query);
        const refusal = query.access.refusal(query.canister, query.method);
        if (refusal !== undefined) throw refusal;
        if (!isPast()) return call;
      } catch (error) {
        if (!isPast()) throw error;
      }
    }
  }

  /** Counts the queries of a stream that shows several. Throws ServerError `too-many-watches`. */
  list(count: number): Disposable {
    const { listedMax } = this.#bounds;
    if (this.#listed + count > listedMax)
      throw tooManyWatches(`${listedMax} queries are watched in streams of several`);
    this.#listed += count;
    return { [Symbol.dispose]: () => void (this.#listed -= count) };
  }

  #join(live: LiveQuery, request: IncomingMessage, response: ServerResponse): void {
    const lastEventId = request.headers['last-event-id'];
    const viewer = new Viewer(typeof lastEventId === 'string' ? lastEventId : undefined, live.codeChanges);
    viewer.stream = this.#host.streams.open(request, response, {
      drained: () => live.drained(viewer),
      closed: () => live.remove(viewer),
    });
    live.add(viewer);
  }

  #begin(key: string, query: WatchedQuery, call: PreparedCall): LiveQuery {
    const { queriesMax } = this.#bounds;
    if (this.#byKey.size >= queriesMax) throw tooManyWatches(`${queriesMax} different queries are watched`);
    const { watched } = this.#watchedOf(query.canister);
    const live = new LiveQuery(
      this.#queryHost,
      query,
      call,
      () => watched.changes,
      () => {
        this.#byKey.delete(key);
        watched.remove(live);
        if (watched.size === 0) this.#forget(query.canister);
      },
    );
    this.#byKey.set(key, live);
    watched.add(live);
    return live;
  }

  #watchedOf(canister: Canister): Watched {
    const known = this.#byCanister.get(canister);
    if (known !== undefined) return known;
    const { canisters, clock } = this.#host;
    const watched = new WatchedCanister(clock, canister);
    const made = { watched, subscription: canisters.watch(canister, watched) };
    this.#byCanister.set(canister, made);
    return made;
  }

  #forget(canister: Canister): void {
    this.#byCanister.get(canister)?.subscription[Symbol.dispose]();
    this.#byCanister.delete(canister);
  }

  #hold(bytes: number): void {
    const { answerBytesMax } = this.#bounds;
    if (bytes > 0 && this.#answerBytes + bytes > answerBytesMax) {
      const mib = answerBytesMax / 1024 / 1024;
      throw new ServerError(
        'unavailable',
        'watches-full',
        `the answers of all watched queries together pass ${mib} MiB`,
      );
    }
    this.#answerBytes += bytes;
  }
}

/**
 * Returns the key of a query, by the bytes that the actor gets, so that arguments have the same key however they are
 * written.
 */
function keyOf({ canister, method, caller, isLossless, access }: WatchedQuery, argument: Uint8Array): string {
  const hash = createHash('sha256').update(argument).digest('base64');
  return [canister.idHex, method, Buffer.from(caller).toString('hex'), isLossless ? '1' : '0', access.key, hash].join(
    '\0',
  );
}

function tooManyWatches(what: string): ServerError {
  const text = `${what}, and this server watches no more: try again later`;
  return new ServerError('unavailable', 'too-many-watches', text);
}

function refuseUnlessQuery({ canister, method }: WatchedQuery): void {
  const kind = canister.module?.methods.get(method);
  if (kind !== 'composite_query') return;
  const text = `${method} is a composite query, which depends on other actors too: only queries of one actor can be watched`;
  throw new ServerError('invalid', 'watch-composite', text);
}
