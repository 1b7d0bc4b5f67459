/**
 * Reads an interface for the page's forms.
 *
 * The server has parsed the same text before, with its own limits; but its parser makes types for messages, with a
 * library that would nearly double the page (ADR 40). So this parser is small, keeps only the parts that a form uses
 * (names, order, comments), and is more lenient. Text that it cannot read is an Error with line and column, and the
 * page then offers JSON instead of a form.
 */
import {
  type DidType,
  type Field,
  type FunctionType,
  hashName,
  type Method,
  type NamedType,
  type Parameter,
  type Primitive,
  PRIMITIVES,
  resolve,
} from './did-types.ts';

export interface DidMethod {
  readonly name: string;
  readonly kind: 'update' | 'query' | 'composite_query' | 'oneway';
  readonly parameters: readonly Parameter[];
  readonly results: readonly Parameter[];
  readonly docs: string;
}

/** The parts of an interface that forms use. */
interface DidInterface {
  /** Methods in the order of the text. */
  readonly methods: readonly DidMethod[];
  /** Names of fields and tags by their ids in messages. */
  readonly fieldNames: ReadonlyMap<number, string>;
}

/** Deepest nesting of types; the server accepts no deeper ones. */
const NESTING_MAX = 256;
const COMMENT_CHARACTERS_MAX = 2_000;

/** Parses .did text. Throws an Error with line and column. */
export function parseDid(source: string): DidInterface {
  const parser = new Parser(source);
  const methods = parser.parse().map(({ name, type, docs }) => {
    const concrete = resolve(type);
    if (concrete.kind !== 'func') throw new Error(`the type of method ${name} is not a function`);
    const { parameters, results, annotation } = concrete;
    return { name, kind: annotation ?? ('update' as const), parameters, results, docs };
  });
  return { methods, fieldNames: parser.fieldNames };
}

interface Token {
  readonly kind: 'word' | 'text' | 'number' | 'sign' | 'end';
  readonly value: string;
  readonly offset: number;
  /** The comments before the token. */
  readonly docs: string;
}

const BLANK = /[\s\ufeff]+/y;
const LINE_COMMENT = /\/\/+([^\n]*)\n?/y;
const PATTERNS: readonly (readonly [Token['kind'], RegExp])[] = [
  ['word', /[A-Za-z_][A-Za-z0-9_]*/y],
  ['text', /"(?:[^"\\]|\\[^])*"/y],
  ['number', /(?:0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)/y],
  ['sign', /->|[{}()[\];:,=.]/y],
];

class Parser {
  readonly #source: string;
  readonly #definitions = new Map<string, NamedType>();
  readonly fieldNames = new Map<number, string>();
  #offset = 0;
  #token: Token;

  constructor(source: string) {
    this.#source = source;
    this.#token = this.#scan();
  }

