import { at } from '../../kernel/index.ts';
import { utf8Bytes, type ByteWriter } from './byte-writer.ts';
import {
  finiteFloat,
  encodeBase64,
  encodeBool,
  encodeEmpty,
  encodeNull,
  encodePrincipalText,
  encodeText,
  integerWriter,
  isFloat,
  isInteger,
  SPECIAL_FLOATS,
  type Encode,
} from './encode-values.ts';
import { unreachable } from './faults.ts';
import type { JsonReader } from './json-reader.ts';
import { KeyTable, startsWith } from './key-table.ts';
import { isBlob, isNullable, isTuple, Op, TYPE_NAMES, type CandidType } from './types.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './json-bytes.ts';

/*
 * JSON to Candid in the default encoding, compiled to one closure for each type.
 *
 * The closure of a type reads its JSON and writes its Candid in one pass. Two things do not fit one pass, and both are
 * corrected afterwards in the output: the length of a vec precedes its elements (one byte is left for it, and the
 * elements are moved if it needs more), and the fields of a record are in order of their ids, whatever the order of the
 * keys. The record notes where in the output each field's value starts and ends; if they came in another order or some
 * were missing, the values are lifted out and written again in order. Both are plain copies of bytes.
 */

/** The closure of one type; compiled when the type first occurs, which also handles recursive types. */
export interface EncodeSlot {
  run: Encode;
}

/** Gives each type of a graph its slot, and compiles it with `compile` on first use. */
export function slotsOf(compile: (type: CandidType) => Encode): (type: CandidType) => EncodeSlot {
  const slots = new Map<CandidType, EncodeSlot>();
  return (type) => {
    const known = slots.get(type);
    if (known !== undefined) return known;
    const slot: EncodeSlot = {
      run: (reader, writer) => {
        slot.run = compile(type);
        slot.run(reader, writer);
      },
    };
    slots.set(type, slot);
    return slot;
  };
}

/** Returns the closures of the default encoding. */
export function defaultEncoder(): (type: CandidType) => EncodeSlot {
  const slotOf = slotsOf((type) => compileDefault(type, slotOf));
  return slotOf;
}

function compileDefault(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  const { op } = type;
  if (isInteger(op)) return defaultInteger(op);
  if (isFloat(op)) return defaultFloat(op);
  switch (op) {
    case Op.NULL:
      return encodeNull;
    case Op.BOOL:
      return encodeBool;
    case Op.TEXT:
      return encodeText;
    case Op.RESERVED:
      return (reader) => reader.skipValue();
    case Op.EMPTY:
      return encodeEmpty;
    case Op.PRINCIPAL:
      return (reader, writer) => encodePrincipalText(reader, writer, 'a principal');
    case Op.SERVICE:
      return (reader, writer) => encodePrincipalText(reader, writer, "a service's principal");
    case Op.FUNC:
      return funcEncoder(undefined);
    case Op.OPT:
      return isNullable(type.inner) ? wrappedOpt(slotOf(type.inner)) : plainOpt(slotOf(type.inner));
    case Op.VEC:
      return isBlob(type) ? defaultBlob(slotOf(type.inner)) : vecEncoder(slotOf(type.inner));
    case Op.RECORD:
      return isTuple(type) ? tupleEncoder(type, slotOf) : recordEncoder(type, slotOf);
    case Op.VARIANT:
      return defaultVariant(type, slotOf);
    default:
      return unreachable(`no JSON for ${TYPE_NAMES[op]}`);
  }
}

function defaultInteger(op: Op): Encode {
  const name = TYPE_NAMES[op];
  const write = integerWriter(op);
  return (reader, writer) => write(reader, writer, reader.readInteger(name));
}

