import { isUtf8 } from 'node:buffer';
import { ServerError } from '../../kernel/index.ts';
import { unreachable } from './faults.ts';

/*
 * Tokens of .did files and of Candid values in text, which share one lexical grammar. Numbers are kept as written,
 * because only values know fractions and signs. Texts are kept as bytes, because `\hh` is a raw byte; `textOf` checks
 * that they are UTF-8 and returns text.
 */

/** Longest text that is parsed on the caller's thread. */
const CANDID_TEXT_CHARACTERS_MAX = 1_048_576;

type TokenKind = 'identifier' | 'text' | 'number' | 'punctuation' | 'end';

export interface Token {
  readonly kind: TokenKind;
  /** The identifier, the number as written, or the punctuation; for a text its raw bytes as latin1. */
  readonly value: string;
  readonly offset: number;
  /** End of the token before: between the two are blanks and comments. */
  readonly gapStart: number;
}

const BLANK = /[\s\ufeff]*/y;
const IDENTIFIER = /[A-Za-z_][A-Za-z0-9_]*/y;
/** Matches everything that looks like one number; `NUMBER_FORM` says which are valid. */
const NUMBER = /[+-]inf\b|[+-]?[0-9](?:[A-Za-z0-9_.]|(?<=[eEpP])[+-])*/y;
/**
 * The form of numbers in the specification: decimal or 0x, with or without fraction and exponent (of ten, or with `p`
 * of two), `_` between two digits.
 */
