/**
 * Server-sent events: answers that stay open. A stream's connection carries nothing else and ends with it, so bytes
 * go out as they are, without chunks around them. What a client does not take is bounded by whoever sends: `send`
 * says when to stop; and where too much waits for all clients together, those who took nothing for longest are cut. A
 * client that takes nothing for five minutes is cut, as with any answer (connections.ts).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Clock, ServerError } from '../../kernel/index.ts';
import type { Connections } from './connections.ts';
import { cutAnswer, type Responder } from './responder.ts';
import { UntakenAnswers } from './untaken-answers.ts';

/** A comment goes to every stream about so often: proxies close what is silent for a minute. */
const KEEP_ALIVE_SECS = 15;
const KEEP_ALIVE = Buffer.from(': keep-alive\n\n');
/** While the server stops: how long a stream may take to send what is left of it. */
const ENDING_MS = 1000;

interface EventStreamEvents {
  /** The client takes bytes again, after `send` has returned false. */
  drained?(): void;
  /** The stream is over: ended, or its client is gone. Called once. */
  closed(): void;
  /**
   * True if the stream says something every few seconds by itself and gets no comments, so that it may send an event
   * in parts.
   */
  readonly isNeverSilent?: boolean;
}

export interface EventStream {
  readonly isOpen: boolean;
  /**
   * True if the stream is open and its client takes what it is sent. After `send` has returned false, `drained` says
   * when that is so again.
   */
  readonly hasRoom: boolean;
  /** Bytes that wait for the client to take them. */
  readonly pendingBytes: number;
  /**
   * Sends whole frames, without copying them; parts of one where the stream gets no comments. Returns false if the
   * client takes no more for now; what was given is sent all the same.
   */
  send(frames: Uint8Array): boolean;
  /** Ends the stream behind what was sent. */
  end(): void;
  /** Cuts the connection: what waits is lost. */
  cut(): void;
}

/** All open streams of a server. */
export class EventStreams {
  readonly #responder: Responder;
  readonly #connections: Connections;
  /** Streams by the second of `KEEP_ALIVE_SECS` at which they get their comment. */
  readonly #byTurn: readonly Set<OpenStream>[] = Array.from({ length: KEEP_ALIVE_SECS }, () => new Set());
  readonly #clock: Clock;
  /** Bytes that slow clients have not taken yet. */
  readonly #untaken: UntakenAnswers;
  #turn = 0;
  #size = 0;
  #ticking: Disposable | undefined;

  constructor(responder: Responder, clock: Clock, connections: Connections, untakenBytesMax?: number) {
    this.#untaken = new UntakenAnswers(untakenBytesMax);
    this.#responder = responder;
    this.#clock = clock;
    this.#connections = connections;
  }

  get size(): number {
    return this.#size;
  }

  /** Answers a request with a stream. Throws ServerError `unavailable` when there are too many, or the server stops. */
  open(request: IncomingMessage, response: ServerResponse, events: EventStreamEvents): EventStream {
    if (this.#responder.isClosing) throw new ServerError('unavailable', 'streams-closed', 'shutting down');
    const endStream = this.#connections.beginStream(request.socket, () => stream.closed());
    if (endStream === undefined) {
      const text = `${this.#size} event streams are open, and this server has no room for more: try again later, or raise the limit (ulimit -n)`;
      throw new ServerError('unavailable', 'too-many-streams', text);
    }
    // Whatever a client sends with its request must not stay in front of the connection's end.
    request.resume();
    this.#responder.beginEvents(response);
    const turn = this.#byTurn[this.#size % KEEP_ALIVE_SECS];
    const isNeverSilent = events.isNeverSilent === true;
    const stream: OpenStream = new OpenStream(response, this.#untaken, isNeverSilent, () => {
      endStream();
      this.#size--;
      turn?.delete(stream);
      if (this.#size === 0) this.#stopTicking();
      events.closed();
    });
    turn?.add(stream);
    this.#size++;
    this.#ticking ??= this.#clock.every(1000, () => this.#keepAlive());
    response.on('drain', () => events.drained?.());
    return stream;
  }

  /** The server stops: it does not wait for clients that only listen. */
  endAll(): void {
    const slow: OpenStream[] = [];
    for (const streams of this.#byTurn) {
      for (const stream of Array.from(streams)) {
        stream.end();
        if (stream.pendingBytes > 0) slow.push(stream);
      }
    }
    if (slow.length === 0) return;
    this.#clock.after(ENDING_MS, () => {
      for (const stream of slow) stream.cut();
    });
  }

  #keepAlive(): void {
    this.#turn = (this.#turn + 1) % KEEP_ALIVE_SECS;
    for (const stream of this.#byTurn[this.#turn] ?? []) stream.keepAlive();
  }

  #stopTicking(): void {
    this.#ticking?.[Symbol.dispose]();
    this.#ticking = undefined;
  }
}

class OpenStream implements EventStream {
  readonly #response: ServerResponse;
  readonly #untaken: UntakenAnswers;
  readonly #isNeverSilent: boolean;
  #told: (() => void) | undefined;

  constructor(response: ServerResponse, untaken: UntakenAnswers, isNeverSilent: boolean, closed: () => void) {
    this.#response = response;
    this.#untaken = untaken;
    this.#isNeverSilent = isNeverSilent;
    this.#told = closed;
  }

  get isOpen(): boolean {
    return this.#told !== undefined && !this.#response.destroyed;
  }

  get hasRoom(): boolean {
    return this.isOpen && !this.#response.writableNeedDrain;
  }

  get pendingBytes(): number {
    return this.#response.writableLength;
  }

  send(frames: Uint8Array): boolean {
    if (!this.isOpen) return false;
    const hasRoom = this.#response.write(frames);
    if (!hasRoom || this.#response.socket === null) this.#untaken.wrote(this.#response);
    return hasRoom;
  }

  keepAlive(): void {
    if (!this.#isNeverSilent && this.pendingBytes === 0) this.send(KEEP_ALIVE);
  }

  end(): void {
    if (this.isOpen) this.#response.end();
    this.closed();
  }

  cut(): void {
    cutAnswer(this.#response);
    this.closed();
  }

  /** Ended, or its connection is closed. */
  closed(): void {
    const told = this.#told;
    this.#told = undefined;
    told?.();
  }
}

/** Returns the bytes of one event. `id` is what a client that comes back names as the last event that it had. */
export function eventFrame({
  id,
  event,
  data,
}: {
  readonly id?: string | number | undefined;
  readonly event?: string | undefined;
  readonly data: string;
}): Buffer {
  const idLine = id === undefined ? '' : `id: ${id}\n`;
  const eventLine = event === undefined ? '' : `event: ${event}\n`;
  // Each of the three line ends of the format begins a line of its own, so that no text can forge a field.
  const dataLines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return Buffer.from(`${idLine}${eventLine}${dataLines.join('')}\n`, 'utf8');
}
