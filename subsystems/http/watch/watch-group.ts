/**
 * Several live queries in one stream. Each is checked, asked and told as one with a stream of its own; its events carry
 * its id, and an error of one is its last event and ends none of the others.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Access } from '../access.ts';
import { RETRY_MS } from '../event-source.ts';
import { eventFrame, type EventStream } from '../event-streams.ts';
import { errorCodeOf } from '../http-status.ts';
import type { RouteHost } from '../route.ts';
import type { LiveQueries } from './live-queries.ts';
import type { LiveQuery, WatchedQuery } from './live-query.ts';
import { Viewer, type ViewerStream } from './viewers.ts';
import { type ListedWatch, seenAnswers } from './watch-list.ts';

/** Bytes up to which a frame is copied behind its id, so that both leave in one write. */
const COPIED_BYTES_MAX = 16 * 1024;

type WatchGroupHost = Pick<RouteHost, 'streams' | 'clock' | 'log'>;

/** Parts of a query that are the same for all of a stream. */
interface GroupAsked extends Pick<WatchedQuery, 'caller' | 'isLossless'> {
  readonly access: Access;
}

export class WatchGroup {
  readonly #host: WatchGroupHost;
  readonly #queries: LiveQueries;
  readonly #parts = new Set<Part>();
  #stream: EventStream | undefined;

  constructor(host: WatchGroupHost, queries: LiveQueries) {
    this.#host = host;
    this.#queries = queries;
  }

  /**
   * Answers a request with the stream of all these queries, which begins at once. Throws ServerError `unavailable` when
   * there is no room for a stream.
   */
  open(request: IncomingMessage, response: ServerResponse, watches: readonly ListedWatch[], asked: GroupAsked): void {
    const listed = this.#queries.list(watches.length);
    const { 'last-event-id': lastEventId } = request.headers;
    const seen = seenAnswers(typeof lastEventId === 'string' ? lastEventId : undefined);
    const stream = this.#openStream(request, response, listed);
    this.#stream = stream;
    for (const watch of watches) this.#parts.add(new Part(watch.id, seen.get(watch.id), this));
    for (const [at, part] of [...this.#parts].entries()) {
      const watch = watches[at];
      if (watch !== undefined) void this.#begin(part, watch, asked);
    }
  }

  #openStream(request: IncomingMessage, response: ServerResponse, listed: Disposable): EventStream {
    const events = {
      drained: (): void => {
        for (const part of this.#parts) part.drained();
      },
      closed: (): void => {
        listed[Symbol.dispose]();
        this.#stream = undefined;
        const left = [...this.#parts];
        this.#parts.clear();
        for (const part of left) part.close();
      },
    };
    try {
      return this.#host.streams.open(request, response, events);
    } catch (error) {
      listed[Symbol.dispose]();
      throw error;
    }
  }

  async #begin(part: Part, watch: ListedWatch, asked: GroupAsked): Promise<void> {
    try {
      const canister = asked.access.resolve(watch.actor, watch.method);
      const json = Buffer.from(watch.json, 'utf8');
      await this.#queries.watch({ canister, method: watch.method, json, ...asked }, (live) => {
        if (this.#parts.has(part)) part.join(live);
      });
    } catch (error) {
      if (!this.#parts.has(part)) return;
      if (!(error instanceof ServerError)) this.#host.log.error('a live query failed unexpectedly', error);
      const code = error instanceof ServerError ? errorCodeOf(error.kind, 5) : 500;
      const message =
        error instanceof ServerError ? messageOf(error) : 'internal error; the cause is in the server log';
      const data = JSON.stringify({ code, message });
      if (error instanceof ServerError && error.kind === 'unavailable') {
        part.send(eventFrame({ event: 'unavailable', data }));
        part.retry = this.#host.clock.after(RETRY_MS, () => void this.#begin(part, watch, asked));
        return;
      }
      part.send(eventFrame({ event: 'end', data }));
      part.end();
    }
  }

  /** Sends a frame of a part. */
  send(head: string, frame: Uint8Array): boolean {
    const stream = this.#stream;
    if (stream === undefined) return false;
    const line = Buffer.from(head, 'utf8');
    let hasRoom: boolean;
    if (frame.length <= COPIED_BYTES_MAX) hasRoom = stream.send(Buffer.concat([line, frame]));
    else {
      stream.send(line);
      hasRoom = stream.send(frame);
    }
    // One connection: where one query has no room, none has.
    if (!hasRoom) for (const part of this.#parts) part.isFull = true;
    return hasRoom;
  }

  /** Takes a part out, and ends the stream behind the last one. */
  ended(part: Part): void {
    this.#parts.delete(part);
    if (this.#parts.size === 0) this.#stream?.end();
  }
}

/** One query of the stream: what the query takes for its client. */
class Part implements ViewerStream {
  readonly #id: string;
  readonly #seenId: string | undefined;
  readonly #group: WatchGroup;
  #live: LiveQuery | undefined;
  #viewer: Viewer | undefined;
  retry: Disposable | undefined;

  constructor(id: string, seenId: string | undefined, group: WatchGroup) {
    this.#id = id;
    this.#seenId = seenId;
    this.#group = group;
  }

  set isFull(isFull: boolean) {
    if (this.#viewer !== undefined) this.#viewer.isFull = isFull;
  }

  join(live: LiveQuery): void {
    const viewer = new Viewer(this.#seenId, live.codeChanges);
    viewer.stream = this;
    this.#viewer = viewer;
    this.#live = live;
    live.add(viewer);
  }

  drained(): void {
    if (this.#viewer !== undefined) this.#live?.drained(this.#viewer);
  }

  /** Sends a frame with the query's id: before the id of an answer, and alone where there is none. */
  send(frame: Uint8Array, id?: string): boolean {
    if (id === undefined) return this.#group.send(`id: ${this.#id}\n`, frame);
    return this.#group.send(`id: ${this.#id}:${id}\n`, frame.subarray(`id: ${id}\n`.length));
  }

  /** Called by the query when nothing more comes of it. */
  end(): void {
    this.close();
    this.#group.ended(this);
  }

  /** Leaves the query: its client is gone. */
  close(): void {
    this.retry?.[Symbol.dispose]();
    const viewer = this.#viewer;
    this.#viewer = undefined;
    if (viewer === undefined) return;
    viewer.stream = undefined;
    this.#live?.remove(viewer);
  }
}
