/**
 * A strict JSON parser (RFC 8259) that keeps the positions of all values, so that a fault in a manifest can be shown
 * with line and column, and the text of numbers. `JSON.parse` forgets positions, keeps only the last of two equal keys
 * and rounds large integers.
 *
 * Stricter than `JSON.parse`: keys may not repeat (reported, and parsing continues), and strings must be sequences of
 * Unicode characters (no lone surrogates). Nesting is limited, so hostile input cannot overflow the stack. Time is
 * linear in the text.
 */
export type JsonNode = JsonObject | JsonArray | JsonString | JsonNumber | JsonLiteral;

interface Placed {
  /** Offsets in the text, UTF-16 units; `end` is exclusive. */
  readonly start: number;
  readonly end: number;
}
export interface JsonObject extends Placed {
  readonly kind: 'object';
  /** Members in the order of the text, including repeated keys. */
  readonly members: readonly JsonMember[];
}
export interface JsonMember {
  readonly key: JsonString;
  readonly value: JsonNode;
}
interface JsonArray extends Placed {
  readonly kind: 'array';
  readonly items: readonly JsonNode[];
}
interface JsonString extends Placed {
  readonly kind: 'string';
  readonly value: string;
}
interface JsonNumber extends Placed {
  readonly kind: 'number';
  /** The number as written. */
  readonly text: string;
}
interface JsonLiteral extends Placed {
  readonly kind: 'true' | 'false' | 'null';
}

/** Error for text that is not JSON; `offset` is the place of the fault. */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

const DEPTH_MAX = 512;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/uy;
/** Matches words that people write in place of a number and that JSON does not have. */
const WORD = /[+.\w-]+/uy;
// Characters that a string may hold unescaped: no quote, no backslash, no control character.
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]+/uy;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

export function readJson(text: string): JsonNode {
  return new Reader(text).document();
}

/** Returns line and column of an offset, both counted from 1. */
export function placeOf(text: string, offset: number): { readonly line: number; readonly column: number } {
  const lineStart = offset === 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1;
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < lineStart; at = text.indexOf('\n', at + 1)) line += 1;
  return { line, column: Array.from(text.slice(lineStart, offset)).length + 1 };
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonNode {
    this.#skipBlank();
    if (this.#at === this.#text.length) this.#fail('the file is empty');
    const node = this.#value(0);
    this.#skipBlank();
    if (this.#at < this.#text.length) this.#fail('nothing may follow the closing bracket');
    return node;
  }

  #value(depth: number): JsonNode {
    if (depth > DEPTH_MAX) this.#fail(`nested more than ${DEPTH_MAX} deep`);
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case '"':
        return this.#string();
      case undefined:
        return this.#fail('the file ends where a value is expected');
      case "'":
        return this.#fail('strings stand in double quotes');
      default:
        return this.#word();
    }
  }

  #object(depth: number): JsonObject {
    const start = this.#at;
    const members: JsonMember[] = [];
    this.#sequence('}', 'object', () => {
      if (this.#at === this.#text.length) this.#fail('the file ends inside an object; expected a key or "}"');
      if (this.#text[this.#at] !== '"') this.#fail('expected a key in double quotes');
      const key = this.#string();
      this.#skipBlank();
      if (this.#text[this.#at] !== ':') this.#fail('expected a colon after the key');
      this.#at += 1;
      this.#skipBlank();
      members.push({ key, value: this.#value(depth + 1) });
    });
    return { kind: 'object', start, end: this.#at, members };
  }

  #array(depth: number): JsonArray {
    const start = this.#at;
    const items: JsonNode[] = [];
    this.#sequence(']', 'array', () => items.push(this.#value(depth + 1)));
    return { kind: 'array', start, end: this.#at, items };
  }

  /** Reads from the opening bracket past the closing one, with commas between items. */
  #sequence(close: '}' | ']', what: string, item: () => void): void {
    this.#at += 1;
    this.#skipBlank();
    if (this.#text[this.#at] === close) {
      this.#at += 1;
      return;
    }
    for (;;) {
      item();
      this.#skipBlank();
      const next = this.#text[this.#at];
      if (next === close) break;
      if (next === undefined) this.#fail(`the file ends inside an ${what}; expected a comma or "${close}"`);
      if (next !== ',') this.#fail(`expected a comma or "${close}"`);
      const comma = this.#at;
      this.#at += 1;
      this.#skipBlank();
      if (this.#text[this.#at] === close) throw new JsonSyntaxError(comma, `a comma before "${close}" is not allowed`);
    }
    this.#at += 1;
  }

  #string(): JsonString {
    const start = this.#at;
    let value = '';
    this.#at += 1;
    for (;;) {
      value += this.#match(PLAIN_CHARACTERS);
      const next = this.#text[this.#at];
      if (next === '"') break;
      if (next !== '\\')
        this.#fail(
          next === undefined || next === '\n'
            ? 'the string is not closed'
            : 'a control character stands in a string; escape it',
        );
      value += this.#escape();
    }
    this.#at += 1;
    if (!value.isWellFormed()) throw new JsonSyntaxError(start, 'the string holds half of a surrogate pair');
    return { kind: 'string', start, end: this.#at, value };
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? '';
    const simple = ESCAPES[letter];
    if (simple !== undefined) {
      this.#at += 2;
      return simple;
    }
    const hex = this.#text.slice(this.#at + 2, this.#at + 6);
    if (letter !== 'u' || !/^[0-9A-Fa-f]{4}$/u.test(hex))
      this.#fail('unknown escape in a string; a backslash is written \\\\');
    this.#at += 6;
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  #word(): JsonNumber | JsonLiteral {
    const start = this.#at;
    const word = this.#match(WORD);
    const end = this.#at;
    if (word === 'true' || word === 'false' || word === 'null') return { kind: word, start, end };
    this.#at = start;
    const text = this.#match(NUMBER);
    if (text !== '' && this.#at === end) return { kind: 'number', start, end, text };
    this.#at = start;
    return this.#fail(
      word === ''
        ? `unexpected ${JSON.stringify(this.#text[start])}`
        : `${word.slice(0, 40)} is not a JSON value; text stands in double quotes`,
    );
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  #skipBlank(): void {
    for (;;) {
      const character = this.#text[this.#at];
      if (character === '/') this.#fail('comments are not allowed in JSON');
      if (character !== ' ' && character !== '\n' && character !== '\t' && character !== '\r') return;
      this.#at += 1;
    }
  }

  #fail(message: string): never {
    throw new JsonSyntaxError(this.#at, message);
  }
}
