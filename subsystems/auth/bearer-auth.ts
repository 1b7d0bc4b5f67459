import { timingSafeEqual } from 'node:crypto';
import { type Logger, ServerError } from '../../kernel/index.ts';
import type { Auth, Grant } from './index.ts';
import { JwtGrants, type JwtOptions } from './jwt/jwt-grants.ts';
import { TokenTable } from './token-table.ts';

export interface BearerAuthOptions {
  /** The shared token; undefined without `tokensFile`: every request is allowed (a loopback bind, or `--insecure`). */
  readonly token: string | undefined;
  /** Absolute path of the file of tokens with scopes. */
  readonly tokensFile?: string | undefined;
  /** Takes tokens of issuers; undefined: none. */
  readonly jwt?: JwtOptions | undefined;
}

const SILENT: Pick<Logger, 'info' | 'warn' | 'error'> = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/**
 * Creates the check of the shared token, of tokens with scopes, of JWTs, or of no token at all. Throws ServerError
 * `empty-token`, `unusable-token`, `bad-tokens`, `bad-scope` or `bad-jwt-keys`.
 */
export function createBearerAuth(
  { token, tokensFile, jwt }: BearerAuthOptions,
  log = SILENT,
  nowMs: () => number = Date.now,
): Auth {
  const shared = createSharedAuth(token);
  const scoped = tokensFile === undefined ? shared : new ScopedAuth(shared, new TokenTable(tokensFile, log));
  return jwt === undefined ? scoped : new ProvenAuth(scoped, new JwtGrants(jwt, { log, nowMs }));
}

function createSharedAuth(token: string | undefined): Auth {
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
    const start = startOfToken(authorization);
    if (authorization === undefined || start < 0) return false;
    if (authorization.length - start !== this.#expected.length) return false;
    // node:http decodes headers as Latin-1, one character for each byte, whatever encoding the client used.
    this.#received.write(authorization.slice(start), 'latin1');
    return timingSafeEqual(this.#received, this.#expected);
  }
}

/** Tokens with scopes beside the shared one, which goes before them. */
class ScopedAuth implements Auth {
  readonly needsToken = true;
  readonly #shared: Auth;
  readonly #table: TokenTable;

  constructor(shared: Auth, table: TokenTable) {
    this.#shared = shared;
    this.#table = table;
  }

  allows(authorization: string | undefined): boolean {
    if (this.#shared.needsToken && this.#shared.allows(authorization)) return true;
    return this.#table.hasWhole && this.grantOf(authorization)?.scopes.isWhole === true;
  }

  grantOf(authorization: string | undefined): Grant | undefined {
    const start = startOfToken(authorization);
    return authorization === undefined || start < 0 ? undefined : this.#table.grantOf(authorization.slice(start));
  }

  reread(): boolean {
    return this.#table.reread();
  }
}

/** JWTs beside the tokens of this server. */
class ProvenAuth implements Auth {
  readonly needsToken = true;
  readonly #own: Auth;
  readonly #jwts: JwtGrants;

  constructor(own: Auth, jwts: JwtGrants) {
    this.#own = own;
    this.#jwts = jwts;
  }

  allows(authorization: string | undefined): boolean {
    return this.#own.needsToken && this.#own.allows(authorization);
  }

  grantOf(authorization: string | undefined): Grant | undefined {
    return this.#jwts.grantOf(authorization) ?? this.#own.grantOf?.(authorization);
  }

  prove(authorization: string | undefined): Promise<string | undefined> | undefined {
    return this.#jwts.prove(authorization);
  }

  reread(): boolean {
    const isRead = this.#own.reread?.() !== false;
    return this.#jwts.reread() && isRead;
  }
}

/** Returns where the token begins behind its scheme; below 0: there is none. */
function startOfToken(authorization: string | undefined): number {
  let start = SCHEME.length;
  if (authorization?.slice(0, start).toLowerCase() !== SCHEME) return -1;
  while (authorization.charCodeAt(start) === SPACE) start++;
  return start;
}

function isTransmittable(token: string): boolean {
  if (token.trim() !== token) return false;
  for (let at = 0; at < token.length; at++) {
    const code = token.charCodeAt(at);
    if (code < SPACE || code === DELETE) return false;
  }
  return true;
}
