import type { ServerResponse } from 'node:http';

/** All answers of a kind together that wait for their clients: pages of websites, which may have megabytes and need no token; answers of watched queries. */
const UNTAKEN_BYTES_MAX = 256 * 1024 * 1024;

/**
 * Counts what clients have asked for and do not take. A client may ask for a page of megabytes with fifty bytes, thirty times in
 * one write, and never read: when all of that is too much, those that have waited longest are cut.
 */
export class UntakenAnswers {
  readonly #bytesMax: number;
  /** The oldest first. */
  readonly #bytesOf = new Map<ServerResponse, number>();
  readonly #heard = new WeakSet<ServerResponse>();
  #bytes = 0;

  constructor(bytesMax = UNTAKEN_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** To be called when something was written: what waits of it counts from now on until it is taken, or the client is gone. */
  wrote(response: ServerResponse): void {
    const bytes = response.writableLength;
    if (bytes > 0 && !this.#heard.has(response)) {
      this.#heard.add(response);
      const over = (): void => this.#count(response, 0);
      response.once('finish', over).once('close', over).on('drain', over);
    }
    this.#count(response, bytes);
    for (const [oldest] of this.#bytesOf) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#count(oldest, 0);
      oldest.destroy();
    }
  }

  #count(response: ServerResponse, bytes: number): void {
    this.#bytes += bytes - (this.#bytesOf.get(response) ?? 0);
    if (bytes === 0) this.#bytesOf.delete(response);
    else this.#bytesOf.set(response, bytes);
  }
}
