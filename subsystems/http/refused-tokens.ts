import type { IncomingMessage } from 'node:http';
import type { Logger } from '../../kernel/index.ts';
import type { Arrival, ClientAddresses } from './client-addresses.ts';

/** Milliseconds between two lines: whoever tries tokens must not fill the log. */
const LOG_MS = 10_000;

/** Tells the log who sends requests without the right token. */
export class RefusedTokens {
  readonly #clients: ClientAddresses;
  readonly #log: Pick<Logger, 'warn'>;
  #count = 0;
  #last: Arrival | undefined;
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(clients: ClientAddresses, log: Pick<Logger, 'warn'>) {
    this.#clients = clients;
    this.#log = log;
  }

  note({ headers, socket }: IncomingMessage): void {
    this.#count++;
    // The socket's own address is gone when the connection is; finding the client's in the headers can wait.
    this.#last = { headers, socket: { remoteAddress: socket.remoteAddress } };
  }

  /** Tells of what was refused since the last line, unless that was just now. */
  tell(nowMs: number): void {
    if (this.#last === undefined || nowMs - this.#toldMs < LOG_MS) return;
    const client = this.#clients.of(this.#last);
    const requests = this.#count === 1 ? 'a request' : `${this.#count} requests`;
    this.#log.warn(`${requests} without the right bearer token: 401; the last one came from ${client}`);
    this.#toldMs = nowMs;
    this.#count = 0;
    this.#last = undefined;
  }
}
