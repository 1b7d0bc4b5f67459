import { isUtf8 } from 'node:buffer';
import type { ServerError } from '../../kernel/index.ts';
import type { ByteWriter } from './byte-writer.ts';
import {
  badJson,
  BIGNUM_DIGITS_MAX,
  formatPath,
  quotaExceeded,
  VALUE_DEPTH_MAX,
  WORK_BASE,
  WORK_PER_BYTE,
  type PathStep,
} from './faults.ts';
import { SpanStack } from './span-stack.ts';
import { BACKSLASH, COMMA, MINUS, NINE, QUOTE, ZERO } from './json-bytes.ts';
import { NO_BYTES } from '../bytes/index.ts';

/*
 * A strict JSON tokenizer over UTF-8 bytes, driven by the types that are expected.
 *
 * `JSON.parse` cannot be used: it rounds integers, lets the last of two equal keys win and keeps lone surrogates. This
 * reader makes no values; the closures of a compiled codec ask it for the tokens they expect and write Candid at once.
 * The whole input is checked to be UTF-8 beforehand, so that strings can be copied byte by byte. The path to the
 * current value is kept in a preallocated array, one step for each level, and turned into text only for an error.
 *
 * `?? 0`: used for every byte, in loops that end with the text; a 0 after the end is part of no token. With `numberAt`
 * instead, JSON to Candid took a seventh longer.
 */

/** Number of digits that surely fit into a double without rounding. */
const SAFE_DIGITS = 15;

export class JsonReader {
  bytes: Uint8Array = new Uint8Array(0);
  position = 0;
  end = 0;
  depth = 0;
  readonly path: PathStep[] = Array.from({ length: VALUE_DEPTH_MAX + 2 });
  /** Buffer of the last string: the input itself or, if there were escapes, a scratch buffer. */
  text: Uint8Array = this.bytes;
  textStart = 0;
  textEnd = 0;
  /** Places in the output of the fields of open records; see `encode-json.ts`. */
  readonly spans = new SpanStack();
  #root = 'args';
  #work = 0;
  #scratch = new Uint8Array(256);

  start(bytes: Uint8Array, root: string): void {
    this.bytes = bytes;
    this.position = 0;
    this.end = bytes.length;
    this.depth = 0;
    this.spans.top = 0;
    this.#root = root;
    this.#work = WORK_BASE + bytes.length * WORK_PER_BYTE;
    if (!isUtf8(bytes)) throw badJson(root, 'the text is not UTF-8');
  }

