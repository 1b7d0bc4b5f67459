/**
 * `svc/client`: calls, queries and live queries of a svc server, for browsers and Node. No dependencies, one file. In a
 * SharedWorker of its own the same file holds the stream that all tabs share.
 */
import { AnswerError, type Place } from './errors.ts';
import { randomName, platform } from './platform.ts';
import { type Connection, send, type Token } from './requests.ts';
import { isWorker, serveTabs } from './shared-stream.ts';
import { argumentsAsJson, type Watch, Watches, type WatchListener } from './watches.ts';

export {
  AbortedError,
  AnswerError,
  BadArgumentError,
  NetworkError,
  NotFoundError,
  OutOfCyclesError,
  RejectError,
  SvcError,
  TrapError,
  UnauthorizedError,
  UnavailableError,
} from './errors.ts';
export type { Token } from './requests.ts';
export type { Watch, WatchListener } from './watches.ts';

export interface ClientOptions {
  /** The server's address, perhaps with a path in front of its own. Default: where the page comes from. */
  readonly url?: string | URL;
  /** The server's token, or a function that gives it, asked before each request. */
  readonly token?: Token;
  /** Principal that calls claim as their caller (`x-caller`). Default: the anonymous one. */
  readonly caller?: string;
  /** Number of times that a request is sent at most, if it may be repeated. Default: 8, half a minute. */
  readonly tries?: number;
  /** Milliseconds that a call or query takes at most, with all its tries. Default: 120,000. */
  readonly deadlineMs?: number;
  /** Bytes of an answer at most, and characters of an event. Default: 64 MiB. */
  readonly maxBytes?: number;
  /** False: live queries have a stream of this client's own. Default: true in a page, where tabs share one. */
  readonly share?: boolean;
  /**
   * URL of this file on the page's own origin, for the SharedWorker. Default: this file's, if it is not in a bundle.
   */
  readonly worker?: string | URL;
  /** Default: the global one. A SharedWorker uses its own. */
  readonly fetch?: typeof fetch;
}

export interface QueryOptions {
  /** Ends the call with AbortedError. An update may be executed all the same. */
  readonly signal?: AbortSignal;
  readonly deadlineMs?: number;
  readonly tries?: number;
  readonly caller?: string;
  /** Arguments and results are in the lossless encoding. */
  readonly lossless?: boolean;
}

export interface CallOptions extends QueryOptions {
  /**
   * Key of the call: as often as it is sent with it, it is executed once. Default: a new one by chance. False: none,
   * and the call is sent once.
   */
  readonly idempotencyKey?: string | false;
}

export type WatchOptions = Pick<QueryOptions, 'signal' | 'caller' | 'lossless'>;

/** A method as `GET /x/actors/<ACTOR>/types` describes it. */
export interface MethodTypes {
  readonly kind: string;
  readonly args: readonly unknown[];
  readonly results: readonly unknown[];
}

/** Declarations of an actor: its methods by their names. */
export type ActorTypes<A> = { readonly [M in keyof A]: MethodTypes };

/** Names of the methods of an actor that are of some kinds. */
export type MethodsOf<A extends ActorTypes<A>, Kind extends string> = {
  [M in keyof A]: A[M]['kind'] extends Kind ? M : never;
}[keyof A] &
  string;

/** Arguments and options; the arguments may be missing where the method needs none. */
export type Rest<Args extends readonly unknown[], Options> =
  readonly [] extends Readonly<Args> ? [args?: Args, options?: Options] : [args: Args, options?: Options];

/** A listener, or its `value` alone. */
export type Listening<Results extends readonly unknown[]> = WatchListener<Results> | ((results: Results) => void);

/** One actor, with the types of its methods. */
export interface Actor<A extends ActorTypes<A>> {
  call<M extends MethodsOf<A, 'update' | 'query' | 'oneway'>>(
    method: M,
    ...rest: Rest<A[M]['args'], CallOptions>
  ): Promise<A[M]['results']>;
  query<M extends MethodsOf<A, 'query' | 'composite_query'>>(
    method: M,
    ...rest: Rest<A[M]['args'], QueryOptions>
  ): Promise<A[M]['results']>;
  watch<M extends MethodsOf<A, 'query'>>(
    method: M,
    args: A[M]['args'],
    listener: Listening<A[M]['results']>,
    options?: WatchOptions,
  ): Watch;
}

const TRIES = 8;
const DEADLINE_MS = 120_000;
const MAX_BYTES = 64 * 1024 * 1024;
/** Longest delay that timers take: a longer one would fire at once. */
const DEADLINE_MAX_MS = 2 ** 31 - 1;

/** A server, and who calls it. */
export class Client {
  readonly #connection: Connection;
  readonly #options: ClientOptions;
  readonly #watches: Watches;

