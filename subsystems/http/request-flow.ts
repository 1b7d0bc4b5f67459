/**
 * Bounds what connections may make the event loop do at a time.
 *
 * node:http parses all that one read has brought (64 KiB, up to 32 reads in a row) without giving way, and begins
 * each request that it finds: 2,500 of the shortest in one read, and a client that never waits for an answer kept
 * everybody else waiting for seconds. So parsing stops behind the request that is one too many: for its connection,
 * or for this turn of the event loop. What was read and not parsed waits here, the socket is not read, and the parser
 * gets its next slice in one of the next turns, when answers have left. Connections take turns.
 *
 * Parsing is stopped as follows: node:http has the parser call `onIncoming` for each request and hands the result on to
 * llhttp, which takes HPE_PAUSED for "stop here". node:http knows no such stop and reports it as a `clientError`,
 * with the bytes and how many of them were parsed. From then on the connection has a lane: a listener for `data`
 * takes its bytes from the parser, and they go there in slices, through the listener that node:http has for that.
 * Connections that wait for their answers, or send a few requests ahead, never come that far and cost nothing.
 *
 * A body in chunks takes a lane at once: chunks of one byte cost a hundred times what their bytes cost otherwise.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Connection, Lane } from './connection.ts';

/** llhttp's code for a pause, as a result of `onIncoming`. */
const HPE_PAUSED = 21;
/** Requests of one connection that are worked on behind the first one. */
const PIPELINED_MAX = 32;
/** Parsing goes on when so few of them are left. */
const PIPELINED_LOW = PIPELINED_MAX / 2;

/** Limits of one turn of the event loop. */
interface Turn {
  readonly requestsMax: number;
  readonly msMax: number;
}

/** Limits for pipelined requests and lanes: about 20 µs a request, all in all. */
const TURN: Turn = { requestsMax: 32, msMax: 1 };
/** Limits of a turn after one that took a connection: the system hands over one a turn, and more may wait. */
const TURN_BEFORE_NEWCOMERS: Turn = { requestsMax: 8, msMax: 0.25 };
/**
 * The part of a turn with newcomers that lanes may use. A thousand connections may wait: while lanes had all of the
 * turn, the last of 1,500 waited for a second. A client that sends requests ahead gets no less in all, because such
 * turns are over sooner.
 */
const LANES_BEFORE_NEWCOMERS: Turn = { requestsMax: 1, msMax: 0.05 };
/** Milliseconds for which a turn counts as one that comes after one that took a connection. */
const NEWCOMERS_MS = 5;
/** 170 chunks of one byte: half a millisecond. */
const SLICE_BYTES = 1024;
/** Lanes hold up to 200 KiB each: 200 MiB, for connections that have shown no token. */
const STRANGERS_MAX = 1024;

/** The error by which node:http reports that parsing was stopped. */
export interface ParserError extends Error {
  readonly code?: string;
  readonly reason?: string;
  readonly bytesParsed?: number;
  readonly rawPacket?: Buffer;
}

export class RequestFlow {
  readonly #line: Connection[] = [];
  /** Requests in this turn of the event loop. */
  #requests = 0;
  #turnStartedMs = 0;
  #isTurnOpen = false;
  #haveNewcomers = false;
  #newcomerMs = Number.NEGATIVE_INFINITY;
  #strangers = 0;

  /** Watches a connection; to be called before its first byte is read. */
  watch(connection: Connection): void {
    this.#haveNewcomers = true;
    this.#newcomerMs = performance.now();
    const { parser } = connection.socket;
    if (parser === null) return; // closed already
    const begin = parser.onIncoming;
    parser.onIncoming = (request, keepAlive) => {
      const verdict = begin(request, keepAlive);
      return verdict === 0 && this.#mustStop(connection, request) ? HPE_PAUSED : verdict;
    };
  }

  /** Counts a request, before it is worked on. */
  began(connection: Connection, response: ServerResponse): void {
    if (connection.owesAnswer) {
      connection.pipelined++;
      response.once('close', () => {
        connection.pipelined--;
        this.#answered(connection);
      });
    }
    connection.response = response;
  }

  /** True if that error is a stop of ours: the connection goes on when there is room. */
  stopped(connection: Connection, { code, rawPacket, bytesParsed = 0 }: ParserError): boolean {
    if (code !== 'HPE_PAUSED' || rawPacket === undefined) return false;
    const { lane } = connection;
    if (lane === undefined) this.#openLane(connection, rawPacket, bytesParsed);
    else lane.at -= rawPacket.length - bytesParsed;
    this.#endMessage(connection);
    this.#queue(connection);
    return true;
  }

