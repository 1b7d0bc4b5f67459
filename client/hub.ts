/**
 * Live queries of all tabs that share one hub, in one stream for each hundred of them (`POST /watch`). The hub is in a
 * SharedWorker, in the tab that leads, or in the tab that watches; it does not know which.
 */
import { EventParser, piecesOf } from './answer.ts';
import {
  AnswerError,
  errorOf,
  NetworkError,
  type Place,
  readRefusal,
  reasonOf,
  type Refusal,
  refusalOf,
  SvcError,
} from './errors.ts';
import { hasStarted, headersWith, isPassing, refuseRedirection } from './requests.ts';
import { sleep, waitMs } from './waiting.ts';

/** Facts that all queries of a stream have in common; tabs that differ in any of it share nothing. */
export interface StreamSettings {
  readonly base: string;
  readonly token: string | undefined;
  readonly caller: string | undefined;
  readonly isLossless: boolean;
  readonly maxBytes: number;
}

/** A query, and what the tab has of it. */
interface WatchedQuery extends Place {
  /** JSON array of arguments. */
  readonly args: string;
  /** Id of the newest answer that the tab was told. */
  readonly seen: string | undefined;
}

/** From a tab to the hub. `sub` is the tab's own number of a query. */
export type ToHub =
  | { readonly kind: 'watch'; readonly sub: number; readonly query: WatchedQuery }
  | { readonly kind: 'leave'; readonly sub: number };

/** From the hub to a tab. */
export type ToTab =
  /** An answer: a value, or a failure of the query that the next change may mend. */
  | { readonly kind: 'answer'; readonly sub: number; readonly id: string; readonly name: string; readonly data: string }
  | { readonly kind: 'upgrade'; readonly sub: number; readonly data: string }
  /** The query cannot be asked for now; `isOffline`: nor can any other. */
  | { readonly kind: 'unavailable'; readonly sub: number; readonly refusal: Refusal; readonly isOffline: boolean }
  | { readonly kind: 'online'; readonly sub: number }
  | { readonly kind: 'end'; readonly sub: number; readonly refusal: Refusal }
  /** The hub knows nothing of the tab: it has to say all its queries (again). */
  | { readonly kind: 'restart' };

/** A tab's end of a hub. */
export interface HubEnd {
  readonly receive: (message: ToHub) => void;
  readonly close: () => void;
}

/** Queries that one stream may have, as the server says. */
const STREAM_QUERIES_MAX = 100;
/** Characters of all queries of a stream; the server takes 256 KiB. */
const STREAM_CHARACTERS_MAX = 200 * 1024;
/** Streams at once: browsers open six connections to an origin, and calls need some, too. */
const STREAMS_MAX = 3;
/** Milliseconds in which queries that come are collected, and queries that go. */
const COMING_MS = 10;
const GOING_MS = 500;
/** The server sends a comment each 15 s: a stream that is silent for longer is gone. */
const SILENCE_MS = 45_000;
/** A stream that lived so long does not count as a failed try. */
const STEADY_MS = 10_000;
/** A stream that tells something before it breaks is opened again within a second. */
const FAILURES_TOLD_MAX = 3;
/** Milliseconds after which an open stream counts as one, if nothing was told. */
const OPEN_MS = 300;
/** Characters of answers that a hub keeps for tabs that come later. */
const KEPT_CHARACTERS_MAX = 32 * 1024 * 1024;

interface Viewer {
  readonly post: (message: ToTab) => void;
  readonly sub: number;
  seen: string | undefined;
}

/** One query, whoever watches it. */
class Entry {
  readonly id: string;
  readonly key: string;
  readonly query: WatchedQuery;
  readonly size: number;
  readonly viewers = new Set<Viewer>();
  /** Id of the newest answer; undefined: the server is to tell it. */
  answerId: string | undefined;
  answer: { readonly name: string; readonly data: string } | undefined;

  constructor(id: string, key: string, query: WatchedQuery) {
    this.id = id;
    this.key = key;
    this.query = query;
    this.answerId = query.seen;
    this.size = key.length + 100;
  }
}

