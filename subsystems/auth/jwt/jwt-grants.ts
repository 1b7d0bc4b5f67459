/**
 * Rights by JWT. A token that was verified is known by its hash, and answered at once; a new one is verified before its
 * request goes on. Both tables are bounded.
 */
import { createHash, hash } from 'node:crypto';
import type { Logger } from '../../../kernel/index.ts';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { principalToText } from '../../ic/index.ts';
import type { Grant } from '../index.ts';
import { Scopes } from '../scopes.ts';
import { type IssuerKey, IssuerKeys } from './issuer-keys.ts';
import type { verify as verifyToken } from './verify.ts';

/** Tokens that are known: about 1 KiB each. The oldest is verified again when it comes. */
const SEEN_MAX = 10_000;
/** Headers whose hashes are kept: those of the busiest users. */
const HEADERS_MAX = 1024;
/** Tokens that are verified, or wait for keys, at a time. */
const PROOFS_MAX = 1024;
/** Like a JWT: the first part is that of a JSON object, the third may be empty where there is no algorithm. */
const JWT = /^bearer +(ey[\w-]+\.[\w-]+\.[\w-]*)$/i;

export interface JwtOptions {
  /** As in `iss`, byte for byte; at least one. */
  readonly issuers: readonly string[];
  readonly audience: string;
  /** Absolute path of a JWKS, for one issuer; undefined: the issuers are asked. */
  readonly keysFile: string | undefined;
  /** Scopes of whoever has a valid token. */
  readonly may: readonly string[];
  /** The `typ` that a header has to have; undefined: whatever it is. */
  readonly typ: string | undefined;
  /** For tests: milliseconds that an issuer has to answer (5 s). */
  readonly fetchMaxMs?: number;
  /** For tests: how many tokens are known (10,000). */
  readonly seenMax?: number;
}

interface JwtParts {
  readonly nowMs: () => number;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** Returns the principal of a user: `SHA-224("svc-jwt" · u32 length · issuer · u32 length · subject) · 03`. */
export function jwtPrincipal(issuer: string, subject: string): Uint8Array {
  const digest = createHash('sha224').update('svc-jwt');
  for (const text of [issuer, subject]) {
    const bytes = Buffer.from(text, 'utf8');
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    digest.update(length).update(bytes);
  }
  return Buffer.concat([digest.digest(), Buffer.of(3)]);
}

class JwtGrant implements Grant {
  readonly name: string;
  readonly scopes: Scopes;
  readonly caller: Uint8Array;
  readonly takesNoClaim = true;
  readonly #key: IssuerKey;
  readonly #endMs: number;
  readonly #nowMs: () => number;

  constructor(caller: Uint8Array, scopes: Scopes, key: IssuerKey, endMs: number, nowMs: () => number) {
    this.name = principalToText(caller);
    this.scopes = scopes;
    this.caller = caller;
    this.#key = key;
    this.#endMs = endMs;
    this.#nowMs = nowMs;
  }

  get isOver(): boolean {
    return this.#key.isGone || this.#nowMs() >= this.#endMs;
  }
}

export class JwtGrants {
  readonly #options: JwtOptions;
  readonly #parts: JwtParts;
  readonly #scopes: Scopes;
  readonly #issuers: ReadonlyMap<string, IssuerKeys>;
  readonly #seen = new Map<string, JwtGrant>();
  readonly #proofs = new Map<string, Promise<string | undefined>>();
  /** Hashes of tokens that were verified, by their headers: a hash costs more than the rest of the look. */
  readonly #digits = new Map<string, string>();

  /** Throws ServerError `bad-scope` or `bad-jwt-keys`. */
  constructor(options: JwtOptions, parts: JwtParts) {
    this.#options = options;
    this.#parts = parts;
    this.#scopes = scopesOf(options.may);
    const { keysFile: file, fetchMaxMs } = options;
    this.#issuers = new Map(
      options.issuers.map((issuer) => [issuer, new IssuerKeys({ issuer, file, fetchMaxMs }, parts)]),
    );
  }

