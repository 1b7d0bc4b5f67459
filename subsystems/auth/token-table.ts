import { hash, timingSafeEqual } from 'node:crypto';
import { type Logger, messageOf } from '../../kernel/index.ts';
import type { Grant } from './index.ts';
import { readTokenFile, type TokenLine } from './token-file.ts';

/** Longest secret that is hashed: no request carries more. */
const SECRET_CHARACTERS_MAX = 16 * 1024;

class LineGrant implements Grant {
  readonly line: TokenLine;
  readonly #digits: Buffer;
  isOver = false;

  constructor(line: TokenLine) {
    this.line = line;
    this.#digits = Buffer.from(line.sha256, 'latin1');
  }

  get name(): string {
    return this.line.name;
  }

  get scopes(): Grant['scopes'] {
    return this.line.scopes;
  }

  get caller(): Uint8Array | undefined {
    return this.line.caller;
  }

  /** Compares in constant time. */
  isOf(digits: string): boolean {
    return timingSafeEqual(this.#digits, Buffer.from(digits, 'latin1'));
  }
}

/**
 * The tokens of a file, by the hashes of their secrets. The table is asked for a hash, so the time of a look tells of
 * the hash alone, and nobody can choose a secret by its hash. The whole hash is then compared in constant time.
 */
export class TokenTable {
  readonly #path: string;
  readonly #log: Pick<Logger, 'info' | 'warn' | 'error'>;
  #byHash: ReadonlyMap<string, LineGrant> = new Map();
  hasWhole = false;

  /** Reads the file. Throws ServerError `bad-tokens`. */
  constructor(path: string, log: Pick<Logger, 'info' | 'warn' | 'error'>) {
    this.#path = path;
    this.#log = log;
    this.#read();
  }

  /** Returns the rights of a secret. */
  grantOf(secret: string): Grant | undefined {
    if (secret.length === 0 || secret.length > SECRET_CHARACTERS_MAX) return undefined;
    // node:http decodes headers as Latin-1, one character for each byte, whatever encoding the client used. An object
    // for each hash would cost the garbage collector ten times what hashing costs.
    const digits = hash('sha256', Buffer.from(secret, 'latin1'), 'hex');
    const grant = this.#byHash.get(digits);
    return grant?.isOf(digits) === true ? grant : undefined;
  }

  /** Reads the file again; one with a fault changes nothing, and false is returned. */
  reread(): boolean {
    try {
      this.#log.info(this.#read());
      return true;
    } catch (error) {
      this.#log.error(`the tokens are not read again, and those from before stay: ${messageOf(error)}`);
      return false;
    }
  }

  /** Takes over what the file says; lines that say the same keep their grants. Returns what has changed. */
  #read(): string {
    const { lines, warnings } = readTokenFile(this.#path);
    for (const warning of warnings) this.#log.warn(warning);
    const before = this.#byHash;
    const after = new Map<string, LineGrant>();
    for (const line of lines) {
      const known = before.get(line.sha256);
      after.set(line.sha256, known !== undefined && isSame(known.line, line) ? known : new LineGrant(line));
    }
    let kept = 0;
    for (const [digits, grant] of before) {
      grant.isOver = after.get(digits) !== grant;
      if (!grant.isOver) kept++;
    }
    this.#byHash = after;
    this.hasWhole = lines.some(({ scopes }) => scopes.isWhole);
    const [added, gone] = [after.size - kept, before.size - kept];
    return `${after.size} tokens of ${this.#path}: ${kept} as before, ${added} new or changed, ${gone} gone or changed`;
  }
}

function isSame(one: TokenLine, other: TokenLine): boolean {
  return (
    one.name === other.name &&
    one.scopes.texts.join(' ') === other.scopes.texts.join(' ') &&
    Buffer.compare(one.caller ?? Buffer.alloc(0), other.caller ?? Buffer.alloc(0)) === 0 &&
    (one.caller === undefined) === (other.caller === undefined)
  );
}
