/**
 * Reads arguments that the server shows as Candid text into the values of a form. Types say what is expected; what a
 * value has beyond them is skipped, as Candid does.
 */
import { type ConcreteType, type DidType, type Field, isNullable, resolve } from './did-types.ts';
import { emptyValue, type FormValue } from './form-value.ts';

const TOKEN =
  /\s*("(?:[^"\\]|\\[^])*"|[+-]?(?:inf|nan)\b|[+-]?\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|[(){};,:=.])/y;
const ESCAPED: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
/** Deeper values are left to other tools. */
const DEPTH_MAX = 200;
const CUT = 'the arguments are cut: the history keeps their beginning alone';

/** Returns the values; throws an Error if the text is cut, or does not fit the types. */
export function readCandid(types: readonly DidType[], text: string): readonly FormValue[] {
  if (text.endsWith('…')) throw new Error(CUT);
  const reader = new TextReader(tokensOf(text));
  return reader.list(types);
}

function tokensOf(text: string): readonly string[] {
  const tokens: string[] = [];
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const [, token] = TOKEN.exec(text) ?? [];
    if (token === undefined) throw new Error('the arguments are not shown as Candid text');
    tokens.push(token);
  }
  return tokens;
}

class TextReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  list(types: readonly DidType[]): readonly FormValue[] {
    this.#expect('(');
    const values: FormValue[] = [];
    while (!this.#take(')')) {
      const type = types[values.length];
      if (type === undefined) this.#skip();
      else values.push(this.#value(type, 0));
      if (!this.#take(',') && this.#next() !== ')') throw this.#unexpected();
    }
    for (const type of types.slice(values.length)) values.push(missing(type));
    return values;
  }

  #next(): string {
    return this.#tokens[this.#at] ?? '';
  }

  #take(token: string): boolean {
    const isThere = this.#next() === token;
    if (isThere) this.#at++;
    return isThere;
  }

  #expect(token: string): void {
    if (!this.#take(token)) throw this.#unexpected();
  }

  #unexpected(): Error {
    return new Error(`the arguments do not fit the method's types at ${this.#next().slice(0, 40) || 'their end'}`);
  }

  #value(named: DidType, depth: number): FormValue {
    if (depth > DEPTH_MAX) throw new Error('the arguments are too deep for a form');
    if (this.#take('(')) {
      const inside = this.#value(named, depth + 1);
      this.#expect(')');
      return inside;
    }
    const type = resolve(named);
    const value = this.#bare(type, depth);
    if (this.#take(':')) this.#skip();
    return value;
  }

  #bare(type: ConcreteType, depth: number): FormValue {
    const form = emptyValue(type);
    switch (form.kind) {
      case 'text':
        form.text = this.#scalar(type.kind);
        return form;
      case 'bool':
        form.isTrue = this.#take('true');
        if (!form.isTrue) this.#expect('false');
        return form;
      case 'blob':
        form.encoding = 'hex';
        form.text = this.#blob();
        return form;
      case 'opt':
        if (this.#take('null') || type.kind !== 'opt') return form;
        this.#expect('opt');
        form.isSome = true;
        form.value = this.#value(type.inner, depth + 1);
        return form;
      case 'vec':
        if (type.kind === 'vec') this.#items('vec', () => form.items.push(this.#value(type.inner, depth + 1)));
        return form;
      case 'record':
        return { kind: 'record', fields: this.#fields(fieldsOf(type), depth) };
      case 'variant':
        this.#items('variant', () => this.#tag(form, fieldsOf(type), depth));
        if (form.tag === undefined) throw this.#unexpected();
        return form;
      case 'func':
        this.#expect('func');
        form.principal = this.#string();
        this.#expect('.');
        form.method = this.#label();
        return form;
      case 'nothing':
        if (type.kind === 'reserved') this.#skip();
        else this.#expect('null');
        return form;
    }
  }

  #scalar(kind: string): string {
    if (kind === 'text') return this.#string();
    if (kind === 'principal' || kind === 'service') {
      this.#expect(kind);
      return this.#string();
    }
    if (!/^[+-]?(?:\d|inf|nan)/.test(this.#next())) throw this.#unexpected();
    return this.#tokens[this.#at++] ?? '';
  }

  #string(): string {
    if (!this.#next().startsWith('"')) throw this.#unexpected();
    const token = this.#tokens[this.#at++] ?? '';
    return token
      .slice(1, -1)
      .replaceAll(/\\(?:u\{([0-9a-fA-F]+)\}|([^]))/g, (_all, hex?: string, letter?: string) =>
        hex === undefined ? (ESCAPED[letter ?? ''] ?? letter ?? '') : String.fromCodePoint(Number.parseInt(hex, 16)),
      );
  }

  /** Returns bytes in hex; the server shows each as two digits. */
  #blob(): string {
    this.#expect('blob');
    const token = this.#next();
    if (!/^"(?:\\[0-9a-f]{2})*"$/.test(token)) throw this.#unexpected();
    this.#at++;
    return token.replaceAll(/["\\]/g, '');
  }

  #label(): string {
    if (this.#next().startsWith('"')) return this.#string();
    if (!/^\w+$/.test(this.#next())) throw this.#unexpected();
    return this.#tokens[this.#at++] ?? '';
  }

  #items(word: string, read: () => void): void {
    this.#expect(word);
    this.#expect('{');
    while (!this.#take('}')) {
      read();
      if (!this.#take(';') && this.#next() !== '}') throw this.#unexpected();
    }
  }

  #fields(fields: readonly Field[], depth: number): readonly FormValue[] {
    const values = new Map<Field, FormValue>();
    let nextId = 0;
    this.#items('record', () => {
      const isNamed = this.#tokens[this.#at + 1] === '=';
      const label = isNamed ? this.#label() : String(nextId);
      if (isNamed) this.#expect('=');
      const field = fieldOf(fields, label);
      nextId = (field?.id ?? Number(label)) + 1;
      if (field === undefined) this.#skip();
      else values.set(field, this.#value(field.type, depth + 1));
    });
    return fields.map((field) => values.get(field) ?? missing(field.type));
  }

  #tag(form: FormValue & { kind: 'variant' }, fields: readonly Field[], depth: number): void {
    const field = fieldOf(fields, this.#label());
    if (field === undefined) throw this.#unexpected();
    form.tag = fields.indexOf(field);
    const value = this.#take('=') ? this.#value(field.type, depth + 1) : emptyValue(field.type);
    form.values.set(form.tag, value);
  }

  /** Skips a value or a type: all up to the end of what it stands in. */
  #skip(): void {
    let depth = 0;
    for (; this.#at < this.#tokens.length; this.#at++) {
      const token = this.#next();
      if (depth === 0 && /^[;,)}]$/.test(token)) return;
      if (token === '{' || token === '(') depth++;
      else if (token === '}' || token === ')') depth--;
    }
  }
}

function fieldsOf(type: ConcreteType): readonly Field[] {
  return type.kind === 'record' || type.kind === 'variant' ? type.fields : [];
}

/** Returns the field of a name, or of an id: messages have ids alone. */
function fieldOf(fields: readonly Field[], label: string): Field | undefined {
  return fields.find((field) => field.label === label || String(field.id) === label);
}

function missing(type: DidType): FormValue {
  if (!isNullable(type)) throw new Error('an argument, or a field of it, is missing');
  return emptyValue(type);
}