  /** Forgets the input, so that a large body does not stay in memory. */
  release(): void {
    this.bytes = NO_BYTES;
    this.text = NO_BYTES;
    if (this.#scratch.length > 65_536) this.#scratch = new Uint8Array(256);
  }

  fail(problem: string): ServerError {
    return badJson(formatPath(this.#root, this.path, this.depth), problem);
  }

  /** Charges work that the input's length does not show. */
  charge(units: number): void {
    this.#work -= units;
    if (this.#work < 0) {
      throw quotaExceeded(
        formatPath(this.#root, this.path, this.depth),
        'there are too many values for a text of this length',
      );
    }
  }

  /** Steps into a value; the caller sets `path[depth]` and leaves by `depth--`. */
  enter(): number {
    if (this.depth === VALUE_DEPTH_MAX) throw this.fail(`the value is nested deeper than ${VALUE_DEPTH_MAX} levels`);
    this.path[++this.depth] = undefined;
    return this.depth;
  }

  /** Returns the first byte of the next token without consuming it; -1 at the end. */
  peek(): number {
    const { bytes, end } = this;
    let at = this.position;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) {
        this.position = at;
        return byte;
      }
      at++;
    }
    this.position = at;
    return -1;
  }

  /** Consumes one punctuation character if it is next. */
  take(character: number): boolean {
    if (this.peek() !== character) return false;
    this.position++;
    return true;
  }

  expect(character: number, what: string): void {
    if (!this.take(character)) throw this.unexpected(what);
  }

  /** Reads the byte after an element or member; returns true at the closing bracket, false after a comma. */
  endOrComma(closing: number): boolean {
    const byte = this.peek();
    if (byte !== COMMA && byte !== closing) throw this.unexpected(`"," or "${String.fromCharCode(closing)}"`);
    this.position++;
    return byte === closing;
  }

  /** Returns the error for a value of another kind than expected. */
  unexpected(expected: string): ServerError {
    return this.fail(`expected ${expected}, found ${this.describe()}`);
  }

  /** Describes the next token, for an error message. */
  describe(): string {
    const byte = this.peek();
    if (byte === -1) return 'the end of the text';
    if (byte === 0x7b) return 'an object';
    if (byte === 0x5b) return 'an array';
    if (byte === QUOTE) return 'a string';
    if (byte === MINUS || (byte >= ZERO && byte <= NINE)) {
      let last = this.position;
      while (
        last < this.end &&
        last - this.position < 24 &&
        /[-+.eE0-9]/.test(String.fromCharCode(this.bytes[last] ?? 0))
      )
        last++;
      return `the number ${Buffer.from(this.bytes.subarray(this.position, last)).toString('latin1')}`;
    }
    for (const word of ['true', 'false', 'null']) {
      if (this.#startsWith(word)) return word;
    }
    if (byte === 0xef) return 'a byte order mark or another character that JSON does not allow here';
    return byte > 0x20 && byte < 0x7f
      ? JSON.stringify(String.fromCharCode(byte))
      : `byte 0x${byte.toString(16).padStart(2, '0')}`;
  }

  #startsWith(word: string): boolean {
    if (this.position + word.length > this.end) return false;
    for (let index = 0; index < word.length; index++) {
      if (this.bytes[this.position + index] !== word.charCodeAt(index)) return false;
    }
    return true;
  }

  /** Consumes `null`, `true` or `false` if it is next. */
  takeWord(word: string): boolean {
    this.peek();
    if (!this.#startsWith(word)) return false;
    this.position += word.length;
    return true;
  }

  /** Reads a string into `text`, `textStart`, `textEnd`; `peek` has seen the opening quote. */
  readString(): void {
    const { bytes, end } = this;
    const start = this.position + 1;
    let at = start;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE) {
        this.text = bytes;
        this.textStart = start;
        this.textEnd = at;
        this.position = at + 1;
        return;
      }
      if (byte === BACKSLASH) return this.#readEscapedString(start, at);
      if (byte < 0x20) throw this.#controlCharacter(byte);
      at++;
    }
    throw this.fail('the string lacks its closing quote');
  }

  #controlCharacter(byte: number): ServerError {
    const code = byte.toString(16).padStart(4, '0');
    return this.fail(`a control character in a string must be written \\u${code}`);
  }

  /** Reads a string and returns it as a JavaScript string. */
  readText(): string {
    this.readString();
    return this.textValue();
  }

  textValue(): string {
    const { text } = this;
    return Buffer.from(text.buffer, text.byteOffset + this.textStart, this.textEnd - this.textStart).toString('utf8');
  }

