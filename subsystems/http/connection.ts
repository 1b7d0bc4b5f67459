import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Fields that node:http keeps on a socket and does not declare in its types; `test/subsystems/http/floods.test.ts`
 * pins them.
 */
export interface HttpSocket extends Socket {
  /** Null once the connection is closed. */
  readonly parser: HttpParser | null;
  /** The oldest answer that has not ended: the one that is being sent. None: none is owed. */
  readonly _httpMessage?: ServerResponse | null;
  /** The client takes its answers too slowly: node:http wants no further requests of it for now. */
  readonly _paused: boolean;
}

interface HttpParser {
  /** Called when the header of a request is there; what is returned goes to llhttp: 0 to go on. */
  onIncoming: (request: IncomingMessage, keepAlive: boolean) => number;
  /** Ends a pause. */
  resume(): void;
}

/** The way of bytes to the parser through the server's hands, slice by slice; see RequestFlow. */
export interface Lane {
  /** Gives bytes to the parser. */
  readonly feed: (bytes: Buffer) => void;
  /** Bytes that have been read; the parser has those before `at`. Undefined: the parser has all bytes. */
  chunk: Buffer | undefined;
  at: number;
  /** True if the lane is in line for its next turn. */
  isInLine: boolean;
}

/** One open connection. */
export class Connection {
  readonly socket: HttpSocket;
  /** The newest answer on this connection; answers of pipelined requests end in order, so it ends last. */
  response: ServerResponse | undefined;
  /** Requests that began while another one was still being answered, and have not been answered themselves. */
  pipelined = 0;
  /** Bytes that had been read when the newest request began. */
  requestBytesRead = 0;
  lane: Lane | undefined;
  /** True if the client has sent more requests at once than are taken at once. */
  isFlooding = false;
  /**
   * True if the client has sent a request that needs the token; on a server without a token, a request that would
   * need one.
   */
  isKnown = false;
  /** Callbacks of answers that have no end; called when the connection is closed. */
  readonly streams = new Set<() => void>();
  /** Bytes that had been read at the last look. */
  bytesRead = 0;
  /** Time of the last activity, as far as looks tell. */
  silentSinceMs: number;
  /** Time at which the request must have arrived, if node:http has given up on it while it was held. */
  receiveUntilMs: number | undefined;
  /** True if the client does not take what was sent to it; the socket has a timer for that. */
  isStalling = false;

  constructor(socket: HttpSocket, nowMs: number) {
    this.socket = socket;
    this.silentSinceMs = nowMs;
  }

  /** Bytes of it wait for their turn: its client cannot help it if a request is not there whole. */
  get isHeld(): boolean {
    return this.lane?.chunk !== undefined;
  }

  get owesAnswer(): boolean {
    return this.response !== undefined && !this.response.writableFinished;
  }

  /** Returns true if the connection has done anything since the last look. */
  look(nowMs: number): boolean {
    // A connection that owes nothing must not keep its last request and answer in memory.
    const wasBusy = this.response !== undefined || this.bytesRead !== this.socket.bytesRead;
    if (!this.owesAnswer) this.response = undefined;
    if (!wasBusy) return false;
    this.bytesRead = this.socket.bytesRead;
    this.silentSinceMs = nowMs;
    return true;
  }
}
