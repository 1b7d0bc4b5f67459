import { isUtf8 } from 'node:buffer';
import { ServerError } from '../../kernel/index.ts';
import { ByteWriter } from './byte-writer.ts';
import { integerRange, isFloat, isInteger } from './encode-values.ts';
import { decimalFloat } from './decimal-float.ts';
import { BIGNUM_DIGITS_MAX, WORK_BASE, WORK_PER_BYTE } from './faults.ts';
import { hexFloat } from './hex-float.ts';
import { compactGraph, InferredTypes } from './inferred-types.ts';
import { Lexer } from './lexer.ts';
import { isSubtype } from './subtype.ts';
import { encodeHeader } from './type-table.ts';
import { graphOfTypes, isNullable, Op, TYPE_NAMES, type CandidType, type TypeGraph } from './types.ts';
import { parseValueText, type TextField, type TextValue } from './value-text.ts';

/*
 * Candid value text to a Candid message: with the types of an interface, or with those that the values show (an integer
 * is an `int`, a number with fraction or exponent a `float64`, unless its type follows).
 */

/** Encodes text like `(42 : nat8, record { a = 1 })`; `expected` are the types that the message must have. */
export function encodeValueText(text: string, expected: TypeGraph | undefined, charactersMax?: number): Uint8Array {
  const lexer = new Lexer(text, 'bad-candid-text', charactersMax);
  const values = parseValueText(lexer);
  const encoder = new ValueEncoder(lexer, text.length);
  const graph = expected ?? encoder.infer(values);
  return encoder.encode(values, graph);
}

/** Decodes text from outside. Throws a ServerError if the bytes are not UTF-8. */
export function candidTextOf(utf8: Uint8Array): string {
  if (!isUtf8(utf8)) throw new ServerError('invalid', 'bad-candid-text', 'the Candid text is not UTF-8');
  return Buffer.from(utf8.buffer, utf8.byteOffset, utf8.byteLength).toString('utf8');
}

/** Characters of a number that an error shows. */
const SHOWN_CHARACTERS = 40;

class ValueEncoder {
  readonly #lexer: Lexer;
  readonly #types: InferredTypes;
  readonly #writer = new ByteWriter();
  #work: number;

  constructor(lexer: Lexer, length: number) {
    this.#lexer = lexer;
    this.#work = WORK_BASE + length * WORK_PER_BYTE;
    this.#types = new InferredTypes((units) => this.#charge(units));
    this.#writer.start(length);
  }

  #charge(units: number): void {
    this.#work -= units;
    if (this.#work < 0) throw this.#lexer.fail('the text costs too much work for its length');
  }

