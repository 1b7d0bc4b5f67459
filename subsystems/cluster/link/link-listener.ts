/**
 * Takes connections of other servers of the service (`--cluster-listen`). What proves to have the key is handed over as
 * a connection of HTTP, or of calls between actors; anybody else is cut off before a byte of theirs is taken for HTTP.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type Logger, messageOf, ServerError } from '../../../kernel/index.ts';
import { type LinkKey, receive } from './handshake.ts';

/** Connections that have not proven anything yet, at once: strangers take no more than this. */
const UNPROVEN_MAX = 256;
/** Milliseconds between two lines of the log about refused connections. */
const REFUSED_LOG_MS = 60_000;

interface LinkListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly key: LinkKey;
  readonly node: string;
  readonly log: Pick<Logger, 'warn'>;
  readonly clock: { nowMs(): number };
  /** Gets the sockets of servers that have proven to have the key. */
  readonly taken: (socket: Socket) => void;
  /** Gets those for calls between actors, with the id of the process. */
  readonly takenCalls: (socket: Socket, node: string) => void;
}

export class LinkListener {
  readonly #options: LinkListenerOptions;
  readonly #server: Server;
  readonly #unproven = new Set<Socket>();
  #loggedMs = Number.NEGATIVE_INFINITY;
  /** Connections that were refused since the start. */
  refused = 0;

  constructor(options: LinkListenerOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true, keepAlive: true }, (socket) => void this.#greeted(socket));
  }

  /** Binds; resolves with the port. Rejects with ServerError `cannot-listen`. */
  async listen(): Promise<number> {
    const { host, port } = this.#options;
    try {
      this.#server.listen({ host, port });
      await once(this.#server, 'listening');
    } catch (error) {
      const text = `--cluster-listen: cannot listen on ${host} port ${port}: ${messageOf(error)}`;
      throw new ServerError('unavailable', 'cannot-listen', text, { cause: error });
    }
    this.#server.on('error', (error) =>
      this.#options.log.warn(`the listener for other servers failed: ${error.message}`),
    );
    return (this.#server.address() as AddressInfo).port;
  }

  async #greeted(socket: Socket): Promise<void> {
    const { key, node, taken, takenCalls } = this.#options;
    socket.on('error', () => socket.destroy());
    const [oldest] = this.#unproven;
    // Who has the key proves that at once: the one that has waited longest is none of them.
    if (this.#unproven.size >= UNPROVEN_MAX) oldest?.destroy();
    this.#unproven.add(socket);
    try {
      const peer = await receive(socket, key, node);
      if (peer.use === 'http') taken(socket);
      else takenCalls(socket, peer.node);
    } catch (error) {
      socket.destroy();
      this.#refuse(`${socket.remoteAddress ?? 'somebody'}: ${messageOf(error)}`);
    } finally {
      this.#unproven.delete(socket);
    }
  }

  #refuse(reason: string): void {
    const { log, clock } = this.#options;
    this.refused++;
    const nowMs = clock.nowMs();
    if (nowMs - this.#loggedMs < REFUSED_LOG_MS) return;
    this.#loggedMs = nowMs;
    log.warn(`${this.refused} connection(s) at --cluster-listen were refused, the last one: ${reason}`);
  }

  /** Takes no connection any more. Those that were taken are others' to close. */
  close(): void {
    this.#server.close();
    for (const socket of this.#unproven) socket.destroy();
  }
}
