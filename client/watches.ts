/** Live queries of this tab: who listens, and what they were told. */
import {
  AnswerError,
  BadArgumentError,
  errorOf,
  type Place,
  type Refusal,
  type SvcError,
  UnauthorizedError,
} from './errors.ts';
import { type HubEnd, refusalIn, type StreamSettings, type ToTab } from './hub.ts';
import { platform, type PlatformEvent } from './platform.ts';
import { type Connection, tokenOf } from './requests.ts';
import { openHub } from './shared-stream.ts';

/** Who is told of a live query. */
export interface WatchListener<Results extends readonly unknown[] = readonly unknown[]> {
  /** The results, at once and whenever they are others: the newest ones, not each. */
  value(results: Results): void;
  /**
   * The query failed (a trap, a reject, out of cycles, an answer that is none), or cannot be asked now. The watch goes
   * on: `value` comes when there is one again.
   */
  error?(error: SvcError): void;
  /** True when the server is reached again, false with the reason when it is not. The last value stands meanwhile. */
  online?(isOnline: boolean, error?: SvcError): void;
  /** The actor has other code; its answer follows if it is another one. */
  upgrade?(moduleHash: string | null): void;
  /** Nothing more comes: no such actor or method, an update method, a wrong token, too many queries. */
  end?(error: SvcError): void;
}

/** A live query that goes on until it is closed, or has ended. */
export interface Watch {
  close(): void;
}

interface WatchSettings {
  readonly caller: string | undefined;
  readonly isLossless: boolean;
  readonly signal: AbortSignal | undefined;
}

interface Sharing {
  readonly isShared: boolean;
  readonly worker: string | URL | undefined;
}

/** Milliseconds that a way to a hub stays open after its last query: a page that shows another view keeps it. */
const IDLE_MS = 1000;

/** All live queries of a client. */
export class Watches {
  readonly #connection: Connection;
  readonly #sharing: Sharing;
  readonly #links = new Map<string, Link>();

  constructor(connection: Connection, sharing: Sharing) {
    this.#connection = connection;
    this.#sharing = sharing;
  }

  watch(place: Place, args: string, listener: WatchListener, { caller, isLossless, signal }: WatchSettings): Watch {
    const watched = new Watched(place, args, listener);
    const { base, token, maxBytes } = this.#connection;
    const close = (): void => {
      watched.close();
      signal?.removeEventListener('abort', close);
    };
    const join = async (isAgain: boolean): Promise<void> => {
      const settings = { base, token: await tokenOf(token, place), caller, isLossless, maxBytes };
      if (watched.isClosed) return;
      // Another token may be the right one by now; the same one is not.
      const key = JSON.stringify(settings);
      if (isAgain && key === watched.key) return watched.finish(watched.refused);
      watched.key = key;
      this.#linkOf(key, settings).add(watched);
    };
    watched.rejoin = (isAgain) => void join(isAgain).catch((error: unknown) => watched.finish(error as SvcError));
    if (signal?.aborted === true) watched.close();
    else {
      signal?.addEventListener('abort', close);
      watched.rejoin(false);
    }
    return { close };
  }

  close(): void {
    for (const link of this.#links.values()) link.close();
  }

  #linkOf(key: string, settings: StreamSettings): Link {
    const known = this.#links.get(key);
    if (known !== undefined) return known;
    const link = new Link(settings, this.#connection.fetch, this.#sharing, () => this.#links.delete(key));
    this.#links.set(key, link);
    return link;
  }
}

/** One live query of one listener. */
class Watched {
  readonly place: Place;
  readonly args: string;
  readonly #listener: WatchListener;
  /** Id of the newest answer that the listener was told. */
  seen: string | undefined;
  isClosed = false;
  /** The settings with which it was asked for. */
  key = '';
  refused: SvcError | undefined;
  rejoin: (isAgain: boolean) => void = () => undefined;
  /** Set by the link. */
  leave: () => void = () => undefined;
  #isOffline = false;

  constructor(place: Place, args: string, listener: WatchListener) {
    this.place = place;
    this.args = args;
    this.#listener = listener;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.leave();
  }