  /** Throws TypeError where `url` is none that can be asked. */
  constructor(options: ClientOptions = {}) {
    const { url = platform.location?.origin, token, maxBytes = MAX_BYTES, worker } = options;
    const { protocol, origin, pathname } = new URL(String(url));
    if (!protocol.startsWith('http')) throw new TypeError(`url: expected http: or https:, found ${String(url)}`);
    const ask: typeof fetch = (input, init) => (options.fetch ?? fetch)(input, init);
    this.#connection = { base: origin + pathname.replace(/\/+$/, ''), token, fetch: ask, maxBytes };
    this.#options = options;
    const isShared = options.share ?? platform.document !== undefined;
    this.#watches = new Watches(this.#connection, { isShared, worker });
  }

  /** Returns an actor of the server: `client.actor<Actor>('ledger')`, with the declarations of the actor's types. */
  actor<A extends ActorTypes<A>>(actor: string): Actor<A> {
    const untyped = {
      call: (method: string, args?: readonly unknown[], options?: CallOptions) =>
        this.call(actor, method, args, options),
      query: (method: string, args?: readonly unknown[], options?: QueryOptions) =>
        this.query(actor, method, args, options),
      watch: (method: string, args: readonly unknown[], listener: Listening<never>, options?: WatchOptions) =>
        this.watch(actor, method, args, listener as Listening<readonly unknown[]>, options),
    };
    return untyped as Actor<A>;
  }

  /**
   * Calls a method of any kind but a composite query; resolves to its results. Rejects with an SvcError. What may be
   * gone at the next try (no connection, 502, 503, 504, 429) is repeated with the same key.
   */
  async call<Results extends readonly unknown[] = unknown[]>(
    actor: string,
    method: string,
    args: readonly unknown[] = [],
    options: CallOptions = {},
  ): Promise<Results> {
    const place = { actor, method };
    return resultsIn(await this.#send('/call-json', place, argumentsAsJson(args, place), options), place) as Results;
  }

  /**
   * Asks a query method; resolves to its results. Rejects with an SvcError. Queries have no effect, and are repeated.
   */
  async query<Results extends readonly unknown[] = unknown[]>(
    actor: string,
    method: string,
    args: readonly unknown[] = [],
    options: QueryOptions = {},
  ): Promise<Results> {
    const place = { actor, method };
    return resultsIn(await this.#send('/query-json', place, argumentsAsJson(args, place), options), place) as Results;
  }

  /** Calls as `call`, with Candid for arguments and results. */
  callCandid(actor: string, method: string, args: Uint8Array, options: CallOptions = {}): Promise<Uint8Array> {
    return this.#candid('/call', { actor, method }, args, options);
  }

  /** Asks as `query`, with Candid for arguments and results. */
  queryCandid(actor: string, method: string, args: Uint8Array, options: QueryOptions = {}): Promise<Uint8Array> {
    return this.#candid('/query', { actor, method }, args, options);
  }

  /**
   * Tells the results of a query now, and again whenever they are others, until it is closed. All live queries of a
   * page, and of other tabs of its origin with the same server, token and caller, share one connection. Throws
   * BadArgumentError where the arguments are no JSON; everything else is told to the listener.
   */
  watch<Results extends readonly unknown[] = unknown[]>(
    actor: string,
    method: string,
    args: readonly unknown[],
    listener: Listening<Results>,
    { signal, caller = this.#options.caller, lossless = false }: WatchOptions = {},
  ): Watch {
    const place = { actor, method };
    const told = (typeof listener === 'function' ? { value: listener } : listener) as WatchListener;
    return this.#watches.watch(place, argumentsAsJson(args, place), told, { caller, isLossless: lossless, signal });
  }

  /** Closes all live queries of this client at once. */
  close(): void {
    this.#watches.close();
  }

  async #candid(path: '/call' | '/query', place: Place, args: Uint8Array, options: CallOptions): Promise<Uint8Array> {
    argumentsAsJson([], place);
    return this.#send(path, place, args, options);
  }

  #send(
    path: '/call' | '/call-json' | '/query' | '/query-json',
    place: Place,
    body: string | Uint8Array,
    { signal, lossless, caller = this.#options.caller, idempotencyKey = randomName(), ...own }: CallOptions,
  ): Promise<Uint8Array> {
    const { tries = TRIES, deadlineMs = DEADLINE_MS } = { ...this.#options, ...own };
    const isCall = path.startsWith('/call');
    const key = isCall && idempotencyKey !== false ? idempotencyKey : undefined;
    const target = `${path}/${encodeURIComponent(place.actor)}/${encodeURIComponent(place.method)}`;
    return send(this.#connection, {
      path: lossless === true ? `${target}?lossless=1` : target,
      body,
      headers: { 'x-caller': caller, 'idempotency-key': key },
      isRepeatable: !isCall || key !== undefined,
      place,
      tries,
      deadlineMs: Math.min(deadlineMs, DEADLINE_MAX_MS),
      signal,
    });
  }
}

function resultsIn(bytes: Uint8Array, place: Place): readonly unknown[] {
  try {
    const results: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (Array.isArray(results)) return results;
  } catch {
    // Told below.
  }
  throw new AnswerError('the answer is no JSON array', { code: 200, status: 200, ...place });
}

if (isWorker()) serveTabs();
