/**
 * Connections to other servers: each is one of undici's clients with one socket and one request at a time, so that a
 * request that is abandoned takes its socket along, in whatever state.
 *
 * If private addresses are denied, the address is checked when the socket is made: the checked address is the one that
 * is connected to, even if the name resolves to another one later, and it is checked again when the socket is
 * connected. A reused connection has the same socket; one that undici opens anew is checked anew.
 */
import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { buildConnector, Client, Dispatcher } from 'undici';
import { OUTCALL_FAILURES } from './index.ts';
import { loadUndici } from './load-undici.ts';
import { isPrivateAddress } from './private-addresses.ts';
import { mendParser } from './response-parser.ts';

/** Idle connections to all servers that are kept for later requests: each one is a descriptor. */
const IDLE_MAX = 64;
/** Idle connections to one server. */
const IDLE_OF_ORIGIN_MAX = 8;
/** Time that an idle connection is kept if the server does not say: most servers close after 5 s or more. */
const IDLE_MS = 4_000;
/** Longest time that an idle connection is kept, whatever the server says. */
const IDLE_MS_MAX = 60_000;
/**
 * Limit on names and values of a response's headers: above what is accepted in the end (48 KiB), whose check has the
 * better message.
 */
const HEADER_BYTES_MAX = 64 * 1024;
/**
 * Bytes on the wire for each byte of the body, and the minimum: chunks of one byte take seven. Without this limit a
 * server could send bytes forever that never become a body, such as chunk extensions.
 */
const WIRE_BYTES_A_BYTE = 8;
const WIRE_BYTES_MIN = 1024 * 1024;

export interface ConnectionOptions {
  readonly denyPrivate: boolean;
  /** Certificates of authorities, PEM, instead of those of Node (and NODE_EXTRA_CA_CERTS); for tests. */
  readonly ca?: string | undefined;
  /** Resolves names; for tests. */
  readonly lookup?: LookupFunction | undefined;
}

export class Connections {
  readonly #connect: buildConnector.connector;
  /** Idle connections, oldest first. */
  readonly #idle = new Set<Connection>();
  readonly #busy = new Set<Connection>();

  constructor({ denyPrivate, ca, lookup = systemLookup }: ConnectionOptions) {
    const connector = loadUndici().buildConnector({
      allowH2: false,
      // The caller keeps the deadline.
      timeout: 0,
      lookup: denyPrivate ? publicOnly(lookup) : lookup,
      // Set whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      rejectUnauthorized: true,
      ...(ca !== undefined && { ca }),
    });
    this.#connect = denyPrivate ? guarded(connector) : connector;
  }