  /** Takes what the hub tells. */
  take(message: Exclude<ToTab, { readonly kind: 'restart' }>): void {
    if (this.isClosed) return;
    const listener = this.#listener;
    switch (message.kind) {
      case 'answer':
        this.refused = undefined;
        // A hub that lets the tab in once more is asked again before its first answer has come.
        if (message.id === this.seen) break;
        this.seen = message.id;
        if (message.name !== '') listener.error?.(this.#errorOf(refusalIn(message.data, 400)));
        else this.#value(message.data);
        break;
      case 'upgrade':
        listener.upgrade?.(/"moduleHash":"([0-9a-f]+)"/.exec(message.data)?.[1] ?? null);
        break;
      case 'online':
        if (this.#isOffline) listener.online?.(true);
        this.#isOffline = false;
        break;
      case 'unavailable':
        if (message.isOffline) {
          this.#isOffline = true;
          listener.online?.(false, this.#errorOf(message.refusal));
        } else {
          this.seen = undefined;
          listener.error?.(this.#errorOf(message.refusal));
        }
        break;
      case 'end':
        this.#ended(this.#errorOf(message.refusal));
        break;
    }
  }

  #ended(error: SvcError): void {
    this.leave();
    if (!(error instanceof UnauthorizedError) || this.refused !== undefined) {
      this.finish(error);
      return;
    }
    this.refused = error;
    this.rejoin(true);
  }

  /** Tells the listener that nothing more comes. */
  finish(error: SvcError | undefined): void {
    if (this.isClosed || error === undefined) return;
    this.close();
    this.#listener.end?.(error);
  }

  #value(data: string): void {
    let results: unknown;
    try {
      results = JSON.parse(data);
    } catch {
      // Told below.
    }
    if (Array.isArray(results)) this.#listener.value(results);
    else
      this.#listener.error?.(new AnswerError('the answer is no JSON array', { code: 0, status: 200, ...this.place }));
  }

  #errorOf(refusal: Refusal): SvcError {
    return errorOf(refusal, this.place);
  }
}

/** The way to one hub, and the queries that go there. */
class Link {
  readonly #open: () => HubEnd;
  readonly #over: () => void;
  readonly #watched = new Map<number, Watched>();
  #end: HubEnd | undefined;
  #count = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(settings: StreamSettings, ask: typeof fetch, sharing: Sharing, over: () => void) {
    this.#open = () => openHub(settings, ask, sharing, (message) => this.#receive(message));
    this.#over = over;
    this.#end = this.#open();
    platform.addEventListener?.('pagehide', this.#hidden);
    platform.addEventListener?.('pageshow', this.#shown);
  }

  add(watched: Watched): void {
    clearTimeout(this.#timer);
    const sub = ++this.#count;
    this.#watched.set(sub, watched);
    watched.leave = () => {
      watched.leave = () => undefined;
      this.#watched.delete(sub);
      this.#end?.receive({ kind: 'leave', sub });
      if (this.#watched.size === 0) this.#timer = setTimeout(() => this.close(), IDLE_MS);
    };
    this.#say(sub, watched);
  }

  #say(sub: number, { place, args, seen }: Watched): void {
    this.#end?.receive({ kind: 'watch', sub, query: { ...place, args, seen } });
  }

  #receive(message: ToTab): void {
    if (message.kind === 'restart') for (const [sub, watched] of this.#watched) this.#say(sub, watched);
    else this.#watched.get(message.sub)?.take(message);
  }

  /** The page goes, or is kept for the button "back": then it must hold neither locks nor connections. */
  readonly #hidden = (): void => {
    this.#end?.close();
    this.#end = undefined;
  };

  readonly #shown = ({ persisted }: PlatformEvent): void => {
    if (persisted === true && this.#end === undefined) this.#end = this.#open();
  };

  /** Closes all its queries, and the way itself. */
  close(): void {
    for (const watched of this.#watched.values()) watched.close();
    clearTimeout(this.#timer);
    platform.removeEventListener?.('pagehide', this.#hidden);
    platform.removeEventListener?.('pageshow', this.#shown);
    this.#end?.close();
    this.#over();
  }
}

/** Returns arguments as a JSON array. Throws BadArgumentError where they are none. */
export function argumentsAsJson(args: readonly unknown[], place: Place): string {
  const facts = { code: 400, status: 0, ...place };
  if (!Array.isArray(args)) throw new BadArgumentError('args: expected an array with one element an argument', facts);
  for (const name of [place.actor, place.method])
    // Such a name would be another path.
    if (typeof name !== 'string' || name === '' || name === '.' || name === '..' || !name.isWellFormed())
      throw new BadArgumentError(`${JSON.stringify(name)} is no name of an actor or a method`, facts);
  try {
    return JSON.stringify(args);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new BadArgumentError(`args: ${reason}`, { ...facts, cause });
  }
}