  parse(): readonly Method[] {
    let service: DidType | undefined;
    while (this.#token.kind !== 'end') {
      if (this.#take('type')) {
        const definition = this.#definition(this.#next().value);
        this.#expect('=');
        definition.target = this.#type(0);
      } else if (this.#take('service')) {
        if (this.#token.kind === 'word') this.#next();
        this.#expect(':');
        if (this.#is('(')) {
          this.#parameters(0);
          this.#expect('->');
        }
        service = this.#is('{') ? { kind: 'service', methods: this.#methods(0) } : this.#type(0);
      } else throw this.#unexpected('"type" or "service"');
      this.#take(';');
    }
    const concrete = service === undefined ? undefined : resolve(service);
    if (concrete?.kind !== 'service') throw this.#unexpected('a service');
    return concrete.methods;
  }

  #type(depth: number): DidType {
    if (depth > NESTING_MAX) throw this.#fail(`types are nested deeper than ${NESTING_MAX} levels`);
    const { kind, value } = this.#next();
    if (kind !== 'word') throw this.#fail('expected a type');
    switch (value) {
      case 'opt':
      case 'vec':
        return { kind: value, inner: this.#type(depth + 1) };
      case 'blob':
        return { kind: 'vec', inner: { kind: 'nat8' } };
      case 'record':
      case 'variant':
        return { kind: value, fields: this.#fields(value, depth + 1) };
      case 'func':
        return this.#function(depth + 1);
      case 'service':
        return { kind: 'service', methods: this.#methods(depth + 1) };
      default:
        return isPrimitive(value) ? { kind: value } : this.#definition(value);
    }
  }

  #definition(name: string): NamedType {
    const known = this.#definitions.get(name);
    if (known !== undefined) return known;
    const definition: NamedType = { kind: 'name', name, target: undefined };
    this.#definitions.set(name, definition);
    return definition;
  }

  #fields(kind: 'record' | 'variant', depth: number): readonly Field[] {
    const fields: Field[] = [];
    let nextId = 0;
    this.#expect('{');
    while (!this.#take('}')) {
      const field = this.#field(kind, depth, nextId);
      fields.push(field);
      nextId = field.id + 1;
      if (!this.#is('}')) this.#expect(';');
    }
    return fields;
  }

  #field(kind: 'record' | 'variant', depth: number, nextId: number): Field {
    const isLabelled = this.#isBefore(':');
    // In a record a lone type is a field without a name; in a variant a lone name is a tag without a payload.
    if (kind === 'record' && !isLabelled) return { id: nextId, label: `_${nextId}_`, type: this.#type(depth) };
    const token = this.#next();
    const id = token.kind === 'number' ? Number(token.value.replaceAll('_', '')) : hashName(this.#nameOf(token));
    const label = token.kind === 'number' ? `_${id}_` : this.#nameOf(token);
    if (token.kind !== 'number') this.fieldNames.set(id, label);
    return { id, label, type: this.#take(':') ? this.#type(depth) : { kind: 'null' } };
  }

  #function(depth: number): FunctionType {
    const parameters = this.#parameters(depth);
    this.#expect('->');
    const results = this.#parameters(depth);
    let annotation: FunctionType['annotation'];
    for (const word of ['query', 'composite_query', 'oneway'] as const) if (this.#take(word)) annotation = word;
    return { kind: 'func', parameters, results, annotation };
  }

  #parameters(depth: number): readonly Parameter[] {
    const parameters: Parameter[] = [];
    this.#expect('(');
    while (!this.#take(')')) {
      let name: string | undefined;
      if (this.#isBefore(':')) {
        name = this.#nameOf(this.#next());
        this.#expect(':');
      }
      parameters.push({ name, type: this.#type(depth) });
      if (!this.#is(')')) this.#expect(',');
    }
    return parameters;
  }

  #methods(depth: number): readonly Method[] {
    const methods: Method[] = [];
    this.#expect('{');
    while (!this.#take('}')) {
      const token = this.#next();
      this.#expect(':');
      const type = this.#is('(') ? this.#function(depth) : this.#type(depth);
      methods.push({ name: this.#nameOf(token), type, docs: token.docs });
      if (!this.#is('}')) this.#expect(';');
    }
    return methods;
  }

  #nameOf(token: Token): string {
    if (token.kind === 'word') return token.value;
    if (token.kind === 'text') return unescape(token.value.slice(1, -1));
    throw this.#fail('expected a name', token.offset);
  }

  #is(value: string): boolean {
    return this.#token.value === value && this.#token.kind !== 'text';
  }

  /** Returns true if the token after the next one is this sign. */
  #isBefore(sign: string): boolean {
    const [token, offset] = [this.#token, this.#offset];
    if (token.kind === 'sign' || token.kind === 'end') return false;
    const follows = this.#scan();
    this.#offset = offset;
    return follows.kind === 'sign' && follows.value === sign;
  }

  #take(value: string): boolean {
    if (!this.#is(value)) return false;
    this.#next();
    return true;
  }

  #expect(value: string): void {
    if (!this.#take(value)) throw this.#unexpected(`"${value}"`);
  }

  #next(): Token {
    const token = this.#token;
    this.#token = this.#scan();
    return token;
  }

  #scan(): Token {
    const docs = this.#skipBlanks();
    const offset = this.#offset;
    if (offset >= this.#source.length) return { kind: 'end', value: '', offset, docs };
    for (const [kind, pattern] of PATTERNS) {
      const value = this.#match(pattern)?.[0];
      if (value !== undefined) return { kind, value, offset, docs };
    }
    throw this.#fail('unexpected character', offset);
  }

  /** Skips blanks and comments, and returns the text of the comments directly above the next token. */
  #skipBlanks(): string {
    let docs: string[] = [];
    // A comment at the end of a line belongs to the code before it.
    let isBehind = this.#offset > 0;
    for (;;) {
      const blank = this.#match(BLANK)?.[0] ?? '';
      const lines = blank.split('\n').length - 1;
      if (lines > 0) isBehind = false;
      // An empty line separates a comment from the code below it.
      if (docs.length > 0 && lines > 0) docs = [];
      const comment = this.#match(LINE_COMMENT);
      if (comment !== undefined) {
        if (!isBehind) docs.push((comment[1] ?? '').trim());
        isBehind = false;
      } else if (this.#source.startsWith('/*', this.#offset)) this.#skipBlockComment();
      else if (blank === '') return docs.join('\n').slice(0, COMMENT_CHARACTERS_MAX).trim();
    }
  }

  #skipBlockComment(): void {
    const edge = /\/\*|\*\//g;
    edge.lastIndex = this.#offset;
    let open = 0;
    for (let match = edge.exec(this.#source); match !== null; match = edge.exec(this.#source)) {
      open += match[0] === '/*' ? 1 : -1;
      if (open > 0) continue;
      this.#offset = edge.lastIndex;
      return;
    }
    throw this.#fail('a comment lacks its closing */');
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#offset;
    const match = pattern.exec(this.#source);
    if (match === null) return undefined;
    this.#offset = pattern.lastIndex;
    return match;
  }

  #unexpected(expected: string): Error {
    return this.#fail(`expected ${expected}, found ${this.#token.value.slice(0, 40) || 'the end'}`);
  }

  #fail(problem: string, offset = this.#token.offset): Error {
    const lines = this.#source.slice(0, offset).split('\n');
    return new Error(`line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}: ${problem}`);
  }
}

function isPrimitive(word: string): word is Primitive {
  return (PRIMITIVES as readonly string[]).includes(word);
}

const LETTER_ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

/** Returns the text between the quotes; `\hh` is a byte of its UTF-8. */
function unescape(written: string): string {
  const bytes: number[] = [];
  for (const [part, hex, unicode, letter] of written.matchAll(
    /\\(?:([0-9a-fA-F]{2})|u\{([0-9a-fA-F_]+)\}|([^]))|[^\\]+/g,
  )) {
    if (hex !== undefined) bytes.push(Number.parseInt(hex, 16));
    else {
      const text =
        unicode === undefined
          ? (LETTER_ESCAPES[letter ?? ''] ?? letter ?? part)
          : String.fromCodePoint(Math.min(Number.parseInt(unicode.replaceAll('_', ''), 16), 0x10_ffff));
      bytes.push(...new TextEncoder().encode(text));
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}
