import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Audience } from './broadcast.ts';
import type { EventStream } from './event-streams.ts';
import type { JobKind } from './job-log.ts';
import type { RouteHost } from './route.ts';

/** Milliseconds between a round that the client has taken and the next one. */
const PAUSE_MS = 2000;

/**
 * One client that is told the same things every two seconds. A round is made in parts, between which everybody else has
 * a turn; while the client takes nothing, none is made, so that a slow client holds one part at most.
 */
export class RoundStream implements Audience {
  readonly #host: RouteHost;
  readonly #kind: JobKind;
  readonly #frames: () => Iterator<Uint8Array | undefined>;
  #stream: EventStream | undefined;
  #round: Iterator<Uint8Array | undefined>;
  #pause: Disposable | undefined;
  #isFull = false;
  #failure: unknown;

  /** `frames` makes a round: its parts, and undefined for a step of work that has made none. */
  constructor(host: RouteHost, kind: JobKind, frames: () => Iterator<Uint8Array | undefined>) {
    this.#host = host;
    this.#kind = kind;
    this.#frames = frames;
    this.#round = frames();
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
        if (this.#failure === undefined) jobs.done(this.#kind, undefined, '', startedMs);
        else jobs.failed(this.#kind, undefined, '', startedMs, this.#failure);
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
      this.#host.log.error(`a stream of the kind ${this.#kind} has ended`, error);
      this.#failure = error;
      stream.end();
      return false;
    }
  }

  /** Makes and sends the next part of the round; returns true if the client takes a further one now. */
  #tellPart(stream: EventStream): boolean {
    const part = this.#round.next();
    if (part.done !== true) {
      this.#isFull = part.value !== undefined && !stream.send(part.value);
      return !this.#isFull;
    }
    const { broadcast, clock } = this.#host;
    this.#pause = clock.after(PAUSE_MS, () => {
      this.#round = this.#frames();
      broadcast.tell(this);
    });
    return false;
  }
}