function defaultFloat(op: Op): Encode {
  const byteCount = op === Op.FLOAT32 ? 4 : 8;
  const expected = `${TYPE_NAMES[op]} as a number, "NaN", "Infinity" or "-Infinity"`;
  return (reader, writer) => {
    const first = reader.peek();
    if (first === QUOTE) {
      const special = SPECIAL_FLOATS.get(reader.readText());
      if (special === undefined) throw reader.fail(`expected ${expected}, found another string`);
      writer.writeFloat(special, byteCount);
    } else if (first === 0x2d || (first >= 0x30 && first <= 0x39)) {
      writer.writeFloat(finiteFloat(reader, op, reader.readNumber()), byteCount);
    } else {
      throw reader.unexpected(expected);
    }
  };
}

function plainOpt(inner: EncodeSlot): Encode {
  return (reader, writer) => {
    if (reader.takeWord('null')) {
      writer.writeByte(0);
      return;
    }
    const level = reader.enter();
    writer.writeByte(1);
    inner.run(reader, writer);
    reader.depth = level - 1;
  };
}

/** Encodes an opt of a type whose value may itself be null: `[]` or `[value]`. */
function wrappedOpt(inner: EncodeSlot): Encode {
  return (reader, writer) => {
    if (!reader.take(OPEN_BRACKET)) throw reader.unexpected('[] or [value], because the value may itself be null');
    const level = reader.enter();
    if (reader.take(CLOSE_BRACKET)) {
      writer.writeByte(0);
    } else {
      writer.writeByte(1);
      reader.path[level] = 0;
      inner.run(reader, writer);
      if (!reader.endOrComma(CLOSE_BRACKET)) throw reader.fail('expected [] or [value], found more than one value');
    }
    reader.depth = level - 1;
  };
}

export function vecEncoder(element: EncodeSlot): Encode {
  return (reader, writer) => {
    if (!reader.take(OPEN_BRACKET)) throw reader.unexpected('an array');
    const level = reader.enter();
    const countAt = writer.position;
    writer.writeByte(0);
    let count = 0;
    if (!reader.take(CLOSE_BRACKET)) {
      do {
        reader.path[level] = count++;
        element.run(reader, writer);
      } while (!reader.endOrComma(CLOSE_BRACKET));
    }
    writer.insertLeb(count, countAt);
    reader.depth = level - 1;
  };
}

function defaultBlob(element: EncodeSlot): Encode {
  const encodeArray = vecEncoder(element);
  return (reader, writer) => {
    const first = reader.peek();
    if (first === QUOTE) encodeBase64(reader, writer);
    else if (first === OPEN_BRACKET) encodeArray(reader, writer);
    else throw reader.unexpected('a blob as a base64 string or an array of bytes');
  };
}

/**
 * Encodes a JSON array with exactly one element for each type: the arguments themselves, and tuples. `absent` are the
 * Candid bytes that stand for the last elements where they are missing, one for each element that may be.
 */
export function sequenceEncoder(
  elements: readonly EncodeSlot[],
  noun: string,
  absent: readonly Uint8Array[] = [],
): Encode {
  const required = elements.length - absent.length;
  const expected = `an array of ${countsText(required, elements.length)} ${noun}${elements.length === 1 && required === 1 ? '' : 's'}`;
  const endWithout = (reader: JsonReader, writer: ByteWriter, level: number, count: number): void => {
    if (count < required) throw wrongCount(reader, level, expected, String(count));
    for (let missing = count - required; missing < absent.length; missing++)
      writer.writeAll(at(absent, missing, 'missing argument'));
  };
  return (reader, writer) => {
    if (!reader.take(OPEN_BRACKET)) throw reader.unexpected(expected);
    const level = reader.enter();
    let count = 0;
    if (!reader.take(CLOSE_BRACKET)) {
      do {
        const element = elements[count];
        if (element === undefined)
          throw wrongCount(reader, level, expected, reader.peek() < 0 ? reader.describe() : 'more');
        reader.path[level] = count++;
        element.run(reader, writer);
      } while (!reader.endOrComma(CLOSE_BRACKET));
    }
    if (count < elements.length) endWithout(reader, writer, level, count);
    reader.depth = level - 1;
  };
}

