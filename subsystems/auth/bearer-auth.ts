import { timingSafeEqual } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import type { Auth } from './index.ts';

export interface BearerAuthOptions {
  /** The shared token; undefined: every request is allowed (a loopback bind, or `--insecure`). */
  readonly token: string | undefined;
}

/** Creates the check of the one shared token, or of no token at all. */
export function createBearerAuth({ token }: BearerAuthOptions): Auth {
  if (token === undefined) return new OpenAuth();
  if (token === '') {
    throw new ServerError('invalid', 'empty-token', 'the bearer token is empty: give it a value, or leave it out');
  }
  if (!isTransmittable(token)) {
    throw new ServerError(
      'invalid',
      'unusable-token',
      'the bearer token starts or ends with a space or holds a control character (a line break?), which no HTTP header can carry: remove it',
    );
  }
  return new BearerAuth(token);
}

class OpenAuth implements Auth {
  readonly needsToken = false;

  allows(): boolean {
    return true;
  }
}

const SCHEME = 'bearer ';
const SPACE = 0x20;
const DELETE = 0x7f;

/**
 * Compares bytes of equal length in constant time; only the length can be learned, which is no secret (docs/http.md).
 * Hashing both sides first would hide the length, too, at twelve times the cost (1.2 instead of 0.1 µs) for every
 * request.
 */
class BearerAuth implements Auth {
  readonly needsToken = true;
  readonly #expected: Buffer;
  /** Buffer for the client's token, during one call. */
  readonly #received: Buffer;

  constructor(token: string) {
    this.#expected = Buffer.from(token, 'utf8');
    this.#received = Buffer.alloc(this.#expected.length);
  }

  allows(authorization: string | undefined): boolean {
    if (authorization === undefined) return false;
    let start = SCHEME.length;
    if (authorization.slice(0, start).toLowerCase() !== SCHEME) return false;
    while (authorization.charCodeAt(start) === SPACE) start++;
    if (authorization.length - start !== this.#expected.length) return false;
    // node:http decodes headers as Latin-1, one character for each byte, whatever encoding the client used.
    this.#received.write(authorization.slice(start), 'latin1');
    return timingSafeEqual(this.#received, this.#expected);
  }
}

function isTransmittable(token: string): boolean {
  if (token.trim() !== token) return false;
  for (let at = 0; at < token.length; at++) {
    const code = token.charCodeAt(at);
    if (code < SPACE || code === DELETE) return false;
  }
  return true;
}