const NUMBER_FORM = new RegExp(
  '^[+-]inf$|^[+-]?(?:0[xX]HEX(?:[.](?:HEX)?)?(?:[pP][+-]?NUM)?|NUM(?:[.](?:NUM)?)?(?:[eE][+-]?NUM)?)$'
    .replaceAll('NUM', '[0-9](?:_?[0-9])*')
    .replaceAll('HEX', '[0-9a-fA-F](?:_?[0-9a-fA-F])*'),
);
const UNICODE_ESCAPE = /\\u\{[0-9a-fA-F](?:_?[0-9a-fA-F])*\}/y;
const PUNCTUATION = /->|[{}()[\];:,=.]/y;
const SLASH = 0x2f;
/** The part of a text up to the next quote, escape or line end. */
const PLAIN_TEXT = /[^"\\]*/y;

const LETTER_ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', "'": "'" };

export class Lexer {
  readonly #source: string;
  readonly #code: string;
  #offset = 0;
  #token: Token;
  #previousEnd = 0;

  /** `code` is the stable code of the errors: `bad-interface` or `bad-candid-text`. */
  constructor(source: string, code: string, charactersMax: number = CANDID_TEXT_CHARACTERS_MAX) {
    this.#source = source;
    this.#code = code;
    if (source.length > charactersMax) {
      throw new ServerError(
        'invalid',
        code,
        `the text has ${source.length} characters; at most ${charactersMax} are accepted`,
      );
    }
    this.#token = this.#scan();
  }

  /** Returns the next token without consuming it. */
  get token(): Token {
    return this.#token;
  }

  next(): Token {
    const token = this.#token;
    this.#previousEnd = this.#offset;
    this.#token = this.#scan();
    return token;
  }

  is(kind: TokenKind, value?: string): boolean {
    return this.#token.kind === kind && (value === undefined || this.#token.value === value);
  }

  /** Consumes a punctuation or keyword if it is next. */
  take(kind: 'punctuation' | 'identifier', value: string): boolean {
    if (!this.is(kind, value)) return false;
    this.next();
    return true;
  }

  expect(value: string): void {
    if (!this.take('punctuation', value)) throw this.unexpected(`"${value}"`);
  }

  unexpected(expected: string): ServerError {
    return this.fail(`expected ${expected}, found ${describe(this.#token)}`);
  }

  /** Returns an error at an offset (default: the next token), with line and column. */
  fail(problem: string, offset: number = this.#token.offset): ServerError {
    const before = this.#source.slice(0, offset);
    const line = before.split('\n').length;
    const column = offset - (before.lastIndexOf('\n') + 1) + 1;
    return new ServerError('invalid', this.#code, `line ${line}, column ${column}: ${problem}`);
  }

  /** Returns the blanks and comments before a token. */
  gapBefore({ gapStart, offset }: Token): string {
    return this.#source.slice(gapStart, offset);
  }

  /** End of the last consumed token. */
  get previousEnd(): number {
    return this.#previousEnd;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset;
    // `test` makes no array of matches, which would be most of the work.
    return pattern.test(this.#source) ? this.#source.slice(this.#offset, pattern.lastIndex) : undefined;
  }

  #skipBlanks(): void {
    for (;;) {
      BLANK.lastIndex = this.#offset;
      if (BLANK.test(this.#source)) this.#offset = BLANK.lastIndex;
      if (this.#source.charCodeAt(this.#offset) !== SLASH) return;
      if (this.#source.startsWith('//', this.#offset)) {
        const end = this.#source.indexOf('\n', this.#offset);
        this.#offset = end === -1 ? this.#source.length : end + 1;
      } else if (this.#source.startsWith('/*', this.#offset)) {
        this.#skipBlockComment();
      } else {
        return;
      }
    }
  }

  #skipBlockComment(): void {
    const start = this.#offset;
    const edge = /\/\*|\*\//g;
    edge.lastIndex = start;
    let open = 0;
    for (let match = edge.exec(this.#source); match !== null; match = edge.exec(this.#source)) {
      open += match[0] === '/*' ? 1 : -1;
      if (open === 0) {
        this.#offset = edge.lastIndex;
        return;
      }
    }
    throw this.fail('a comment lacks its closing */', start);
  }

  #scan(): Token {
    const gapStart = this.#offset;
    this.#skipBlanks();
    const offset = this.#offset;
    if (offset >= this.#source.length) return { kind: 'end', value: '', offset, gapStart };
    if (this.#source[offset] === '"') return { kind: 'text', value: this.#scanText(), offset, gapStart };
    for (const [kind, pattern] of TOKEN_PATTERNS) {
      const value = this.#match(pattern);
      if (value === undefined) continue;
      if (kind === 'number' && !NUMBER_FORM.test(value)) throw this.fail(notNumber(value), offset);
      this.#offset = offset + value.length;
      return { kind, value, offset, gapStart };
    }
    const character = String.fromCodePoint(this.#source.codePointAt(offset) ?? unreachable('no character there'));
    throw this.fail(`unexpected character ${JSON.stringify(character)}`, offset);
  }

  #scanText(): string {
    const start = this.#offset;
    const parts: string[] = [];
    this.#offset++;
    for (;;) {
      const plain = this.#match(PLAIN_TEXT) ?? '';
      parts.push(/^[\x00-\x7f]*$/.test(plain) ? plain : utf8AsLatin1(plain));
      this.#offset += plain.length;
      const character = this.#source[this.#offset];
      if (character === undefined) throw this.fail('the text lacks its closing quote', start);
      if (character === '"') break;
      parts.push(this.#scanEscape());
    }
    this.#offset++;
    return parts.join('');
  }

  #scanEscape(): string {
    const rest = this.#source.slice(this.#offset + 1, this.#offset + 3);
    const letter = LETTER_ESCAPES[rest.charAt(0)];
    if (letter !== undefined) {
      this.#offset += 2;
      return letter;
    }
    const byte = /^[0-9a-fA-F]{2}/.exec(rest);
    if (byte !== null) {
      this.#offset += 3;
      return String.fromCharCode(Number.parseInt(byte[0], 16));
    }
    const unicode = this.#match(UNICODE_ESCAPE);
    const code = Number.parseInt(unicode?.slice(3, -1).replaceAll('_', '') ?? '', 16);
    if (unicode === undefined || code > 0x10_ffff || (code >= 0xd800 && code <= 0xdfff)) {
      throw this.fail('an unknown escape in a text; known are \\n \\r \\t \\\\ \\" \\\' \\hh \\u{hex}', this.#offset);
    }
    this.#offset += unicode.length;
    return utf8AsLatin1(String.fromCodePoint(code));
  }

  /** Returns the characters of a text token. Throws if its raw bytes are not UTF-8. */
  textOf(token: Token): string {
    const bytes = Buffer.from(token.value, 'latin1');
    if (!isUtf8(bytes)) throw this.fail('the text is not UTF-8', token.offset);
    return bytes.toString('utf8');
  }
}

const TOKEN_PATTERNS: readonly (readonly ['identifier' | 'number' | 'punctuation', RegExp])[] = [
  ['identifier', IDENTIFIER],
  ['punctuation', PUNCTUATION],
  ['number', NUMBER],
];

function utf8AsLatin1(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function describe(token: Token): string {
  if (token.kind === 'end') return 'the end of the text';
  if (token.kind === 'text') return 'a text';
  return JSON.stringify(token.value.length > 40 ? `${token.value.slice(0, 40)}…` : token.value);
}

function notNumber(written: string): string {
  const shown = JSON.stringify(written.length > 40 ? `${written.slice(0, 40)}…` : written);
  return `${shown} is not a number: it has digits, or 0x and hex digits, with single "_" between them, a fraction and an exponent`;
}

/** Returns the natural number of a token, decimal or 0x; undefined for any other number. */
export function parseNatural(written: string): bigint | undefined {
  if (!/^(?:0[xX][0-9a-fA-F_]+|[0-9_]+)$/.test(written) || written.length > 20_000) return undefined;
  return BigInt(written.replaceAll('_', ''));
}
