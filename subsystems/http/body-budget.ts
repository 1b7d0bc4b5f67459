import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';

const MIB = 1024 * 1024;
/** Bodies of website requests that are in hand, all together: anybody may send them, and what waits for a slow actor waits with its body. */
const SITE_BODY_BYTES_MAX = 256 * MIB;

/** Bounds what the bodies of requests hold together, from their first bytes to the answer. */
export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax = SITE_BODY_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** For one request; undefined where it announces no body. If its client leaves before all of it is there, what has come is given back. */
  begin(request: IncomingMessage): HeldBody | undefined {
    const { headers } = request;
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (!hasBody) return undefined;
    const held = new HeldBody(this);
    request.once('close', () => {
      if (!request.complete) held.giveBack();
    });
    return held;
  }

  /** False, and nothing is taken: there is no room for so many. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Why a body is not taken. */
  full(): ServerError {
    const text = `the bodies of all website requests together fill ${this.#bytesMax / MIB} MiB: try again later`;
    return new ServerError('unavailable', 'website-bodies-full', text);
  }
}

/** What the body of one request has of the budget. */
export class HeldBody {
  readonly #budget: BodyBudget;
  #bytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** To be called as bytes arrive. Undefined: there is room for them; else why there is none, and all that it had is given back. */
  take(bytes: number): ServerError | undefined {
    if (this.#budget.take(bytes)) {
      this.#bytes += bytes;
      return undefined;
    }
    this.giveBack();
    return this.#budget.full();
  }

  /** All of it; idempotent. */
  giveBack(): void {
    this.#budget.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}
