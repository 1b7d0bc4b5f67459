/** Kept connections to one other server, over which requests are forwarded: undici's, behind the handshake. */
import { connect, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { greet, type LinkKey, type LinkUse } from './handshake.ts';
import { LEAVING, LINK_NOTE, MISDIRECTED, TURNED_AWAY } from './link-notes.ts';
import { loadUndici } from './load-undici.ts';

/** Requests to one server at once; others wait for a free connection. */
const CONNECTIONS_MAX = 128;
/** Milliseconds that an idle connection is kept: less than servers keep theirs (75 s). */
const IDLE_MS = 60_000;
const CONNECT_MS = 3_000;
/** The receiver bounds the header, and writes it itself. */
const HEADER_BYTES_MAX = 256 * 1024;

interface PeerRequest {
  readonly method: string;
  readonly path: string;
  /** Names and values by turns. */
  readonly headers: readonly string[];
  readonly body: Uint8Array | Readable | null;
}

/**
 * Note of the other server about its answer. `misdirected`: it does not own the actor, and has executed nothing;
 * `turned-away`: it stops, and has executed nothing; `leaving`: it stops.
 */
type PeerNote = (typeof NOTES)[number];
const NOTES = [MISDIRECTED, TURNED_AWAY, LEAVING] as const;

/** Who takes the answer of another server, as it comes. */
export interface PeerAnswer {
  /** The header is there; names and values by turns. */
  began(status: number, headers: readonly string[], flow: AnswerFlow, note: PeerNote | undefined): void;
  piece(bytes: Uint8Array, flow: AnswerFlow): void;
  ended(): void;
  /** `wasSent`: the other server may have got the request, or part of it. */
  failed(error: Error, wasSent: boolean): void;
}

export type AnswerFlow = Pick<Dispatcher.DispatchController, 'pause' | 'resume'> & { abort(): void };

interface PeerOptions {
  readonly address: string;
  /** Id of the process that is expected there. */
  readonly node: string;
  readonly own: string;
  readonly key: LinkKey;
}

export class Peer {
  readonly node: string;
  readonly #options: PeerOptions;
  readonly #pool: Pool;
  /** True when the server has said that it stops: nothing more is sent to it. */
  isLeaving = false;
  /** Connections for calls between actors. */
  readonly #sockets = new Set<Socket>();

  constructor(options: PeerOptions) {
    this.#options = options;
    this.node = options.node;
    const { Pool: UndiciPool } = loadUndici();
    this.#pool = new UndiciPool('http://svc-link', {
      allowH2: false,
      pipelining: 1,
      connections: CONNECTIONS_MAX,
      maxHeaderSize: HEADER_BYTES_MAX,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      // An update may take as long as it likes; the owner's end is noticed by its lease.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (_options, callback) => this.#connect('http', callback),
    });
  }

  /** Opens a connection for calls between actors. Rejects with ServerError `owner-unreachable`. */
  async open(): Promise<Socket> {
    const socket = await new Promise<Socket>((resolve, reject) => {
      this.#connect('calls', (error, connected) => (connected === null ? reject(error) : resolve(connected)));
    });
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }

  #connect(use: LinkUse, callback: (...given: [null, Socket] | [Error, null]) => void): void {
    const { address, node, own, key } = this.#options;
    const at = address.lastIndexOf(':');
    const host = address.slice(0, at).replace(/^\[(.*)\]$/, '$1');
    const socket = connect({ host, port: Number(address.slice(at + 1)), noDelay: true, keepAlive: true });
    const fail = (error: unknown): void => {
      socket.destroy();
      callback(unreachable(address, error), null);
    };
    socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error('it does not answer')));
    socket.once('error', fail);
    socket.once('connect', () => {
      socket.off('error', fail);
      const ignore = (): void => undefined;
      socket.on('error', ignore);
      const proven = (): void => {
        socket.setTimeout(0);
        socket.off('error', ignore);
        callback(null, socket);
      };
      greet(socket, { key, node: own, expected: node, use }).then(proven, fail);
    });
  }

  /** Sends a request. Nothing is sent twice. */
  send({ method, path, headers, body }: PeerRequest, answer: PeerAnswer): void {
    const options = { method: method, path, headers: [...headers], body };
    const reader = new AnswerReader(answer, () => (this.isLeaving = true));
    this.#pool.dispatch({ ...options, origin: 'http://svc-link', idempotent: false, reset: false }, reader);
  }

  /** Cuts all connections: requests under way fail. */
  close(reason: Error): void {
    this.#pool.destroy(reason).catch(() => undefined);
    for (const socket of this.#sockets) socket.destroy(reason);
  }
}

class AnswerReader implements Dispatcher.DispatchHandler {
  readonly #answer: PeerAnswer;
  readonly #leaves: () => void;
  #wasSent = false;

  /** `leaves` is called when the other server notes that it stops. */
  constructor(answer: PeerAnswer, leaves: () => void) {
    this.#answer = answer;
    this.#leaves = leaves;
  }

  onRequestStart(): void {
    this.#wasSent = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    const { rawHeaders } = controller;
    const headers = (Array.isArray(rawHeaders) ? rawHeaders : []).map((text: unknown) =>
      text instanceof Uint8Array ? Buffer.from(text).toString('latin1') : String(text),
    );
    const note = noteIn(headers);
    if (note === LEAVING || note === TURNED_AWAY) this.#leaves();
    this.#answer.began(status, headers, flowOf(controller), note);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#answer.piece(chunk, flowOf(controller));
  }

  onResponseEnd(): void {
    this.#answer.ended();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#answer.failed(error, this.#wasSent);
  }
}

/** Returns what the server itself notes in its answer. */
function noteIn(headers: readonly string[]): PeerNote | undefined {
  for (let at = 0; at + 1 < headers.length; at += 2)
    if (headers[at]?.toLowerCase() === LINK_NOTE) return NOTES.find((note) => note === headers[at + 1]);
  return undefined;
}

function flowOf(controller: Dispatcher.DispatchController): AnswerFlow {
  return {
    pause: () => controller.pause(),
    resume: () => controller.resume(),
    abort: () => controller.abort(new Error('the client is gone')),
  };
}

function unreachable(address: string, error: unknown): ServerError {
  const text = `the server at ${address} cannot be reached: ${messageOf(error)}`;
  return new ServerError('unavailable', 'owner-unreachable', text, { cause: error });
}
