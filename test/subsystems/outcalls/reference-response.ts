/**
 * A second reader of responses, for tests: of all bytes at once, as RFC 9112 is written, with what this host decides
 * where the RFC leaves a choice.
 */
export interface ReadResponse {
  readonly status: number;
  /** `name=value`, in order. */
  readonly headers: readonly string[];
  readonly body: string;
}

class Malformed extends Error {}

interface Line {
  readonly name: string;
  readonly value: string;
}

const HIDDEN = new Set('connection keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' '));

/** Returns the response to one request, of which `bytes` are all until the connection ends; undefined: it is none. */
export function readResponse(bytes: string, method: string): ReadResponse | undefined {
  try {
    return new Reader(bytes).read(method);
  } catch (error) {
    if (error instanceof Malformed) return undefined;
    throw error;
  }
}

class Reader {
  #rest: string;

  constructor(bytes: string) {
    this.#rest = bytes;
  }

  read(method: string): ReadResponse {
    for (;;) {
      // Empty lines before a response are read over (RFC 9110, 2.4, allows it).
      while (this.#rest.startsWith('\r\n')) this.#take(/^\r\n/);
      const [, digits] = this.#take(/^HTTP\/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n/);
      const status = Number(digits);
      if (status < 100 || status === 101) throw new Malformed();
      const lines = this.#lines();
      const { length, isChunked } = framing(
        lines,
        status < 200 || method === 'HEAD' || status === 204 || status === 304,
      );
      if (status < 200) continue;
      const headers = lines.filter(({ name }) => !HIDDEN.has(name)).map(({ name, value }) => `${name}=${value}`);
      const body = isChunked ? this.#chunks() : this.#next(length ?? this.#rest.length);
      return { status, headers, body };
    }
  }

  #take(pattern: RegExp): RegExpExecArray {
    const found = pattern.exec(this.#rest);
    if (found === null) throw new Malformed();
    this.#rest = this.#rest.slice(found[0].length);
    return found;
  }

  #next(count: number): string {
    if (this.#rest.length < count) throw new Malformed();
    const taken = this.#rest.slice(0, count);
    this.#rest = this.#rest.slice(count);
    return taken;
  }

  /** Reads lines of headers to the empty one. */
  #lines(): Line[] {
    const lines: Line[] = [];
    while (!this.#rest.startsWith('\r\n')) {
      const [, name = '', written = ''] = this.#take(
        /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):((?:[\t\x20-\x7e\x80-\xff]|\r\n[ \t])*)\r\n/,
      );
      const value = written.replaceAll(/[ \t]*\r\n(?=[ \t])/g, '').replaceAll(/^[ \t]+|[ \t]+$/g, '');
      lines.push({ name: name.toLowerCase(), value });
    }
    this.#take(/^\r\n/);
    return lines;
  }

  #chunks(): string {
    let body = '';
    for (;;) {
      const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
      const quoted = '"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';
      const extension = `[ \\t]*;[ \\t]*${token}(?:[ \\t]*=[ \\t]*(?:${token}|${quoted}))?`;
      const [, hex = ''] = this.#take(new RegExp(`^([0-9A-Fa-f]+)(?:${extension})*[ \\t]*\\r\\n`));
      const length = BigInt(`0x${hex}`);
      if (length === 0n) break;
      if (length > 2_000_000n) throw new Malformed();
      body += this.#next(Number(length));
      this.#take(/^\r\n/);
    }
    if (this.#lines().some(({ name }) => name === 'content-length')) throw new Malformed();
    return body;
  }
}

/** Returns how the end of the body is found; without a length and chunks it is that of the connection. */
function framing(
  lines: readonly Line[],
  isBodiless: boolean,
): { readonly length: number | undefined; readonly isChunked: boolean } {
  const lengths = lines.filter(({ name }) => name === 'content-length');
  const encodings = lines.filter(({ name }) => name === 'transfer-encoding');
  // A list of equal lengths may be refused (RFC 9110, 8.6), and so may a length beside an encoding (RFC 9112, 6.3).
  if (lengths.length > 1 || (lengths.length > 0 && encodings.some(({ value }) => /[^ \t,]/.test(value))))
    throw new Malformed();
  const [length] = lengths;
  if (length !== undefined && (!/^[0-9]+$/.test(length.value) || BigInt(length.value) >= 1n << 64n))
    throw new Malformed();
  const codings = encodings.flatMap(({ value }) => value.split(/[ \t]*,[ \t]*/)).filter((coding) => coding !== '');
  if (encodings.length > 0 && codings.length === 0) throw new Malformed();
  if (isBodiless) return { length: 0, isChunked: false };
  if (codings.length > 0 && codings.join(', ').toLowerCase() !== 'chunked') throw new Malformed();
  if (length !== undefined && Number(length.value) > 2_000_000) throw new Malformed();
  return { length: length === undefined ? undefined : Number(length.value), isChunked: codings.length > 0 };
}
