import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Connection, type HttpSocket } from './connection.ts';
import { ServedResponse } from './served-response.ts';

/** Connections that are looked at to find one that can go: the queue is in order, so mostly the first one can. */
const LOOKS_MAX = 64;
/** Idle connections that are closed at once. */
const ENDED_AT_ONCE_MAX = 256;
/**
 * Share of all connections that may be streams. Streams make room for nobody; the rest is for clients that want to
 * call.
 */
const STREAMS_SHARE = 3 / 4;
/** The same of connections that have not shown the token: strangers leave room for streams of others. */
const STRANGERS_STREAMS_SHARE = 3 / 8;
/** A connection that has used the token must have been silent for so long before it has to go. */
const KNOWN_SILENCE_MS = 10_000;

interface ConnectionsOptions {
  /** Milliseconds that a connection may do nothing. */
  readonly idleMaxMs: number;
  /** Milliseconds that a client may leave its answers untaken. */
  readonly stallMaxMs: number;
  /** Milliseconds that a request may take to come in. */
  readonly receivingMaxMs: number;
}

/**
 * The open connections: how many there are at most, which of them are idle, and which one goes when there are too many.
 * node:http would keep a timer a connection and restart it with every answer; here a request costs one map lookup, and
 * all that is needed to tell an idle connection from a busy one is looked up when the sweep passes, every few seconds:
 * has a byte arrived since the last one, is an answer pending.
 *
 * The two queues are in the order of silence, as far as looks tell: what was found to have done something goes to the
 * end. So the connection that was silent longest is found in few steps, whatever arrives: a flood of connections
 * displaces itself, before it displaces anybody who has shown the token.
 */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  readonly #strangers = new Set<Connection>();
  readonly #known = new Set<Connection>();
  /** Connections with answers that have no end: they are busy as long as they are open, and in none of the queues. */
  readonly #streaming = new Set<Connection>();
  /** Number of open answers that have no end. */
  #streams = 0;
  /** Number of those on connections that had not shown the token. */
  #strangersStreams = 0;
  /** Connections that the last sweep has found idle for too long. */
  readonly #idle: Connection[] = [];
  readonly #idleMaxMs: number;
  #stallMaxMs: number;
  readonly #receivingMaxMs: number;
  /** Connections that may be open at once. */
  max = Number.POSITIVE_INFINITY;
  /** Number of connections that were closed, or not taken, because there were too many. */
  displaced = 0;

  constructor({ idleMaxMs, stallMaxMs, receivingMaxMs }: ConnectionsOptions) {
    this.#idleMaxMs = idleMaxMs;
    this.#stallMaxMs = stallMaxMs;
    this.#receivingMaxMs = receivingMaxMs;
  }

  get size(): number {
    return this.#open.size;
  }

  of(socket: Socket): Connection | undefined {
    return this.#open.get(socket);
  }

  /**
   * Registers a new connection, closing another one for it if necessary. Returns undefined if all are busy with
   * answers and there is no room.
   */
  opened(socket: Socket, nowMs: number): Connection | undefined {
    if (this.#open.size >= this.max && !this.#makeRoom(nowMs)) {
      this.displaced++;
      return undefined;
    }
    const connection = new Connection(socket as HttpSocket, nowMs);
    this.#open.set(socket, connection);
    this.#strangers.add(connection);
    socket.once('close', () => this.#forget(connection));
    return connection;
  }

  /** Notes that a connection has shown the token: from now on others go before it. */
  know(connection: Connection): void {
    connection.isKnown = true;
    if (this.#strangers.delete(connection)) this.#known.add(connection);
  }

  /**
   * Notes that one answer of a connection will have no end. `gone` is called if the connection closes before the
   * returned function is called. Returns undefined if there are as many such answers as there may be.
   */
  beginStream(socket: Socket, gone: () => void): (() => void) | undefined {
    if (this.#streams >= Math.floor(this.max * STREAMS_SHARE)) return undefined;
    const connection = this.#open.get(socket);
    if (connection === undefined) {
      queueMicrotask(gone);
      return () => undefined;
    }
    const { streams, isKnown } = connection;
    if (!isKnown && this.#strangersStreams >= Math.floor(this.max * STRANGERS_STREAMS_SHARE)) return undefined;
    this.#streams++;
    if (!isKnown) this.#strangersStreams++;
    this.#strangers.delete(connection);
    this.#known.delete(connection);
    this.#streaming.add(connection);
    streams.add(gone);
    return () => {
      if (!streams.delete(gone)) return;
      this.#streams--;
      if (!isKnown) this.#strangersStreams--;
      if (streams.size > 0 || !this.#streaming.delete(connection)) return;
      (connection.isKnown ? this.#known : this.#strangers).add(connection);
    };
  }

  /** The answer that a connection still owes, if any. */
  pendingAnswerOf(socket: Socket): ServerResponse | undefined {
    const connection = this.#open.get(socket);
    return connection?.owesAnswer === true ? connection.response : undefined;
  }

  /** node:http says that a request has taken too long to come in; true if that was not its client's doing. */
  forgives(connection: Connection, nowMs: number): boolean {
    if (!connection.isHeld) return false;
    connection.receiveUntilMs = nowMs + this.#receivingMaxMs;
    return true;
  }

  /** Cuts answers that are being sent to a token that is void by now. Requests that came before are answered. */
  cutVoid(): void {
    for (const { socket } of this.#open.values()) {
      const answer = socket._httpMessage;
      const isVoid = answer instanceof ServedResponse && answer.grant?.isOver === true;
      if (isVoid && answer.headersSent && !answer.writableEnded) answer.destroy();
    }
  }

  /**
   * Closes what is too much by now, and looks for what has been idle for too long: `endIdle` closes that. To be called
   * every few seconds.
   */
  sweep(nowMs: number): void {
    this.#idle.length = 0;
    for (const queue of [this.#strangers, this.#known]) {
      // As it is now: what did something is put at the end.
      for (const connection of first(queue, queue.size)) {
        this.#watchTaking(connection);
        if (connection.receiveUntilMs !== undefined) this.#watchReceiving(connection, nowMs);
        if (connection.look(nowMs)) {
          queue.delete(connection);
          queue.add(connection);
        } else if (nowMs - connection.silentSinceMs >= this.#idleMaxMs) this.#idle.push(connection);
      }
    }
    for (const connection of this.#streaming) this.#watchTaking(connection);
    while (this.#open.size > this.max && this.#makeRoom(nowMs)) continue;
  }

  /**
   * Closes some of what the last sweep has found idle, unless it has done something since; returns true if there is
   * more. Closing a connection takes 30 to 50 µs, and many may have become idle at once.
   */
  endIdle(nowMs: number): boolean {
    for (const connection of this.#idle.splice(-ENDED_AT_ONCE_MAX))
      if (!connection.look(nowMs)) connection.socket.destroySoon();
    return this.#idle.length > 0;
  }

  /** Lets clients leave their answers untaken for only so long from now on. */
  hurry(stallMaxMs: number): void {
    this.#stallMaxMs = Math.min(this.#stallMaxMs, stallMaxMs);
    for (const connection of this.#open.values()) connection.isStalling = false;
  }

  /**
   * Returns true if any client has not taken all of an answer yet; node:http calls such a connection idle. Meant to
   * be called every few milliseconds.
   */
  lookForUntaken(): boolean {
    let isAny = false;
    for (const connection of this.#open.values()) {
      this.#watchTaking(connection);
      if (connection.isStalling && connection.owesAnswer) isAny = true;
    }
    return isAny;
  }

  /**
   * Closes, while the server stops, each connection that owes no answer, or owes one only to a request that has not
   * fully arrived.
   */
  closeUnless(isAnswerOwed: (request: IncomingMessage) => boolean): void {
    for (const { socket } of this.#open.values()) {
      // Answers are sent in the order of their requests: those before this one have ended, whatever came behind it.
      const oldest = socket._httpMessage;
      if (!oldest || oldest.writableFinished || !isAnswerOwed(oldest.req)) socket.destroy();
    }
  }

  /** Closes the one that can go best; false if none can. */
  #makeRoom(nowMs: number): boolean {
    const gone = this.#silentStranger(nowMs) ?? this.#silentKnown(nowMs);
    if (gone === undefined) return false;
    this.displaced++;
    this.#forget(gone);
    gone.socket.destroy();
    return true;
  }

  /**
   * Returns the connection that was silent longest, or, if none of those looked at was silent, the first that can be
   * spared.
   */
  #silentStranger(nowMs: number): Connection | undefined {
    let spare: Connection | undefined;
    for (const connection of first(this.#strangers, LOOKS_MAX)) {
      const isActive = connection.look(nowMs);
      const canGo = !connection.owesAnswer || connection.isFlooding || connection.isStalling;
      if (canGo && !isActive) return connection;
      if (canGo) spare ??= connection;
      this.#strangers.delete(connection);
      this.#strangers.add(connection);
    }
    return spare;
  }

  #silentKnown(nowMs: number): Connection | undefined {
    for (const connection of first(this.#known, LOOKS_MAX)) {
      const isActive = connection.look(nowMs);
      if (!isActive && nowMs - connection.silentSinceMs >= KNOWN_SILENCE_MS) return connection;
      if (!isActive) return undefined; // those behind it were silent for less
      this.#known.delete(connection);
      this.#known.add(connection);
    }
    return undefined;
  }

  #forget(connection: Connection): void {
    this.#open.delete(connection.socket);
    this.#strangers.delete(connection);
    this.#known.delete(connection);
    this.#streaming.delete(connection);
    this.#streams -= connection.streams.size;
    for (const gone of connection.streams) {
      connection.streams.delete(gone);
      gone();
    }
  }

  /** The socket's own timer restarts whenever the client takes a byte; node:http closes the connection when it ends. */
  #watchTaking(connection: Connection): void {
    const isStalling = connection.socket.writableLength > 0;
    if (isStalling === connection.isStalling) return;
    connection.isStalling = isStalling;
    connection.socket.setTimeout(isStalling ? this.#stallMaxMs : 0);
  }

  #watchReceiving(connection: Connection, nowMs: number): void {
    if (connection.response?.req.complete !== false) connection.receiveUntilMs = undefined;
    else if (connection.isHeld) connection.receiveUntilMs = nowMs + this.#receivingMaxMs;
    else if (nowMs > (connection.receiveUntilMs ?? nowMs)) connection.socket.destroy();
  }
}

/** The first ones, as they are now. */
function first<T>(values: Iterable<T>, count: number): T[] {
  const taken: T[] = [];
  for (const value of values) {
    if (taken.length === count) break;
    taken.push(value);
  }
  return taken;
}
