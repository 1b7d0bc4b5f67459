import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Bytes of all answers of one kind together that wait for their clients. The kinds are answers that need no token,
 * such as pages of websites, which may have megabytes, and event streams.
 */
const UNTAKEN_BYTES_MAX = 256 * 1024 * 1024;

/** Bytes that node:http keeps for a request and an answer that wait, whatever their length (2.5 KB were measured). */
const ANSWER_BYTES = 2048;

/** The answers of one connection that wait. */
interface Waiting {
  bytes: number;
  readonly answers: Map<ServerResponse, number>;
}

/**
 * Counts what clients have asked for and do not take. A client may ask for a page of megabytes with fifty bytes,
 * thirty times in one write, and never read; or behind a request that is not answered yet, so that none of it can be
 * sent. When the sum is too much, the connections that have waited longest are cut. Connections are cut, not answers:
 * an answer that is not at the front of its connection has no socket, so `destroy` would mark it and free nothing.
 */
export class UntakenAnswers {
  readonly #bytesMax: number;
  /** The connection that has taken nothing for longest first. */
  readonly #waiting = new Map<Socket, Waiting>();
  readonly #heard = new WeakSet<ServerResponse>();
  #bytes = 0;

  constructor(bytesMax = UNTAKEN_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Notes that something was written: the part that waits counts from now on, until it is taken or the client is
   * gone.
   */
  wrote(response: ServerResponse): void {
    if (response.destroyed || response.req.socket.destroyed) return;
    const bytes = heldBytesOf(response);
    if (bytes > 0 && !this.#heard.has(response)) {
      this.#heard.add(response);
      const taken = (): void => this.#count(response, 0);
      // An answer that has been sent closes, too.
      response.once('close', taken);
      if (!response.writableEnded) response.on('drain', taken);
    }
    this.#count(response, bytes);
    if (this.#bytes > this.#bytesMax) this.#cut();
  }

  #count(response: ServerResponse, bytes: number): void {
    const { socket } = response.req;
    const waiting = this.#waiting.get(socket);
    const before = waiting?.answers.get(response) ?? 0;
    if (bytes === before) return;
    this.#bytes += bytes - before;
    if (waiting === undefined) {
      this.#waiting.set(socket, { bytes, answers: new Map([[response, bytes]]) });
      return;
    }
    waiting.bytes += bytes - before;
    if (bytes === 0) waiting.answers.delete(response);
    else waiting.answers.set(response, bytes);
    if (bytes > before) return;
    // The client takes something: the others have waited longer.
    this.#waiting.delete(socket);
    if (waiting.answers.size > 0) this.#waiting.set(socket, waiting);
  }

  #cut(): void {
    for (const [socket, waiting] of this.#waiting) {
      if (this.#bytes <= this.#bytesMax) return;
      const { bytes, answers } = waiting;
      // Small amounts that are taken are not reported, so the answers are looked at; then the connection goes to the
      // end, and comes by once more.
      for (const response of Array.from(answers.keys())) this.#count(response, heldBytesOf(response));
      if (waiting.bytes < bytes) continue;
      this.#bytes -= waiting.bytes;
      this.#waiting.delete(socket);
      socket.destroy();
    }
  }
}

function heldBytesOf({ writableLength }: ServerResponse): number {
  return writableLength === 0 ? 0 : writableLength + ANSWER_BYTES;
}