  /** Returns a connection to this server that is not in use. It must be given back or destroyed. */
  take(origin: string): Connection {
    let taken: Connection | undefined;
    for (const connection of this.#idle) if (connection.origin === origin) taken = connection;
    // Takes the one used last: the server closes the others sooner.
    if (taken !== undefined) this.#idle.delete(taken);
    else taken = new Connection(origin, this.#connect, (connection) => this.#idle.delete(connection));
    this.#busy.add(taken);
    return taken;
  }

  release(connection: Connection): void {
    if (connection.isClosed || connection.isSending) {
      this.destroy(connection);
      return;
    }
    this.#busy.delete(connection);
    this.#idle.add(connection);
    let ofOrigin = 0;
    for (const { origin } of this.#idle) if (origin === connection.origin) ofOrigin++;
    for (const oldest of this.#idle) {
      const isTooMany =
        ofOrigin > IDLE_OF_ORIGIN_MAX ? oldest.origin === connection.origin : this.#idle.size > IDLE_MAX;
      if (!isTooMany) continue;
      this.destroy(oldest);
      return;
    }
  }

  destroy(connection: Connection): void {
    this.#busy.delete(connection);
    this.#idle.delete(connection);
    connection.destroy();
  }

  /** Closes all connections; running requests fail. */
  close(): void {
    for (const connection of [...this.#idle, ...this.#busy]) this.destroy(connection);
  }
}

interface ResponseLimits {
  readonly bodyBytesMax: number;
  /** Called with the length of a chunk before its bytes come; throws if that is too much. */
  readonly announced: (bytes: number) => void;
  /** Called if the server sends bytes without end that are no body. */
  readonly overflow: () => void;
}

export class Connection {
  readonly origin: string;
  readonly #client: Client;
  #socket: Socket | undefined;
  #watched: Socket | undefined;
  #bytesReadMax = 0;
  #limits: ResponseLimits | undefined;
  isClosed = false;

  /** `closed` is called when the connection cannot be used again. */
  constructor(origin: string, connect: buildConnector.connector, closed: (connection: Connection) => void) {
    this.origin = origin;
    const { Client: UndiciClient } = loadUndici();
    this.#client = new UndiciClient(origin, {
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: HEADER_BYTES_MAX,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS_MAX,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: ({ servername: _fromHostHeader, ...options }, callback) => {
        // The certificate must be that of the URL's host, whatever the request's header `host` says.
        const servername = isIP(options.hostname) === 0 ? options.hostname : undefined;
        const socket: unknown = connect({ ...options, ...(servername !== undefined && { servername }) }, callback);
        this.#socket = socket as Socket;
      },
    });
    this.#client.on('disconnect', () => {
      this.isClosed = true;
      closed(this);
    });
  }

  /**
   * True while the request has not left whole. A server that has answered all the same may never read the rest, and the
   * next request would wait behind it.
   */
  get isSending(): boolean {
    return (this.#socket?.writableLength ?? 0) > 0;
  }

  dispatch(
    options: Omit<Dispatcher.DispatchOptions, 'origin'>,
    handler: Dispatcher.DispatchHandler,
    limits: ResponseLimits,
  ): void {
    this.#bytesReadMax = (this.#socket?.bytesRead ?? 0) + limits.bodyBytesMax * WIRE_BYTES_A_BYTE + WIRE_BYTES_MIN;
    this.#limits = limits;
    this.#client.dispatch({ ...options, origin: this.origin }, handler);
  }

  /** Called when the socket is connected and takes the request. */
  started(): void {
    const socket = this.#socket;
    if (socket === undefined || socket === this.#watched) return;
    this.#watched = socket;
    mendParser(socket, (bytes) => this.#limits?.announced(bytes));
    socket.on('readable', () => {
      if (socket.bytesRead > this.#bytesReadMax) this.#limits?.overflow();
    });
  }

  destroy(): void {
    this.isClosed = true;
    this.#limits = undefined;
    // The socket may still be connecting.
    this.#socket?.on('error', () => undefined).destroy();
    this.#client.destroy().catch(() => undefined);
  }
}

const PRIVATE_REFUSED =
  'the address is not one of the public internet, and others are refused on this host (--outcalls-deny-private)';

/** Resolves a name to its public addresses only; fails if it has none. */
function publicOnly(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      const addresses = (Array.isArray(found) ? found : []).filter(({ address }) => !isPrivateAddress(address));
      const [first] = addresses;
      if (first === undefined) callback(OUTCALL_FAILURES['outcall-refused'](PRIVATE_REFUSED), []);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/**
 * Checks addresses written in the URL, which are never looked up, and the address that the socket is finally connected
 * to.
 */
function guarded(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) => {
    const refuse = (): void => callback(OUTCALL_FAILURES['outcall-refused'](PRIVATE_REFUSED), null);
    if (isIP(options.hostname) !== 0 && isPrivateAddress(options.hostname)) {
      queueMicrotask(refuse);
      return;
    }
    return connect(options, (...connected) => {
      const [error, socket] = connected;
      if (error === null && isPrivateAddress(socket.remoteAddress ?? '')) {
        socket.destroy();
        refuse();
      } else callback(...connected);
    });
  };
}
