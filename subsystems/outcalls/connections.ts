/**
 * Connections to the outside: each is one of undici's clients with one socket and one request at a time, so that a request
 * that is given up takes its socket along, at whatever it was.
 *
 * Where private addresses are denied, the address is looked at when the socket is made: the one that is looked at is the one
 * that is connected to, whatever the name resolves to by then, and again when the socket is there. A connection that is used
 * again is still that socket; one that undici opens anew comes through here anew.
 */
import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { buildConnector, Client, Dispatcher } from 'undici';
import { OUTCALL_FAILURES } from './index.ts';
import { loadUndici } from './load-undici.ts';
import { isPrivateAddress } from './private-addresses.ts';
import { mendParser } from './response-parser.ts';

/** Idle connections that are kept for the next request, of all servers together: each is a descriptor. */
const IDLE_MAX = 64;
/** Of one server. */
const IDLE_OF_ORIGIN_MAX = 8;
/** How long, where the server does not say: most servers close after 5 s or more. */
const IDLE_MS = 4_000;
/** How long at most, whatever the server says. */
const IDLE_MS_MAX = 60_000;
/** Names and values of a response's headers: over what is taken in the end (48 KiB), to say so in its own words. */
const HEADER_BYTES_MAX = 64 * 1024;
/**
 * Bytes on the wire for each byte of the body, and in any case: chunks of one byte take seven. Without it a server could send
 * for ever what never becomes a body, such as chunk extensions.
 */
const WIRE_BYTES_A_BYTE = 8;
const WIRE_BYTES_MIN = 1024 * 1024;

export interface ConnectionOptions {
  readonly denyPrivate: boolean;
  /** Certificates of authorities instead of those of Node (and NODE_EXTRA_CA_CERTS), PEM; for tests. */
  readonly ca?: string | undefined;
  /** Resolves names; for tests. */
  readonly lookup?: LookupFunction | undefined;
}

export class Connections {
  readonly #connect: buildConnector.connector;
  /** Oldest first. */
  readonly #idle = new Set<Connection>();
  readonly #busy = new Set<Connection>();

  constructor({ denyPrivate, ca, lookup = systemLookup }: ConnectionOptions) {
    const connector = loadUndici().buildConnector({
      allowH2: false,
      // The deadline is the caller's.
      timeout: 0,
      lookup: denyPrivate ? publicOnly(lookup) : lookup,
      // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      rejectUnauthorized: true,
      ...(ca !== undefined && { ca }),
    });
    this.#connect = denyPrivate ? guarded(connector) : connector;
  }

  /** One to this server that nobody else has. Give it back, or destroy it. */
  take(origin: string): Connection {
    let taken: Connection | undefined;
    for (const connection of this.#idle) if (connection.origin === origin) taken = connection;
    // The one used last: the others are closed sooner.
    if (taken !== undefined) this.#idle.delete(taken);
    else taken = new Connection(origin, this.#connect, (connection) => this.#idle.delete(connection));
    this.#busy.add(taken);
    return taken;
  }

  giveBack(connection: Connection): void {
    if (connection.isClosed) {
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

  /** All of them; requests under way fail. */
  close(): void {
    for (const connection of [...this.#idle, ...this.#busy]) this.destroy(connection);
  }
}

export class Connection {
  readonly origin: string;
  readonly #client: Client;
  #socket: Socket | undefined;
  #watched: Socket | undefined;
  #bytesReadMax = 0;
  #overflow: (() => void) | undefined;
  isClosed = false;

  /** `closed`: it cannot be used again. */
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
        // The certificate has to be that of the URL's host, whatever the request's header `host` says.
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

  /** `overflow`: the server sends, and it is no body. */
  dispatch(
    options: Omit<Dispatcher.DispatchOptions, 'origin'>,
    handler: Dispatcher.DispatchHandler,
    responseBytesMax: number,
    overflow: () => void,
  ): void {
    this.#bytesReadMax = (this.#socket?.bytesRead ?? 0) + responseBytesMax * WIRE_BYTES_A_BYTE + WIRE_BYTES_MIN;
    this.#overflow = overflow;
    this.#client.dispatch({ ...options, origin: this.origin }, handler);
  }

  /** The socket is there, and takes the request. */
  started(): void {
    const socket = this.#socket;
    if (socket === undefined || socket === this.#watched) return;
    this.#watched = socket;
    mendParser(socket);
    socket.on('readable', () => {
      if (socket.bytesRead > this.#bytesReadMax) this.#overflow?.();
    });
  }

  destroy(): void {
    this.isClosed = true;
    this.#overflow = undefined;
    // Also one that still connects.
    this.#socket?.on('error', () => undefined).destroy();
    this.#client.destroy().catch(() => undefined);
  }
}

const PRIVATE_REFUSED =
  'the address is not one of the public internet, and others are refused on this host (--outcalls-deny-private)';

/** Only public addresses of a name; an error if it has none. */
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

/** Addresses that stand in the URL itself, which nobody looks up; and whatever the socket is connected to in the end. */
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