  infer(values: readonly TextValue[]): TypeGraph {
    return compactGraph(values.map((value) => this.#infer(value)));
  }

  #infer(value: TextValue): CandidType {
    const types = this.#types;
    switch (value.kind) {
      case 'null':
        return types.plain(Op.NULL);
      case 'bool':
        return types.plain(Op.BOOL);
      case 'number':
        return types.plain(INTEGER.test(value.written) ? Op.INT : Op.FLOAT64);
      case 'text':
        return types.plain(Op.TEXT);
      case 'blob':
        return types.blob();
      case 'principal':
        return types.plain(Op.PRINCIPAL);
      case 'service':
        return types.plain(Op.SERVICE);
      case 'func':
        return types.plain(Op.FUNC);
      case 'opt':
        return types.of(Op.OPT, this.#infer(value.value));
      case 'vec': {
        let element = types.plain(Op.EMPTY);
        for (const item of value.values) {
          const joined = types.join(element, this.#infer(item));
          if (joined === undefined)
            throw this.#lexer.fail(
              'a vec has elements of one type; this one does not fit those before it',
              item.offset,
            );
          element = joined;
        }
        return types.of(Op.VEC, element);
      }
      case 'record':
        return types.withFields(
          Op.RECORD,
          value.fields.map(({ id, label, value: field }) => ({ id, label, type: this.#infer(field) })),
        );
      case 'variant': {
        const { id, label, value: payload } = value.field;
        return types.withFields(Op.VARIANT, [{ id, label, type: this.#infer(payload) }]);
      }
      case 'annotated':
        return this.#annotation(value);
    }
  }

  #annotation(value: TextValue & { readonly kind: 'annotated' }): CandidType {
    const [type] = graphOfTypes([value.type]).roots;
    if (type === undefined) throw this.#lexer.fail('a type is missing', value.offset);
    return type;
  }

  encode(values: readonly TextValue[], graph: TypeGraph): Uint8Array {
    this.#writer.writeAll(encodeHeader(graph));
    const extra = values[graph.roots.length];
    const required = graph.roots.findLastIndex((type) => !isNullable(type)) + 1;
    if (extra !== undefined || values.length < required) {
      throw this.#lexer.fail(`expected ${graph.roots.length} values, found ${values.length}`, extra?.offset);
    }
    for (const [index, type] of graph.roots.entries()) {
      const value = values[index];
      if (value !== undefined) this.#encode(value, type);
      else if (type.op === Op.OPT) this.#writer.writeByte(0);
    }
    return this.#writer.finish();
  }

  #mismatch(value: TextValue, type: CandidType): Error {
    const found = value.kind === 'number' ? `the number ${value.written.slice(0, SHOWN_CHARACTERS)}` : value.kind;
    return this.#lexer.fail(`expected ${TYPE_NAMES[type.op]}, found ${found}`, value.offset);
  }

  #encode(value: TextValue, type: CandidType): void {
    this.#charge(1);
    if (value.kind === 'annotated') {
      const written = this.#annotation(value);
      if (!isSubtype(written, type, (units) => this.#charge(units))) {
        throw this.#lexer.fail(
          `expected ${TYPE_NAMES[type.op]}, found a value of type ${TYPE_NAMES[written.op]}`,
          value.offset,
        );
      }
      return this.#encode(value.value, type);
    }
    const writer = this.#writer;
    if (isInteger(type.op)) return this.#encodeInteger(value, type);
    if (isFloat(type.op)) return this.#encodeFloat(value, type);
    switch (type.op) {
      case Op.NULL:
        if (value.kind !== 'null') throw this.#mismatch(value, type);
        return;
      case Op.RESERVED:
        return;
      case Op.BOOL:
        if (value.kind !== 'bool') throw this.#mismatch(value, type);
        return writer.writeByte(value.value ? 1 : 0);
      case Op.TEXT: {
        if (value.kind !== 'text') throw this.#mismatch(value, type);
        return this.#writeBytes(Buffer.from(this.#lexer.textOf(value.token), 'utf8'));
      }
      case Op.PRINCIPAL:
        if (value.kind !== 'principal' && value.kind !== 'service') throw this.#mismatch(value, type);
        return this.#writeReference(value.bytes);
      case Op.SERVICE:
        if (value.kind !== 'service') throw this.#mismatch(value, type);
        return this.#writeReference(value.bytes);
      case Op.FUNC:
        if (value.kind !== 'func') throw this.#mismatch(value, type);
        writer.writeByte(1);
        this.#writeReference(value.bytes);
        return this.#writeBytes(Buffer.from(value.method, 'utf8'));
      case Op.OPT:
        return this.#encodeOpt(value, type.inner);
      case Op.VEC:
        return this.#encodeVec(value, type);
      case Op.RECORD:
        if (value.kind !== 'record') throw this.#mismatch(value, type);
        return this.#encodeRecord(value.fields, type, value.offset);
      case Op.VARIANT: {
        if (value.kind !== 'variant') throw this.#mismatch(value, type);
        const index = type.fields.findIndex((field) => field.id === value.field.id);
        const tag = type.fields[index];
        if (tag === undefined)
          throw this.#lexer.fail(`unknown tag ${JSON.stringify(value.field.label)}`, value.field.offset);
        writer.writeLeb(index);
        return this.#encode(value.field.value, tag.type);
      }
      default:
        throw this.#mismatch(value, type);
    }
  }

  #writeBytes(bytes: Uint8Array): void {
    this.#writer.writeLeb(bytes.length);
    this.#writer.writeAll(bytes);
  }

  #writeReference(principal: Uint8Array): void {
    this.#writer.writeByte(1);
    this.#writeBytes(principal);
  }

  #encodeOpt(value: TextValue, inner: CandidType): void {
    if (value.kind === 'null') return this.#writer.writeByte(0);
    // A bare value stands for `opt value`, unless that is ambiguous.
    if (value.kind !== 'opt' && isNullable(inner))
      throw this.#lexer.fail(`expected "null" or "opt", found ${value.kind}`, value.offset);
    this.#writer.writeByte(1);
    this.#encode(value.kind === 'opt' ? value.value : value, inner);
  }

  #encodeVec(value: TextValue, type: CandidType): void {
    if (type.inner.op === Op.NAT8) {
      if (value.kind === 'blob') return this.#writeBytes(value.bytes);
      if (value.kind === 'text') return this.#writeBytes(Buffer.from(value.value, 'latin1'));
    }
    if (value.kind !== 'vec') throw this.#mismatch(value, type);
    this.#writer.writeLeb(value.values.length);
    for (const item of value.values) this.#encode(item, type.inner);
  }

  /**
   * Encodes a record. Fields that the type does not have are left out: by Candid's rules a record with more fields is
   * one with fewer.
   */
  #encodeRecord(fields: readonly TextField[], type: CandidType, offset: number): void {
    const given = new Map(fields.map((field) => [field.id, field]));
    for (const field of type.fields) {
      const known = given.get(field.id);
      this.#charge(1);
      if (known !== undefined) this.#encode(known.value, field.type);
      else if (field.type.op === Op.OPT) this.#writer.writeByte(0);
      else if (!isNullable(field.type))
        throw this.#lexer.fail(`the field ${JSON.stringify(field.label)} is missing`, offset);
    }
  }

