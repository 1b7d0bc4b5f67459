import type { IDL } from '@dfinity/candid';
import { parseType } from './did-parser.ts';
import { parseNatural, type Lexer, type Token } from './lexer.ts';
import { parsePrincipal } from '../ic/index.ts';
import { hashName, idToLabel } from './types.ts';

/* The parser of Candid values in text: `(42 : nat8, record { a = 1; 5 = "x" }, variant { ok }, blob "\00")`. */

const NESTING_MAX = 256;

/** A value as written; numbers stay text until their type is known. */
export type TextValue = { readonly offset: number } & (
  | { readonly kind: 'null' }
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'number'; readonly written: string }
  /** `bytes` as latin1. */
  | { readonly kind: 'text'; readonly token: Token; readonly value: string }
  | { readonly kind: 'blob'; readonly bytes: Buffer }
  | { readonly kind: 'opt'; readonly value: TextValue }
  | { readonly kind: 'vec'; readonly values: readonly TextValue[] }
  | { readonly kind: 'record'; readonly fields: readonly TextField[] }
  | { readonly kind: 'variant'; readonly field: TextField }
  | { readonly kind: 'principal' | 'service'; readonly bytes: Uint8Array }
  | { readonly kind: 'func'; readonly bytes: Uint8Array; readonly method: string }
  | { readonly kind: 'annotated'; readonly value: TextValue; readonly type: IDL.Type }
);

export interface TextField {
  readonly id: number;
  readonly label: string;
  readonly offset: number;
  readonly value: TextValue;
}

/** Parses an argument list. */
export function parseValueText(lexer: Lexer): TextValue[] {
  const parser = new ValueParser(lexer);
  lexer.expect('(');
  const values: TextValue[] = [];
  while (!lexer.take('punctuation', ')')) {
    values.push(parser.parse(0));
    if (!lexer.take('punctuation', ',') && !lexer.is('punctuation', ')')) throw lexer.unexpected('"," or ")"');
  }
  if (!lexer.is('end')) throw lexer.unexpected('the end of the text');
  return values;
}

class ValueParser {
  readonly #lexer: Lexer;

  constructor(lexer: Lexer) {
    this.#lexer = lexer;
  }

