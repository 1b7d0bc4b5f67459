import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServerError, TimeSlices } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import { ActorSnapshots, type Page } from './actor-snapshots.ts';
import type { Audience } from './broadcast.ts';
import { type EventStream, eventFrame } from './event-streams.ts';
import { JsonArrayPieces } from './json-array.ts';
import type { RouteHost } from './route.ts';
import { shownEntry } from './routes/history.ts';

/** Milliseconds between a round that the client has taken and the next one. */
const PAUSE_MS = 2000;

/**
 * One client that looks at actors. Every two seconds it is told, in this order: of the actor that it has open, `actor`
 * (a snapshot, or null) and, where messages have ended, `history`; then the actors of its page, as an event without a
 * name. A round is made in parts, between which everybody else has a turn; while the client takes nothing, none is
 * made, so that a slow client holds one part at most.
 */
export class InspectStream implements Audience {
  readonly #host: RouteHost;
  readonly #page: Page;
  /** Name, id or principal of the actor that the client has open. */
  readonly #open: string | undefined;
  #stream: EventStream | undefined;
  #round: Iterator<Uint8Array>;
  #pause: Disposable | undefined;
  #isFull = false;
  #failure: unknown;
  /** Actor whose history the client has, up to and with the number of an entry. */
  #told: { readonly canister: Canister; readonly seq: number } | undefined;

  constructor(host: RouteHost, page: Page, open: string | undefined) {
    this.#host = host;
    this.#page = page;
    this.#open = open;
    this.#round = this.#frames();
  }

  /** Answers a request; the stream is one job, which has ended when the stream has. Throws as `EventStreams` does. */
  answer(request: IncomingMessage, response: ServerResponse): void {
    const { broadcast, jobs, streams } = this.#host;
    const startedMs = jobs.nowMs();
    this.#stream = streams.open(request, response, {
      isNeverSilent: true,
      drained: () => {
        if (!this.#isFull) return;
        this.#isFull = false;
        broadcast.tell(this);
      },
      closed: () => {
        this.#stream = undefined;
        this.#pause?.[Symbol.dispose]();
        if (this.#failure === undefined) jobs.done('inspect', undefined, '', startedMs);
        else jobs.failed('inspect', undefined, '', startedMs, this.#failure);
      },
    });
    broadcast.tell(this);
  }

  tellSome(): boolean {
    const stream = this.#stream;
    if (stream === undefined || this.#isFull) return false;
    try {
      return this.#tellPart(stream);
    } catch (error) {
      // A bug, in a turn of its own: nobody above would answer it.
      this.#host.log.error('a stream of /inspect has ended', error);
      this.#failure = error;
      stream.end();
      return false;
    }
  }

  /** Makes and sends the next part of the round; returns true if the client takes a further one now. */
  #tellPart(stream: EventStream): boolean {
    const part = this.#round.next();
    if (part.done !== true) {
      this.#isFull = !stream.send(part.value);
      return !this.#isFull;
    }
    const { broadcast, clock } = this.#host;
    this.#pause = clock.after(PAUSE_MS, () => {
      this.#round = this.#frames();
      broadcast.tell(this);
    });
    return false;
  }

  *#frames(): Generator<Uint8Array, undefined> {
    const snapshots = new ActorSnapshots(this.#host);
    if (this.#open !== undefined) {
      const canister = this.#find(this.#open);
      yield eventFrame({ event: 'actor', data: snapshots.textOf(canister) ?? 'null' });
      if (canister !== undefined) yield* this.#historyFrames(canister);
    }
    yield* arrayFrames(undefined, snapshots.chosen(this.#page), (canister) => snapshots.textOf(canister));
  }

  #find(reference: string): Canister | undefined {
    try {
      return this.#host.canisters.resolve(reference);
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }

  /** Yields the whole history if it has entries that the client does not know. */
  *#historyFrames(canister: Canister): Generator<Uint8Array, undefined> {
    const { canisters, codec } = this.#host;
    const isKnown = this.#told?.canister === canister;
    let seq = isKnown ? (this.#told?.seq ?? 0) : 0;
    const [newer] = canisters.historyOf(canister, seq);
    if (isKnown && newer === undefined) return;
    yield* arrayFrames('history', canisters.historyOf(canister), (entry) => {
      seq = entry.seq;
      return JSON.stringify(shownEntry(entry, { codec, canisters }));
    });
    this.#told = { canister, seq };
  }
}

/** Yields an event whose data is a JSON array, a line of data for each part: line feeds between items mean nothing. */
function* arrayFrames<T>(
  event: string | undefined,
  items: Iterable<T>,
  textOf: (item: T) => string | undefined,
): Generator<Uint8Array, undefined> {
  const pieces = new JsonArrayPieces(items, textOf);
  let head = event === undefined ? '' : `event: ${event}\n`;
  while (!pieces.isDone) {
    const text = pieces.next(new TimeSlices());
    yield Buffer.from(`${head}data: ${text}\n${pieces.isDone ? '\n' : ''}`, 'utf8');
    head = '';
  }
}
