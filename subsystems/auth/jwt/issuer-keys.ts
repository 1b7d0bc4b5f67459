/**
 * The public keys of one issuer: of a file, or of the address that the issuer's metadata names. What is fetched is the
 * server's own request: whatever actors may or may not reach does not touch it. Bounded in time, bytes and keys; an old
 * set stays while the issuer is away.
 */
import { createPublicKey, type KeyObject, type webcrypto } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { type Logger, messageOf, ServerError } from '../../../kernel/index.ts';

/** Algorithms of JWS that are taken, each with the kind and curve of its key; none is symmetric. */
const ALGORITHMS = { RS256: 'RSA', ES256: 'EC P-256', EdDSA: 'OKP Ed25519', Ed25519: 'OKP Ed25519' } as const;
export const ALGORITHM_NAMES = Object.keys(ALGORITHMS);

const BYTES_MAX = 1024 * 1024;
const KEYS_MAX = 256;
/** Milliseconds between two requests to an issuer, whatever tokens claim. */
const ASK_MS = 30_000;
/** Age in milliseconds from which a set is asked for again while it is in use. */
const RENEW_MS = 600_000;
const FETCH_MAX_MS = 5000;
const RSA_BITS_MIN = 2048;

interface KeySource {
  /** As in `iss`, byte for byte. */
  readonly issuer: string;
  /** Absolute path of a JWKS; undefined: the keys are fetched. */
  readonly file: string | undefined;
  /** For tests: milliseconds that an issuer has to answer (5 s). */
  readonly fetchMaxMs?: number | undefined;
}

interface KeyParts {
  readonly nowMs: () => number;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** A public key of an issuer; true as `isGone` once the issuer has it no more. */
export interface IssuerKey {
  readonly key: KeyObject;
  isGone: boolean;
}

interface ListedKey extends IssuerKey {
  /** The whole entry of the set: an entry that says the same stays the same key. */
  readonly text: string;
  readonly kid: string | undefined;
  readonly alg: string | undefined;
  readonly kind: string;
}

export class IssuerKeys {
  readonly #source: KeySource;
  readonly #parts: KeyParts;
  #keys: readonly ListedKey[] = [];
  #askedMs = Number.NEGATIVE_INFINITY;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  /** Reads the file, if there is one. Throws ServerError `bad-jwt-keys`. */
  constructor(source: KeySource, parts: KeyParts) {
    this.#source = source;
    this.#parts = parts;
    if (source.file !== undefined) this.#take(keysOfFile(source.file));
  }