export class Hub {
  readonly #settings: StreamSettings;
  readonly #fetch: typeof fetch;
  readonly #entries = new Map<string, Entry>();
  readonly #streams = new Set<Stream>();
  #count = 0;
  #kept = 0;

  constructor(settings: StreamSettings, ask: typeof fetch) {
    this.#settings = settings;
    this.#fetch = ask;
  }

  /** Lets a tab in. */
  attach(post: (message: ToTab) => void): HubEnd {
    const viewers = new Map<number, { readonly entry: Entry; readonly viewer: Viewer }>();
    const leave = (sub: number): void => {
      const found = viewers.get(sub);
      viewers.delete(sub);
      if (found === undefined) return;
      found.entry.viewers.delete(found.viewer);
      if (found.entry.viewers.size === 0) for (const stream of this.#streams) stream.change(GOING_MS, found.entry);
    };
    return {
      receive: (message) => {
        leave(message.sub);
        if (message.kind === 'leave') return;
        const viewer = { post, sub: message.sub, seen: message.query.seen };
        const entry = this.#watch(viewer, message.query);
        if (entry !== undefined) viewers.set(message.sub, { entry, viewer });
      },
      close: () => {
        for (const sub of viewers.keys()) leave(sub);
      },
    };
  }

  /** Ends all streams at once, and tells nobody. */
  close(): void {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
    this.#entries.clear();
  }

  #watch(viewer: Viewer, query: WatchedQuery): Entry | undefined {
    const { actor, method, args } = query;
    const key = JSON.stringify([actor, method, args]);
    const known = this.#entries.get(key);
    const entry = known ?? new Entry(`q${++this.#count}`, key, query);
    let stream = [...this.#streams].find((each) => (known === undefined ? each.hasRoomFor(entry) : each.has(entry)));
    if (stream === undefined) {
      if (this.#streams.size >= STREAMS_MAX || entry.size > STREAM_CHARACTERS_MAX) {
        const why = entry.size > STREAM_CHARACTERS_MAX ? 'the arguments are too long' : 'too many queries at once';
        const most = `${STREAMS_MAX * STREAM_QUERIES_MAX} queries at most, ${STREAM_CHARACTERS_MAX} characters for each hundred`;
        const message = `${why}: a page watches ${most}`;
        viewer.post({ kind: 'end', sub: viewer.sub, refusal: { status: 400, code: 400, message } });
        return undefined;
      }
      stream = new Stream(this.#settings, this.#fetch, this);
      this.#streams.add(stream);
    }
    this.#entries.set(key, entry);
    entry.viewers.add(viewer);
    if (known === undefined) stream.add(entry);
    else if (entry.answerId === viewer.seen) {
      // Has it, or both wait for it.
    } else if (entry.answer !== undefined) this.#tell(entry, viewer);
    else {
      this.forget(entry);
      stream.change(COMING_MS, entry);
    }
    if (stream.offline !== undefined)
      viewer.post({ kind: 'unavailable', sub: viewer.sub, refusal: stream.offline, isOffline: true });
    return entry;
  }

  #tell(entry: Entry, viewer: Viewer): void {
    const { answer, answerId } = entry;
    if (answer === undefined || answerId === undefined || viewer.seen === answerId) return;
    viewer.seen = answerId;
    viewer.post({ kind: 'answer', sub: viewer.sub, id: answerId, ...answer });
  }

  /** Called by a stream: an answer that may be new. */
  answered(entry: Entry, id: string, name: string, data: string): void {
    this.#kept += data.length - (entry.answer?.data.length ?? 0);
    entry.answerId = id;
    entry.answer = { name, data };
    for (const viewer of entry.viewers) this.#tell(entry, viewer);
    if (this.#kept > KEPT_CHARACTERS_MAX) this.#release(entry);
  }

  /** Has the server tell the answer once more: some viewer does not have it, and nor has the hub. */
  forget(entry: Entry): void {
    this.#release(entry);
    entry.answerId = undefined;
  }

  /** Called by a stream: the query is not asked for any more. */
  dropped(entry: Entry): void {
    this.#release(entry);
    this.#entries.delete(entry.key);
  }

  #release(entry: Entry): void {
    this.#kept -= entry.answer?.data.length ?? 0;
    entry.answer = undefined;
  }

  /** Called by a stream that has no queries. */
  emptied(stream: Stream): void {
    this.#streams.delete(stream);
  }
}

/** One request to `/watch`, again and again. */
class Stream {
  readonly #settings: StreamSettings;
  readonly #fetch: typeof fetch;
  readonly #hub: Hub;
  readonly #entries = new Map<string, Entry>();
  /** Queries whose answers the request in flight named, by their ids. */
  #named = new Set<string>();
  /** Aborted where the list of queries is another one. */
  #listed = new AbortController();
  readonly #closed = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = 0;
  #isRunning = false;
  /** True if the newest stream has told something. */
  #hasTold = false;
  /** Why no query can be asked; undefined: they can be, as far as is known. */
  offline: Refusal | undefined;

