import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Connection {
  /** The newest answer on this connection; answers of pipelined requests end in order, so it ends last. */
  response: ServerResponse | undefined;
  bytesRead: number;
  idleSinceMs: number;
}

/**
 * The open connections, and which of them are idle. node:http would keep a timer a connection and restart it with
 * every answer; here a request costs one map lookup, and all that is needed to tell an idle connection from a busy one
 * is looked up when the sweep passes, every few seconds: has a byte arrived since the last one, is an answer pending.
 */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  readonly #idleMaxMs: number;

  constructor(idleMaxMs: number) {
    this.#idleMaxMs = idleMaxMs;
  }

  get size(): number {
    return this.#open.size;
  }

  opened(socket: Socket, nowMs: number): void {
    this.#open.set(socket, { response: undefined, bytesRead: 0, idleSinceMs: nowMs });
    socket.once('close', () => this.#open.delete(socket));
  }

  began(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#open.get(request.socket);
    if (connection !== undefined) connection.response = response;
  }

  /** The answer that a connection still owes, if any. */
  pendingAnswerOf(socket: Socket): ServerResponse | undefined {
    const response = this.#open.get(socket)?.response;
    return response === undefined || response.writableFinished ? undefined : response;
  }

  /** Closes what has been idle for too long; to be called every few seconds. */
  sweep(nowMs: number): void {
    for (const [socket, connection] of this.#open) {
      if (connection.response !== undefined && !connection.response.writableFinished) continue;
      // An idle connection must not keep its last request and answer in memory.
      const wasBusy = connection.response !== undefined || connection.bytesRead !== socket.bytesRead;
      connection.response = undefined;
      if (wasBusy) {
        connection.bytesRead = socket.bytesRead;
        connection.idleSinceMs = nowMs;
      } else if (nowMs - connection.idleSinceMs >= this.#idleMaxMs) socket.destroySoon();
    }
  }

  /** While the server stops: closes each connection that owes no answer, or whose request is still not there. */
  closeUnless(isAnswerOwed: (request: IncomingMessage) => boolean): void {
    for (const [socket, { response }] of this.#open) {
      if (response === undefined || response.writableFinished || !isAnswerOwed(response.req)) socket.destroy();
    }
  }
}