  #mustStop(connection: Connection, request: IncomingMessage): boolean {
    const { lane, pipelined } = connection;
    // CONNECT ends HTTP on this connection.
    if ((request as { readonly upgrade?: boolean }).upgrade === true) return false;
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    // Counting answers is not enough: they may leave while one read is parsed (node:http lets ticks run for every
    // body).
    const { bytesRead } = connection.socket;
    const isFirstOfRead = bytesRead !== connection.requestBytesRead;
    connection.requestBytesRead = bytesRead;
    if (lane === undefined && pipelined === 0 && isFirstOfRead) return isChunked;
    this.#openTurn();
    this.#requests++;
    const isTooMuch = pipelined >= PIPELINED_MAX || !this.#hasBudget(this.#turn);
    // Not because the lanes have little in this turn: two requests ahead are no flood.
    if (isTooMuch) connection.isFlooding = true;
    if (lane === undefined) return isTooMuch || isChunked;
    return isTooMuch || !this.#hasBudget(this.#laneTurn);
  }

  #openLane(connection: Connection, chunk: Buffer, at: number): void {
    const { socket } = connection;
    if (!connection.isKnown) {
      if (this.#strangers >= STRANGERS_MAX) {
        socket.destroy();
        return;
      }
      this.#strangers++;
      socket.once('close', () => this.#strangers--);
    }
    const [parse] = socket.listeners('data') as ((bytes: Buffer) => void)[];
    if (parse === undefined) throw new Error('node:http does not listen to its socket');
    socket.off('data', parse);
    const lane: Lane = { feed: parse, chunk, at, isInLine: false };
    connection.lane = lane;
    socket.on('data', (bytes: Buffer) => {
      lane.chunk = lane.chunk === undefined ? bytes : Buffer.concat([lane.chunk.subarray(lane.at), bytes]);
      lane.at = 0;
      socket.pause();
      this.#openTurn();
      this.#advance(connection);
    });
    // node:http resumes it after every request, and when the client takes its answers again.
    const resume = socket.resume.bind(socket);
    socket.resume = () => {
      if (lane.chunk === undefined) return resume();
      this.#queue(connection);
      return socket;
    };
    socket.pause();
  }

  /** The stop came behind the header: a request without a body is whole, and its time to come in must end. */
  #endMessage({ lane, socket }: Connection): void {
    if (lane?.chunk === undefined || socket.parser === null || socket._paused) return;
    socket.parser.resume();
    lane.feed(lane.chunk.subarray(lane.at, lane.at));
  }

  #answered(connection: Connection): void {
    if (connection.isHeld && connection.pipelined <= PIPELINED_LOW) this.#queue(connection);
  }

  #queue(connection: Connection): void {
    const { lane } = connection;
    if (lane === undefined || lane.isInLine) return;
    lane.isInLine = true;
    this.#line.push(connection);
    this.#openTurn();
  }

  /** Parses what a connection has sent: to the end, or as long as it and this turn have room. */
  #advance(connection: Connection): void {
    const { lane, socket } = connection;
    if (lane === undefined) return;
    while (lane.chunk !== undefined && this.#hasRoom(connection)) {
      if (!this.#hasBudget(this.#laneTurn)) {
        this.#queue(connection);
        return;
      }
      const slice = lane.chunk.subarray(lane.at, lane.at + SLICE_BYTES);
      lane.at += slice.length;
      socket.parser?.resume();
      lane.feed(slice);
      if (lane.at === lane.chunk.length) lane.chunk = undefined;
    }
    if (lane.chunk === undefined) socket.resume();
  }

  #hasRoom({ socket, pipelined }: Connection): boolean {
    return pipelined <= PIPELINED_LOW && socket.parser !== null && !socket._paused;
  }

  get #turn(): Turn {
    return this.#haveNewcomers ? TURN_BEFORE_NEWCOMERS : TURN;
  }

  get #laneTurn(): Turn {
    return this.#haveNewcomers ? LANES_BEFORE_NEWCOMERS : TURN;
  }

  #hasBudget({ requestsMax, msMax }: Turn): boolean {
    return this.#requests < requestsMax && performance.now() - this.#turnStartedMs < msMax;
  }

  #openTurn(): void {
    if (this.#isTurnOpen) return;
    this.#isTurnOpen = true;
    this.#requests = 0;
    this.#turnStartedMs = performance.now();
    this.#haveNewcomers = this.#turnStartedMs - this.#newcomerMs < NEWCOMERS_MS;
    setImmediate(this.#nextTurn);
  }

  readonly #nextTurn = (): void => {
    this.#isTurnOpen = false;
    if (this.#line.length === 0) return;
    this.#openTurn();
    // Lanes that do not get their turn now are the first ones in the next.
    const line = this.#line.splice(0);
    let at = 0;
    for (; at < line.length && this.#hasBudget(this.#laneTurn); at++) {
      const connection = line[at];
      if (connection?.lane === undefined) continue;
      connection.lane.isInLine = false;
      this.#advance(connection);
    }
    this.#line.unshift(...line.slice(at));
  };
}