  constructor(settings: StreamSettings, ask: typeof fetch, hub: Hub) {
    this.#settings = settings;
    this.#fetch = ask;
    this.#hub = hub;
  }

  has(entry: Entry): boolean {
    return this.#entries.get(entry.id) === entry;
  }

  hasRoomFor(entry: Entry): boolean {
    let size = entry.size;
    for (const each of this.#entries.values()) size += each.size;
    return this.#entries.size < STREAM_QUERIES_MAX && size <= STREAM_CHARACTERS_MAX;
  }

  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    this.change(COMING_MS, entry);
  }

  /** Has the stream opened anew after some milliseconds, if the query is one of it. */
  change(ms: number, entry: Entry): void {
    if (!this.has(entry)) return;
    const at = Date.now() + ms;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      for (const each of this.#entries.values()) if (each.viewers.size === 0) this.#drop(each);
      this.#listed.abort();
      if (!this.#isRunning) void this.#run();
    }, ms);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closed.abort();
    this.#entries.clear();
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#hub.dropped(entry);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    const closed = this.#closed.signal;
    let hasAsked = false;
    for (let failures = 0; this.#entries.size > 0 && !closed.aborted;) {
      const listed = (this.#listed = new AbortController());
      const begun = Date.now();
      const { error, retryAfter } = await this.#read(AbortSignal.any([listed.signal, closed]));
      if (this.#entries.size === 0 || closed.aborted) break;
      if (listed.signal.aborted) continue;
      const steady = Date.now() - begun > STEADY_MS;
      failures = steady ? 1 : this.#hasTold ? Math.min(failures + 1, FAILURES_TOLD_MAX) : failures + 1;
      if (error.status === 401) {
        // As for calls: before the server has started its 401 means nothing, and it may just have started.
        const started = await hasStarted({ base: this.#settings.base, fetch: this.#fetch }, closed);
        if (started && hasAsked) this.#endAll(error);
        else if (!started) {
          this.#tellAll(error);
          await sleep(waitMs(2), closed);
        }
        hasAsked = started;
        continue;
      }
      if (!isPassing(error) && !(error instanceof AnswerError) && error.status < 500) {
        this.#endAll(error);
        break;
      }
      // A stream that was cut is opened again at once, once: nobody need know.
      if (!steady && failures > 1) this.#tellAll(error);
      await sleep(steady ? waitMs(1) / 2 : waitMs(failures, retryAfter), closed);
    }
    this.#isRunning = false;
    if (this.#entries.size === 0) this.#hub.emptied(this);
  }

  #endAll(error: SvcError): void {
    for (const entry of this.#entries.values()) this.#end(entry, refusalOf(error));
  }

  #end(entry: Entry, refusal: Refusal): void {
    this.#drop(entry);
    for (const { post, sub } of entry.viewers) post({ kind: 'end', sub, refusal });
    if (this.#entries.size === 0) this.#listed.abort();
  }

  /** Tells all tabs that the stream is broken, once. */
  #tellAll(error: SvcError): void {
    const refusal = refusalOf(error);
    const known = this.offline;
    this.offline = refusal;
    if (known !== undefined) return;
    for (const { viewers } of this.#entries.values())
      for (const { post, sub } of viewers) post({ kind: 'unavailable', sub, refusal, isOffline: true });
  }

  /** Reads one stream to its end; returns why it ended, if anything was wrong. */
  async #read(signal: AbortSignal): Promise<{ readonly error: SvcError; readonly retryAfter?: string | null }> {
    const { base, token, caller, isLossless, maxBytes } = this.#settings;
    const place = { actor: '', method: 'watch' };
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    let opened: ReturnType<typeof setTimeout> | undefined;
    this.#hasTold = false;
    try {
      const entries = [...this.#entries.values()];
      const named = entries.filter(({ answerId }) => answerId !== undefined);
      this.#named = new Set(named.map(({ id }) => id));
      const seen = named.map(({ id, answerId }) => `${id}:${answerId}`).join(' ');
      const list = entries.map(
        ({ id, query: { actor, method, args } }) =>
          `{"id":"${id}","actor":${JSON.stringify(actor)},"method":${JSON.stringify(method)},"args":${args}}`,
      );
      const response = await this.#fetch(`${base}/watch${isLossless ? '?lossless=1' : ''}`, {
        method: 'POST',
        headers: headersWith(token, { 'x-caller': caller, 'last-event-id': seen === '' ? undefined : seen }, place),
        body: `{"queries":[${list.join()}]}`,
        signal: AbortSignal.any([signal, silence.signal]),
        cache: 'no-store',
        redirect: 'manual',
      });
      refuseRedirection(response, place);
      if (!response.ok) {
        // The body of a refusal is short.
        let text = '';
        const decoder = new TextDecoder();
        for await (const piece of piecesOf(response, 64 * 1024, place)) text += decoder.decode(piece, { stream: true });
        return {
          error: errorOf(readRefusal(response.status, text), place),
          retryAfter: response.headers.get('retry-after'),
        };
      }
      if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
        await response.body?.cancel();
        return { error: errorOf({ status: 200, code: 0, message: 'the answer of /watch is no event stream' }, place) };
      }
      opened = setTimeout(() => this.#online(), OPEN_MS);
      const parser = new EventParser(maxBytes);
      const decoder = new TextDecoder();
      for await (const piece of piecesOf(response, Infinity, place)) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        for (const event of parser.push(decoder.decode(piece, { stream: true })))
          if (!signal.aborted) this.#take(event.id, event.name, event.data);
      }
      return { error: new NetworkError('the stream ended', { code: 0, status: 0, ...place }) };
    } catch (error) {
      if (error instanceof SvcError) return { error };
      const message = silence.signal.aborted ? `nothing came for ${SILENCE_MS} ms` : `no stream: ${reasonOf(error)}`;
      return { error: new NetworkError(message, { code: 0, status: 0, ...place }) };
    } finally {
      clearTimeout(timer);
      clearTimeout(opened);
    }
  }

  #online(): void {
    if (this.offline === undefined) return;
    this.offline = undefined;
    for (const { viewers } of this.#entries.values())
      for (const { post, sub } of viewers) post({ kind: 'online', sub });
  }

  #take(eventId: string, name: string, data: string): void {
    const [id = '', answerId] = eventId.split(':');
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#hasTold = true;
    this.#online();
    if (answerId !== undefined) this.#hub.answered(entry, answerId, name, data);
    else if (name === 'upgrade') for (const { post, sub } of entry.viewers) post({ kind: 'upgrade', sub, data });
    else if (name === 'end') this.#end(entry, refusalIn(data, 400));
    else if (name === 'unavailable') {
      const refusal = refusalIn(data, 503);
      this.#hub.forget(entry);
      for (const viewer of entry.viewers) {
        viewer.seen = undefined;
        viewer.post({ kind: 'unavailable', sub: viewer.sub, refusal, isOffline: false });
      }
      // The server would not tell the answer that this request named.
      if (this.#named.has(id)) this.change(COMING_MS, entry);
    }
  }
}

/** Returns the refusal in an event's data. */
export function refusalIn(data: string, status: number): Refusal {
  const refusal = readRefusal(status, data);
  return { ...refusal, status: refusal.code >= 400 && refusal.code < 600 ? refusal.code : status };
}