  /** Returns the rights of a token that was verified before. */
  grantOf(authorization: string | undefined): Grant | undefined {
    if (authorization === undefined) return undefined;
    const known = this.#digits.get(authorization);
    const digits = known ?? digitsOf(authorization);
    const grant = digits === undefined ? undefined : this.#seen.get(digits);
    if (digits === undefined || grant === undefined) return undefined;
    for (const keys of this.#issuers.values()) keys.look();
    if (grant.isOver) {
      this.#seen.delete(digits);
      this.#digits.delete(authorization);
      return undefined;
    }
    if (known === undefined) this.#remember(authorization, digits);
    return grant;
  }

  /** See Auth. */
  prove(authorization: string | undefined): Promise<string | undefined> | undefined {
    if (this.grantOf(authorization) !== undefined) return undefined;
    const digits = digitsOf(authorization);
    if (digits === undefined) return undefined;
    const running = this.#proofs.get(digits);
    if (running !== undefined) return running;
    if (this.#proofs.size >= PROOFS_MAX) return Promise.resolve('too many tokens are being verified, try again');
    const token = JWT.exec(authorization ?? '')?.[1] ?? '';
    const proof = this.#prove(token, digits).finally(() => this.#proofs.delete(digits));
    this.#proofs.set(digits, proof);
    return proof;
  }

  /** Reads the file of keys again; one with a fault changes nothing, and false is returned. */
  reread(): boolean {
    try {
      for (const keys of this.#issuers.values()) keys.reread();
      return true;
    } catch (error) {
      this.#parts.log.error(`the keys are not read again, and those from before stay: ${messageOf(error)}`);
      return false;
    }
  }

  async #prove(token: string, digits: string): Promise<string | undefined> {
    const verify = await this.#verifier();
    if (verify === undefined) return 'this server cannot verify it';
    const { audience, typ, seenMax = SEEN_MAX } = this.#options;
    const { nowMs } = this.#parts;
    const verified = await verify(token, { audience, typ, issuers: this.#issuers }, nowMs());
    if (typeof verified === 'string') return verified;
    const { issuer, subject, key, endMs } = verified;
    const [oldest] = this.#seen.keys();
    if (this.#seen.size >= seenMax && oldest !== undefined) this.#seen.delete(oldest);
    this.#seen.set(digits, new JwtGrant(jwtPrincipal(issuer, subject), this.#scopes, key, endMs, nowMs));
    return undefined;
  }

  /** Resolves with undefined if the package cannot be loaded: a broken installation must not end the server. */
  async #verifier(): Promise<typeof verifyToken | undefined> {
    try {
      return (await import('./verify.ts')).verify;
    } catch (error) {
      this.#parts.log.error(`JWTs cannot be verified: ${messageOf(error)}`);
      return undefined;
    }
  }

  #remember(authorization: string, digits: string): void {
    if (this.#digits.size >= HEADERS_MAX) this.#digits.clear();
    this.#digits.set(authorization, digits);
  }
}

/** Returns the hash of the token that the header shows; undefined: the token is no JWT. */
function digitsOf(authorization: string | undefined): string | undefined {
  const token = authorization === undefined ? undefined : JWT.exec(authorization)?.[1];
  return token === undefined ? undefined : hash('sha256', token, 'hex');
}

function scopesOf(may: readonly string[]): Scopes {
  try {
    const scopes = new Scopes(may);
    if (!scopes.isWhole) return scopes;
  } catch (error) {
    throw new ServerError('invalid', 'bad-scope', `--jwt-may: ${messageOf(error)}`, { cause: error });
  }
  const text = '--jwt-may: * would give everything to whoever the issuer lets in: name scopes, such as call:shop';
  throw new ServerError('invalid', 'bad-scope', text);
}