  #encodeInteger(value: TextValue, type: CandidType): void {
    if (value.kind !== 'number' || !INTEGER.test(value.written)) throw this.#mismatch(value, type);
    if (value.written.length > BIGNUM_DIGITS_MAX)
      throw this.#lexer.fail(`the number has more than ${BIGNUM_DIGITS_MAX} digits`, value.offset);
    const number = parseInteger(value.written);
    if (type.op === Op.INT) return this.#writer.writeBigLeb(number, true);
    if (type.op === Op.NAT) {
      if (number < 0n) throw this.#lexer.fail('expected nat, found a negative number', value.offset);
      return this.#writer.writeBigLeb(number, false);
    }
    const [lowest, highest] = integerRange(type.op);
    if (number < lowest || number > highest) {
      throw this.#lexer.fail(`out of range: ${TYPE_NAMES[type.op]} goes from ${lowest} to ${highest}`, value.offset);
    }
    if (type.op === Op.NAT64 || type.op === Op.INT64) this.#writer.writeBigFixed64(number);
    else this.#writer.writeFixed(Number(number), (highest - lowest).toString(2).length / 8);
  }

  #encodeFloat(value: TextValue, type: CandidType): void {
    if (value.kind !== 'number') throw this.#mismatch(value, type);
    const bytes = type.op === Op.FLOAT32 ? 4 : 8;
    this.#writer.writeFloat(parseFloatText(value.written, bytes), bytes);
  }
}

const INTEGER = /^[+-]?(?:0[xX][0-9a-fA-F_]+|[0-9_]+)$/;

function parseInteger(written: string): bigint {
  const plain = written.replaceAll('_', '').replace(/^\+/, '');
  return plain.startsWith('-') ? -BigInt(plain.slice(1)) : BigInt(plain);
}

function parseFloatText(written: string, bytes: 4 | 8): number {
  if (written === 'nan') return Number.NaN;
  if (written.endsWith('inf')) return written.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const plain = written.replaceAll('_', '').replace(/^[+-]/, '');
  const size = /^0[xX]/.test(plain) ? hexFloat(plain, bytes) : decimalFloat(plain, bytes);
  return written.startsWith('-') ? -size : size;
}