  /** Parses a value, with its type if one is given. */
  parse(depth: number): TextValue {
    const value = this.#parseBare(depth);
    const { offset } = value;
    return this.#lexer.take('punctuation', ':')
      ? { kind: 'annotated', value, type: parseType(this.#lexer), offset }
      : value;
  }

  #parseBare(depth: number): TextValue {
    const lexer = this.#lexer;
    if (depth > NESTING_MAX) throw lexer.fail(`values are nested deeper than ${NESTING_MAX} levels`);
    const { kind, offset } = lexer.token;
    if (kind === 'number') return { kind, written: lexer.next().value, offset };
    if (kind === 'text') {
      const token = lexer.next();
      return { kind, token, value: token.value, offset };
    }
    if (lexer.take('punctuation', '(')) {
      const value = this.parse(depth + 1);
      lexer.expect(')');
      return value;
    }
    if (kind !== 'identifier') throw lexer.unexpected('a value');
    const word = lexer.next().value;
    if (lexer.is('punctuation', '=') && !FLOAT_WORDS.has(word))
      throw lexer.fail(`"${word}" begins a value: the name of a field stands in quotes then`, offset);
    switch (word) {
      case 'null':
        return { kind: 'null', offset };
      case 'true':
      case 'false':
        return { kind: 'bool', value: word === 'true', offset };
      case 'nan':
      case 'inf':
        return { kind: 'number', written: word, offset };
      case 'blob':
        return { kind: 'blob', bytes: Buffer.from(this.#text('the text of a blob').value, 'latin1'), offset };
      case 'opt':
        return { kind: 'opt', value: this.#parseBare(depth + 1), offset };
      case 'vec':
        return { kind: 'vec', values: this.#parseElements(depth + 1), offset };
      case 'record':
        return { kind: 'record', fields: this.#parseRecord(depth + 1), offset };
      case 'variant':
        return { kind: 'variant', field: this.#parseVariant(depth + 1), offset };
      case 'principal':
      case 'service':
        return { kind: word, bytes: this.#principal(), offset };
      case 'func': {
        const bytes = this.#principal();
        lexer.expect('.');
        const method = lexer.is('text') ? lexer.textOf(lexer.next()) : this.#identifier('the name of a method');
        return { kind: 'func', bytes, method, offset };
      }
      default:
        throw lexer.fail(`expected a value, found ${JSON.stringify(word.slice(0, 40))}`, offset);
    }
  }

  #text(what: string): Token {
    if (!this.#lexer.is('text')) throw this.#lexer.unexpected(what);
    return this.#lexer.next();
  }

  #identifier(what: string): string {
    if (!this.#lexer.is('identifier')) throw this.#lexer.unexpected(what);
    return this.#lexer.next().value;
  }

  #principal(): Uint8Array {
    const token = this.#text('the text of a principal');
    const bytes = parsePrincipal(token.value);
    if (bytes === undefined)
      throw this.#lexer.fail(`${JSON.stringify(token.value.slice(0, 63))} is not a principal`, token.offset);
    return bytes;
  }

  #endOfItem(closing: string): void {
    if (!this.#lexer.take('punctuation', ';') && !this.#lexer.is('punctuation', closing)) {
      throw this.#lexer.unexpected(`";" or "${closing}"`);
    }
  }

  #parseElements(depth: number): TextValue[] {
    const lexer = this.#lexer;
    lexer.expect('{');
    const values: TextValue[] = [];
    while (!lexer.take('punctuation', '}')) {
      values.push(this.parse(depth));
      this.#endOfItem('}');
    }
    return values;
  }

  #parseRecord(depth: number): TextField[] {
    const lexer = this.#lexer;
    lexer.expect('{');
    const fields = new Map<number, TextField>();
    let nextId = 0;
    while (!lexer.take('punctuation', '}')) {
      const field = this.#parseField(depth, nextId);
      if (fields.has(field.id))
        throw lexer.fail(`the field ${JSON.stringify(field.label)} stands there twice`, field.offset);
      fields.set(field.id, field);
      nextId = field.id + 1;
      this.#endOfItem('}');
    }
    return [...fields.values()];
  }

  /** Parses `name = value`, `5 = value`, or a bare value, which gets the next id. */
  #parseField(depth: number, nextId: number): TextField {
    const lexer = this.#lexer;
    const { offset } = lexer.token;
    if (lexer.is('identifier') && !VALUE_WORDS.has(lexer.token.value)) {
      const label = lexer.next().value;
      lexer.expect('=');
      return { id: hashName(label), label, offset, value: this.parse(depth) };
    }
    const isLabel = lexer.is('number') || lexer.is('text') || lexer.is('identifier');
    const value = this.parse(depth);
    if (isLabel && (value.kind === 'number' || value.kind === 'text') && lexer.take('punctuation', '=')) {
      return { ...this.#labelOf(value), offset, value: this.parse(depth) };
    }
    if (nextId > 0xffff_ffff) throw lexer.fail('a field without name after the id 2^32 - 1', offset);
    return { id: nextId, label: idToLabel(nextId), offset, value };
  }

  #labelOf(value: TextValue & { readonly kind: 'number' | 'text' }): { id: number; label: string } {
    if (value.kind === 'text') {
      const label = this.#lexer.textOf(value.token);
      return { id: hashName(label), label };
    }
    // A bare float, or a field of that name.
    if (FLOAT_WORDS.has(value.written)) return { id: hashName(value.written), label: value.written };
    const id = parseNatural(value.written);
    if (id === undefined || id > 0xffff_ffffn) throw this.#lexer.fail('expected a field id below 2^32', value.offset);
    return { id: Number(id), label: idToLabel(Number(id)) };
  }

  #parseVariant(depth: number): TextField {
    const lexer = this.#lexer;
    lexer.expect('{');
    const token = lexer.next();
    const { offset } = token;
    let tag: { id: number; label: string };
    if (token.kind === 'identifier') tag = { id: hashName(token.value), label: token.value };
    else if (token.kind === 'text') tag = this.#labelOf({ kind: 'text', token, value: token.value, offset });
    else if (token.kind === 'number') tag = this.#labelOf({ kind: 'number', written: token.value, offset });
    else throw lexer.fail('expected a tag', offset);
    const value: TextValue = lexer.take('punctuation', '=') ? this.parse(depth) : { kind: 'null', offset };
    lexer.take('punctuation', ';');
    lexer.expect('}');
    return { ...tag, offset, value };
  }
}

/** Words that begin a value and therefore are not field names unless quoted. */
const FLOAT_WORDS = new Set(['nan', 'inf']);
const VALUE_WORDS = new Set('null true false nan inf blob opt vec record variant principal service func'.split(' '));
