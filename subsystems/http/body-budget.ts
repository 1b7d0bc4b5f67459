import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';

const MIB = 1024 * 1024;
/**
 * Bytes that the bodies of website requests and open calls in hand may have together: anybody may send them, and a
 * request to a slow actor waits with its body.
 */
const SITE_BODY_BYTES_MAX = 256 * MIB;

/** Bounds what the bodies of requests hold together, from their first bytes to the answer. */
export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax = SITE_BODY_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Returns the share of one request, or undefined if the request announces no body. If its client leaves before the
   * whole body has arrived, the share is given back.
   */
  begin(request: IncomingMessage): HeldBody | undefined {
    const { headers } = request;
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (!hasBody) return undefined;
    const held = new HeldBody(this);
    request.once('close', () => {
      if (!request.complete) held.free();
    });
    return held;
  }

  /** False, and nothing is taken: there is no room for so many. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  free(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Returns the error that says why a body is not taken. */
  full(): ServerError {
    const text = `the bodies of all website requests and open calls together fill ${this.#bytesMax / MIB} MiB: try again later`;
    return new ServerError('unavailable', 'website-bodies-full', text);
  }
}

/** The share of the budget that the body of one request holds. */
export class HeldBody {
  readonly #budget: BodyBudget;
  #bytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /**
   * Counts bytes as they arrive. Returns undefined if there is room for them; otherwise gives back the whole share
   * and returns the error.
   */
  take(bytes: number): ServerError | undefined {
    if (this.#budget.take(bytes)) {
      this.#bytes += bytes;
      return undefined;
    }
    this.free();
    return this.#budget.full();
  }

  /** Gives the whole share back; idempotent. */
  free(): void {
    this.#budget.free(this.#bytes);
    this.#bytes = 0;
  }
}