  #readEscapedString(start: number, firstEscape: number): void {
    const { bytes, end } = this;
    let length = firstEscape - start;
    if (length + 8 > this.#scratch.length) this.#scratch = new Uint8Array(length * 2 + 8);
    let scratch = this.#scratch;
    scratch.set(bytes.subarray(start, firstEscape));
    let at = firstEscape;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (length + 8 > scratch.length) {
        this.#scratch = new Uint8Array(scratch.length * 2);
        this.#scratch.set(scratch);
        scratch = this.#scratch;
      }
      if (byte === QUOTE) {
        this.text = scratch;
        this.textStart = 0;
        this.textEnd = length;
        this.position = at + 1;
        return;
      }
      if (byte < 0x20) throw this.#controlCharacter(byte);
      if (byte !== BACKSLASH) {
        scratch[length++] = byte;
        at++;
        continue;
      }
      const kind = bytes[at + 1] ?? 0;
      if (kind !== 0x75) {
        const plain = SIMPLE_ESCAPES[kind] ?? 0;
        if (plain === 0) throw this.fail('the string has an unknown escape');
        scratch[length++] = plain;
        at += 2;
        continue;
      }
      let code = this.#hexUnit(at + 2);
      at += 6;
      if (code >= 0xdc00 && code <= 0xdfff) throw this.fail('a lone surrogate is not text');
      if (code >= 0xd800 && code <= 0xdbff) {
        const low = bytes[at] === BACKSLASH && bytes[at + 1] === 0x75 ? this.#hexUnit(at + 2) : 0;
        if (low < 0xdc00 || low > 0xdfff) throw this.fail('a lone surrogate is not text');
        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
      }
      if (code < 0x80) {
        scratch[length++] = code;
      } else if (code < 0x800) {
        scratch[length++] = 0xc0 | (code >> 6);
        scratch[length++] = 0x80 | (code & 63);
      } else {
        if (code < 0x1_0000) {
          scratch[length++] = 0xe0 | (code >> 12);
        } else {
          scratch[length++] = 0xf0 | (code >> 18);
          scratch[length++] = 0x80 | ((code >> 12) & 63);
        }
        scratch[length++] = 0x80 | ((code >> 6) & 63);
        scratch[length++] = 0x80 | (code & 63);
      }
    }
    throw this.fail('the string lacks its closing quote');
  }

  #hexUnit(at: number): number {
    if (at + 4 > this.end) throw this.fail('an escape \\u needs four hexadecimal digits');
    let unit = 0;
    for (let index = at; index < at + 4; index++) {
      const digit = HEX_DIGITS[this.bytes[index] ?? 0] ?? 255;
      if (digit === 255) throw this.fail('an escape \\u needs four hexadecimal digits');
      unit = unit * 16 + digit;
    }
    return unit;
  }

  /** Writes the last string as Candid text. */
  writeTextTo(writer: ByteWriter): void {
    writer.writeLeb(this.textEnd - this.textStart);
    writer.writeRange(this.text, this.textStart, this.textEnd);
  }

  /** Finds the end of a number token and returns true if it is an integer; `position` is then after it. */
  #scanNumber(): boolean {
    const { bytes, end } = this;
    let at = this.position;
    if (bytes[at] === MINUS) at++;
    const firstDigit = at;
    while (at < end && isDigit(bytes[at])) at++;
    if (at === firstDigit || (bytes[firstDigit] === ZERO && at > firstDigit + 1))
      throw this.fail('the number is malformed');
    let isInteger = true;
    if (at < end && bytes[at] === 0x2e) {
      isInteger = false;
      const fraction = ++at;
      while (at < end && isDigit(bytes[at])) at++;
      if (at === fraction) throw this.fail('the number is malformed');
    }
    if (at < end && (bytes[at] === 0x65 || bytes[at] === 0x45)) {
      isInteger = false;
      at++;
      if (at < end && (bytes[at] === 0x2b || bytes[at] === MINUS)) at++;
      const exponent = at;
      while (at < end && isDigit(bytes[at])) at++;
      if (at === exponent) throw this.fail('the number is malformed');
    }
    this.position = at;
    return isInteger;
  }

  /** Reads an integer, a number or a decimal string, exactly: returns a bigint if a double would round. */
  readInteger(typeName: string): number | bigint {
    const first = this.peek();
    if (first === QUOTE) {
      this.readString();
      return this.textToInteger(typeName);
    }
    if (first !== MINUS && !isDigit(first)) throw this.unexpected(`${typeName} as an integer or a decimal string`);
    const start = this.position;
    // Most numbers are short and plain; they are read in one loop.
    const { bytes, end } = this;
    let at = first === MINUS ? start + 1 : start;
    const firstDigit = at;
    let value = 0;
    while (at < end && at - firstDigit <= SAFE_DIGITS) {
      const digit = (bytes[at] ?? 0) - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      at++;
    }
    const next = at < end ? (bytes[at] ?? 0) : 0;
    const digits = at - firstDigit;
    const isPlain = digits > 0 && digits <= SAFE_DIGITS && (digits === 1 || bytes[firstDigit] !== ZERO);
    if (isPlain && next !== 0x2e && next !== 0x65 && next !== 0x45 && !isDigit(next)) {
      this.position = at;
      return first === MINUS && value !== 0 ? -value : value;
    }
    if (!this.#scanNumber()) {
      this.position = start;
      throw this.unexpected(`${typeName} as an integer without fraction or exponent`);
    }
    return this.#bigInteger(bytes, start, this.position, typeName);
  }

  /** Returns the last string as an integer in canonical decimal form. */
  textToInteger(typeName: string): number | bigint {
    const { text, textStart, textEnd } = this;
    let at = textStart;
    const isNegative = text[at] === MINUS;
    if (isNegative) at++;
    const first = text[at];
    const isCanonical =
      at < textEnd &&
      isDigit(first) &&
      (first !== ZERO || (textEnd === at + 1 && !isNegative)) &&
      allDigits(text, at, textEnd);
    if (!isCanonical) throw this.fail(`expected ${typeName} as an integer or a decimal string without leading zeros`);
    return this.#bigInteger(text, textStart, textEnd, typeName);
  }

  #bigInteger(bytes: Uint8Array, start: number, end: number, typeName: string): number | bigint {
    if (end - start > BIGNUM_DIGITS_MAX) {
      throw this.fail(`the ${typeName} has ${end - start} digits; at most ${BIGNUM_DIGITS_MAX} are accepted`);
    }
    if (end - start <= SAFE_DIGITS) {
      const isNegative = bytes[start] === MINUS;
      let small = 0;
      for (let at = isNegative ? start + 1 : start; at < end; at++) small = small * 10 + (bytes[at] ?? 0) - ZERO;
      return isNegative && small !== 0 ? -small : small;
    }
    const digits = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
    const value = BigInt(digits);
    return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
  }

  /** Reads a number as it is written: what it is rounded to depends on its type. */
  readNumber(): string {
    const start = this.position;
    this.#scanNumber();
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + start, this.position - start).toString('latin1');
  }

  /** Consumes one whole value of any kind; loops instead of recursing. */
  skipValue(): void {
    const base = this.depth;
    // Closing character of each open container.
    const closings: number[] = [];
    for (;;) {
      const byte = this.peek();
      if (byte === 0x7b || byte === 0x5b) {
        this.position++;
        if (base + closings.length >= VALUE_DEPTH_MAX)
          throw this.fail(`the value is nested deeper than ${VALUE_DEPTH_MAX} levels`);
        const closing = byte + 2;
        if (!this.take(closing)) {
          closings.push(closing);
          if (byte === 0x7b) this.#skipKey();
          continue;
        }
      } else if (byte === QUOTE) {
        this.readString();
      } else if (byte === MINUS || isDigit(byte)) {
        this.#scanNumber();
      } else if (!this.takeWord('null') && !this.takeWord('true') && !this.takeWord('false')) {
        throw this.unexpected('a JSON value');
      }
      // A value has ended: closes the containers that it completes, or steps to the next value.
      for (;;) {
        const closing = closings.at(-1);
        if (closing === undefined) return;
        if (!this.endOrComma(closing)) {
          if (closing === 0x7d) this.#skipKey();
          break;
        }
        closings.pop();
      }
    }
  }

  #skipKey(): void {
    if (this.peek() !== QUOTE) throw this.unexpected('a key in quotes');
    this.readString();
    this.expect(0x3a, '":"');
  }

  /** Throws unless only blanks are left. */
  expectEnd(): void {
    if (this.peek() !== -1) throw this.unexpected('the end of the text');
  }
}

const SIMPLE_ESCAPES = new Uint8Array(256);
for (const [letter, plain] of Object.entries({
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
})) {
  SIMPLE_ESCAPES[letter.charCodeAt(0)] = plain.charCodeAt(0);
}

const HEX_DIGITS = new Uint8Array(256).fill(255);
for (const [value, digit] of Array.from('0123456789abcdef').entries()) {
  HEX_DIGITS[digit.charCodeAt(0)] = value;
  HEX_DIGITS[digit.toUpperCase().charCodeAt(0)] = value;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function allDigits(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (!isDigit(bytes[at])) return false;
  }
  return true;
}
