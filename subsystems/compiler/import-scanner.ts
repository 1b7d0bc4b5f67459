/**
 * Finds the imports of a Motoko file without the compiler, so that a cached actor is recognised in milliseconds.
 * Where nothing is cached, and wherever sources are handed out, the compiler's own parser has the last word
 * (import-parser.ts).
 *
 * Motoko allows imports only at the head of a file: `import pattern "url";`, again and again, with comments between
 * (block comments nest). The scanner reads exactly that and stops at the first token that is something else. It never
 * reports an error: what it does not understand, the compiler will refuse with a better message. Time is linear.
 */
export interface ImportReference {
  /** The text between the quotes, escapes resolved. */
  readonly url: string;
  /** Start and end of the literal in the file, in UTF-16 units, quotes included. */
  readonly start: number;
  readonly end: number;
}

/** The imports of a file, and the part of it in which they stand. */
interface ScannedHead {
  readonly imports: readonly ImportReference[];
  /** End of the last import, in UTF-16 units; 0 without imports. */
  readonly end: number;
  /** True if the next token behind the imports is no `import`: by Motoko's grammar no more follow. */
  readonly isWhole: boolean;
}

const BETWEEN_KEYWORD_AND_URL = /[\w\s{};,=:]/u;
const SIMPLE_ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', "'": "'" };

export function scanImports(source: string): readonly ImportReference[] {
  return scanHead(source).imports;
}

export function scanHead(source: string): ScannedHead {
  const imports: ImportReference[] = [];
  let at = skipBlank(source, 0);
  while (isKeyword(source, at, 'import')) {
    const literalAt = findLiteral(source, at + 'import'.length);
    const literal = literalAt === undefined ? undefined : readLiteral(source, literalAt);
    if (literal === undefined) break;
    imports.push(literal);
    at = skipBlank(source, literal.end);
    while (source[at] === ';') at = skipBlank(source, at + 1);
  }
  return { imports, end: imports.at(-1)?.end ?? 0, isWhole: !isKeyword(source, at, 'import') };
}

function isKeyword(source: string, at: number, keyword: string): boolean {
  return source.startsWith(keyword, at) && !/\w/u.test(source[at + keyword.length] ?? '');
}

/** Returns the next position that is neither white space nor inside a comment. */
function skipBlank(source: string, from: number): number {
  let at = from;
  for (;;) {
    while (at < source.length && /\s/u.test(source[at] ?? '')) at += 1;
    if (source.startsWith('//', at)) {
      const newline = source.indexOf('\n', at);
      at = newline === -1 ? source.length : newline;
    } else if (source.startsWith('/*', at)) {
      at = skipBlockComment(source, at);
    } else {
      return at;
    }
  }
}

function skipBlockComment(source: string, from: number): number {
  const mark = /\/\*|\*\//gu;
  mark.lastIndex = from;
  let depth = 0;
  for (let found = mark.exec(source); found !== null; found = mark.exec(source)) {
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return mark.lastIndex;
  }
  return source.length;
}

/** The opening quote of the url, past the name or the pattern the import binds; undefined if this is no import. */
function findLiteral(source: string, from: number): number | undefined {
  let at = skipBlank(source, from);
  while (at < source.length) {
    const character = source[at] ?? '';
    if (character === '"') return at;
    if (!BETWEEN_KEYWORD_AND_URL.test(character)) return undefined;
    at = skipBlank(source, at + 1);
  }
  return undefined;
}

function readLiteral(source: string, start: number): ImportReference | undefined {
  let url = '';
  let at = start + 1;
  while (at < source.length) {
    const character = source[at] ?? '';
    if (character === '"') return { url, start, end: at + 1 };
    if (character === '\n') return undefined;
    if (character !== '\\') {
      url += character;
      at += 1;
      continue;
    }
    const escape = readEscape(source, at + 1);
    if (escape === undefined) return undefined;
    url += escape.text;
    at = escape.end;
  }
  return undefined;
}

function readEscape(source: string, at: number): { readonly text: string; readonly end: number } | undefined {
  const simple = SIMPLE_ESCAPES[source[at] ?? ''];
  if (simple !== undefined) return { text: simple, end: at + 1 };
  const unicode = /^u\{([0-9A-Fa-f_]{1,8})\}/u.exec(source.slice(at, at + 12));
  if (unicode !== null) {
    const point = Number.parseInt((unicode[1] ?? '').replaceAll('_', ''), 16);
    return point <= 0x10ffff ? { text: String.fromCodePoint(point), end: at + unicode[0].length } : undefined;
  }
  const byte = /^[0-9A-Fa-f]{2}/u.exec(source.slice(at, at + 2));
  return byte === null ? undefined : { text: String.fromCharCode(Number.parseInt(byte[0], 16)), end: at + 2 };
}