function countsText(least: number, most: number): string {
  if (least === most) return String(most);
  return `${least} ${most - least === 1 ? 'or' : 'to'} ${most}`;
}

function wrongCount(reader: JsonReader, level: number, expected: string, found: string): Error {
  reader.depth = level - 1;
  return reader.fail(`expected ${expected}, found ${found}`);
}

function tupleEncoder(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  return sequenceEncoder(
    type.fields.map((field) => slotOf(field.type)),
    'element',
  );
}

/** Returns the names of a type's fields for an error message. */
function listLabels(type: CandidType): string {
  const shown = type.fields.slice(0, 8).map((field) => field.label);
  if (shown.length === 0) return 'none';
  return shown.join(', ') + (type.fields.length > shown.length ? ', …' : '');
}

/**
 * Encodes the object of a record: each key once, none unknown, and none missing except `opt`, `null` and `reserved`.
 */
export function recordEncoder(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  const count = type.fields.length;
  const labels = type.fields.map((field) => field.label);
  const table = new KeyTable(labels);
  // Only labels that need no escapes in JSON: others must go through the tokenizer.
  const quotedKeys = labels.map((label) =>
    JSON.stringify(label) === `"${label}"` ? utf8Bytes(`${label}"`) : undefined,
  );
  const slots = type.fields.map((field) => slotOf(field.type));
  const isOptional = type.fields.map((field) => isNullable(field.type));
  const isOpt = type.fields.map((field) => field.type.op === Op.OPT);
  // The order of the keys in the last object: clients repeat themselves, so the next key is usually known in advance.
  const expectedOrder = Int32Array.from(labels.keys());

  function readKey(reader: JsonReader, position: number): number {
    if (reader.peek() !== QUOTE) throw reader.unexpected('a key in quotes');
    // `?? 0` and `?? -1` in this record: they run for every key, and the arrays have a place for each field.
    const guess = position < count ? (expectedOrder[position] ?? 0) : 0;
    const quoted = quotedKeys[guess];
    if (quoted !== undefined && startsWith(reader.bytes, reader.position + 1, quoted)) {
      reader.position += quoted.length + 1;
      return guess;
    }
    reader.readString();
    const found = table.find(reader.text, reader.textStart, reader.textEnd);
    if (found === -1) {
      throw reader.fail(`unknown field ${shortText(reader.textValue())}; the fields are ${listLabels(type)}`);
    }
    if (position < count) expectedOrder[position] = found;
    return found;
  }

  function arrange(reader: JsonReader, writer: ByteWriter, base: number, start: number): void {
    const { values } = reader.spans;
    // Limits quadratic work: moving bytes is cheap, but may happen once for each level.
    reader.charge((writer.position - start) >> 6);
    const lifted = writer.lift(start);
    for (let index = 0; index < count; index++) {
      const from = values[base + 2 * index] ?? -1;
      if (from !== -1) {
        writer.writeRange(lifted, from - start, (values[base + 2 * index + 1] ?? 0) - start);
      } else if (isOptional[index] !== true) {
        throw reader.fail(`missing field ${shortText(at(labels, index, 'label'))}`);
      } else if (isOpt[index] === true) {
        writer.writeByte(0);
      }
    }
  }

  return (reader, writer) => {
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected('an object');
    const level = reader.enter();
    reader.charge(count);
    const start = writer.position;
    const { spans } = reader;
    const base = spans.push(count);
    let seen = 0;
    let last = -1;
    let isOrdered = true;
    if (!reader.take(CLOSE_BRACE)) {
      do {
        reader.path[level] = undefined;
        const index = readKey(reader, seen);
        reader.path[level] = labels[index];
        if (spans.values[base + 2 * index] !== -1) throw reader.fail('duplicate key');
        reader.expect(COLON, '":"');
        spans.values[base + 2 * index] = writer.position;
        slots[index]?.run(reader, writer);
        spans.values[base + 2 * index + 1] = writer.position;
        if (index < last) isOrdered = false;
        last = index;
        seen++;
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    if (!isOrdered || seen !== count) arrange(reader, writer, base, start);
    spans.top = base;
    reader.depth = level - 1;
  };
}

export function shortText(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}

/** Returns a function that finds the tag that the reader's last string names. */
export function tagFinder(type: CandidType): (reader: JsonReader) => number {
  const table = new KeyTable(type.fields.map((field) => field.label));
  return (reader) => {
    const found = table.find(reader.text, reader.textStart, reader.textEnd);
    if (found === -1)
      throw reader.fail(`unknown tag ${shortText(reader.textValue())}; the tags are ${listLabels(type)}`);
    return found;
  };
}

function defaultVariant(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  const findTag = tagFinder(type);
  const labels = type.fields.map((field) => field.label);
  const slots = type.fields.map((field) => slotOf(field.type));
  const hasPayload = type.fields.map((field) => field.type.op !== Op.NULL);
  return (reader, writer) => {
    const first = reader.peek();
    if (first === QUOTE) {
      reader.readString();
      const index = findTag(reader);
      if (hasPayload[index] === true)
        throw reader.fail(`the tag ${shortText(at(labels, index, 'label'))} needs a value: {"tag": value}`);
      writer.writeLeb(index);
      return;
    }
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected('a variant as "tag" or {"tag": value}');
    const level = reader.enter();
    if (reader.peek() !== QUOTE) throw reader.unexpected('a variant with one tag, {"tag": value}');
    reader.readString();
    const index = findTag(reader);
    reader.path[level] = labels[index];
    reader.expect(COLON, '":"');
    writer.writeLeb(index);
    slots[index]?.run(reader, writer);
    if (!reader.endOrComma(CLOSE_BRACE)) {
      reader.path[level] = undefined;
      throw reader.fail('expected a variant with one tag, found more keys');
    }
    reader.depth = level - 1;
  };
}

/** Encodes a function reference, `{"principal": …, "method": …}`; with `marker` also `"$svc": marker`. */
export function funcEncoder(marker: string | undefined): Encode {
  const expected = `a function as {${marker === undefined ? '' : `"$svc":"${marker}",`}"principal":"…","method":"…"}`;
  return (reader, writer) => {
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected(expected);
    const level = reader.enter();
    const start = writer.position;
    let methodEnd = -1;
    let methodStart = -1;
    let hasPrincipal = false;
    let hasMarker = marker === undefined;
    if (!reader.take(CLOSE_BRACE)) {
      do {
        reader.path[level] = undefined;
        if (reader.peek() !== QUOTE) throw reader.unexpected('a key in quotes');
        const key = reader.readText();
        reader.expect(COLON, '":"');
        reader.path[level] = key;
        if (key === 'principal' && !hasPrincipal) {
          hasPrincipal = true;
          writer.writeByte(1);
          encodePrincipalText(reader, writer, 'a principal');
        } else if (key === 'method' && methodStart === -1) {
          methodStart = writer.position;
          encodeText(reader, writer);
          methodEnd = writer.position;
        } else if (key === '$svc' && !hasMarker) {
          hasMarker = true;
          if (reader.peek() !== QUOTE || reader.readText() !== marker)
            throw reader.fail(`expected ${JSON.stringify(marker)}`);
        } else {
          reader.path[level] = undefined;
          throw reader.fail(`expected ${expected}, found another or repeated key ${shortText(key)}`);
        }
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    if (!hasPrincipal || methodStart === -1 || !hasMarker) throw reader.fail(`expected ${expected}, found fewer keys`);
    if (methodStart === start) {
      const end = writer.position;
      const lifted = writer.lift(start);
      writer.writeRange(lifted, methodEnd - start, end - start);
      writer.writeRange(lifted, 0, methodEnd - start);
    }
    reader.depth = level - 1;
  };
}