  /** Resolves with the key of a token, or with the reason why there is none. Never rejects. */
  async find(kid: string | undefined, algorithm: string): Promise<IssuerKey | string> {
    this.look();
    const known = this.#known(kid, algorithm);
    if (known !== undefined) return known;
    await this.#ask();
    if (this.#keys.length === 0) return 'the keys of the issuer cannot be read';
    return this.#known(kid, algorithm) ?? 'the issuer has no such key';
  }

  /** Begins to renew a set that is old, if nobody has just asked. */
  look(): void {
    if (this.#source.file === undefined && this.#parts.nowMs() - this.#renewedMs > RENEW_MS) void this.#ask();
  }

  /** Reads the file again, if there is one. Throws ServerError `bad-jwt-keys`, and keeps what was. */
  reread(): void {
    if (this.#source.file !== undefined) this.#take(keysOfFile(this.#source.file));
  }

  #known(kid: string | undefined, algorithm: string): ListedKey | undefined {
    const kind: string | undefined = ALGORITHMS[algorithm as keyof typeof ALGORITHMS];
    const fitting = this.#keys.filter(
      (key) => key.kind === kind && (key.alg ?? algorithm) === algorithm && (kid === undefined || key.kid === kid),
    );
    // Without a name there must be no choice.
    return kid === undefined && fitting.length > 1 ? undefined : fitting[0];
  }

  #ask(): Promise<void> {
    if (this.#source.file !== undefined) return Promise.resolve();
    if (this.#asking !== undefined) return this.#asking;
    const nowMs = this.#parts.nowMs();
    if (nowMs - this.#askedMs < ASK_MS) return Promise.resolve();
    this.#askedMs = nowMs;
    this.#asking = this.#fetch().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #fetch(): Promise<void> {
    const { issuer, fetchMaxMs = FETCH_MAX_MS } = this.#source;
    try {
      this.#take(await fetchedKeys(issuer, AbortSignal.timeout(fetchMaxMs)));
      this.#renewedMs = this.#parts.nowMs();
    } catch (error) {
      const rest = this.#keys.length === 0 ? 'nobody gets in with its tokens' : 'the keys from before stay';
      this.#parts.log.warn(`--jwt-issuer ${issuer}: its keys cannot be read, and ${rest}: ${reasonOf(error)}`);
    }
  }

  /** Takes a set over; keys that are in it no more are gone. */
  #take(keys: readonly ListedKey[]): void {
    const before = new Map(this.#keys.map((key) => [key.text, key]));
    this.#keys = keys.map((key) => before.get(key.text) ?? key);
    const after = new Set(this.#keys);
    for (const key of before.values()) key.isGone = !after.has(key);
  }
}

function keysOfFile(path: string): readonly ListedKey[] {
  try {
    const status = statSync(path);
    // A pipe may never end.
    if (!status.isFile()) throw new Error('it is not a regular file');
    const { size } = status;
    if (size > BYTES_MAX) throw new Error(`it has ${size} bytes, and at most ${BYTES_MAX} are read`);
    return keysOf(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    const text = `--jwt-keys: ${path} is no set of public keys (JWKS): ${messageOf(error)}`;
    throw new ServerError('invalid', 'bad-jwt-keys', text, { cause: error });
  }
}

async function fetchedKeys(issuer: string, signal: AbortSignal): Promise<readonly ListedKey[]> {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const metadata = (await fetchedJson(address, signal)) as { issuer?: unknown; jwks_uri?: unknown } | null;
  if (metadata?.issuer !== issuer) throw new Error(`${address} is the metadata of another issuer`);
  const { jwks_uri: keys } = metadata;
  if (typeof keys !== 'string' || !isSafeAddress(keys))
    throw new Error(`${address} names no jwks_uri with https (or http of this machine)`);
  return keysOf(await fetchedJson(keys, signal));
}

/** Returns true for https, and for http that does not leave this machine. */
function isSafeAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  if (protocol === 'https:') return true;
  return protocol === 'http:' && /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

async function fetchedJson(address: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(address, { redirect: 'error', signal, headers: { accept: 'application/json' } });
  if (!response.ok) throw new Error(`${address} answers ${response.status}`);
  const pieces: Uint8Array[] = [];
  let length = 0;
  const body: AsyncIterable<Uint8Array> | undefined = response.body ?? undefined;
  for await (const piece of body ?? []) {
    length += piece.length;
    if (length > BYTES_MAX) throw new Error(`${address} sends more than ${BYTES_MAX} bytes`);
    pieces.push(piece);
  }
  return JSON.parse(Buffer.concat(pieces).toString('utf8'));
}

/** Returns the keys of a set that can be used; those of other kinds and uses are left out. */
function keysOf(set: unknown): readonly ListedKey[] {
  const { keys } = (set ?? {}) as { readonly keys?: unknown };
  if (!Array.isArray(keys)) throw new Error('it has no list "keys"');
  if (keys.length > KEYS_MAX) throw new Error(`it has ${keys.length} keys, and at most ${KEYS_MAX} are taken`);
  const usable = keys.flatMap((entry: unknown) => listedKey(entry) ?? []);
  if (usable.length === 0) throw new Error('no key in it is for RS256, ES256 or EdDSA');
  return usable;
}

function listedKey(entry: unknown): ListedKey | undefined {
  if (typeof entry !== 'object' || entry === null) return undefined;
  const jwk = entry as webcrypto.JsonWebKey & {
    readonly kid?: unknown;
    readonly alg?: unknown;
    readonly use?: unknown;
  };
  const kind = jwk.kty === 'RSA' ? 'RSA' : `${jwk.kty} ${jwk.crv}`;
  const isKnown = Object.values(ALGORITHMS).some((each) => each === kind);
  if (!isKnown || (jwk.use !== undefined && jwk.use !== 'sig')) return undefined;
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    if (kind === 'RSA' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < RSA_BITS_MIN) return undefined;
    const kid = typeof jwk.kid === 'string' ? jwk.kid : undefined;
    const alg = typeof jwk.alg === 'string' ? jwk.alg : undefined;
    return { key, isGone: false, text: JSON.stringify(jwk), kid, alg, kind };
  } catch {
    return undefined;
  }
}

/** Returns the message of the innermost cause: fetch says no more than that it failed. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? reasonOf(error.cause) : messageOf(error);
}
