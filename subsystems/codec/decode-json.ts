import { at } from '../../kernel/index.ts';
import { utf8Bytes, type ByteWriter } from './byte-writer.ts';
import type { CandidReader } from './candid-reader.ts';
import {
  blobDecoder,
  constant,
  decodeBool,
  decodeText,
  floatDecoder,
  funcDecoder,
  integerDecoder,
  mismatch,
  principalDecoder,
  type Decode,
} from './decode-values.ts';
import { MARKER } from './encode-lossless.ts';
import { isFloat, isInteger } from './encode-values.ts';
import { unreachable } from './faults.ts';
import { SkipTable } from './skip-candid.ts';
import { isSubtype } from './subtype.ts';
import { isNullable, isTuple, Op, TYPE_NAMES, type CandidField, type CandidType, type TypeGraph } from './types.ts';

/*
 * Candid to JSON: reads a value at its type in the message, coerces it to the expected type and prints it, compiled to
 * one closure for each pair of types that meet.
 *
 * A message brings its own types, but the replies of one method nearly always bring the same ones: a plan is made for a
 * message's head and used again as long as the head's bytes are the same. Within a plan a pair is compiled when a value
 * of it first occurs, which handles recursion and keeps the cost proportional to the types that the message really
 * uses.
 *
 * A closure returns true if the value fits the expected type. If not, it leaves reader and writer as they are, and the
 * nearest enclosing `opt` goes back, skips the value by its type in the message and writes none, as Candid demands. No
 * exceptions are used for that, since a message may hold a hundred thousand such values; and since the nearest `opt`
 * decides, a value is read at most once and skipped at most once. A message that is not Candid at all throws.
 */

interface DecodeSlot {
  run: Decode;
}

const COMMA = utf8Bytes(',');
/** Compiling a field takes 200 ns, reading a value 10. */
const WORK_PER_COMPILED_FIELD = 16;

/** The parts of the output that differ between the two encodings. */
interface Style {
  readonly isLossless: boolean;
  readonly none: string;
  readonly reserved: string;
}
const DEFAULT_STYLE: Style = { isLossless: false, none: 'null', reserved: 'null' };
const LOSSLESS_STYLE: Style = { isLossless: true, none: `{"${MARKER}":"none"}`, reserved: `{"${MARKER}":"reserved"}` };

export class DecodePlan {
  readonly #wire: TypeGraph;
  readonly #expected: TypeGraph;
  readonly #style: Style;
  readonly #slots = new Map<number, DecodeSlot>();
  readonly #skips: SkipTable;
  readonly #arguments: readonly {
    readonly label: number;
    readonly slot: DecodeSlot | undefined;
    readonly type: CandidType;
  }[];
  readonly #missing: readonly CandidType[];
  /** Fields for which the plan has readers so far; each takes some 80 bytes. */
  compiledFields = 0;

  /** Makes a plan for messages with the types `wire`, read as `expected`. */
  constructor(wire: TypeGraph, expected: TypeGraph, isLossless: boolean) {
    this.#wire = wire;
    this.#expected = expected;
    this.#style = isLossless ? LOSSLESS_STYLE : DEFAULT_STYLE;
    this.#skips = new SkipTable(wire.nodes.length);
    this.#arguments = wire.roots.map((type, label) => {
      const wanted = expected.roots[label];
      return { label, slot: wanted === undefined ? undefined : this.#slotOf(type, wanted), type };
    });
    this.#missing = expected.roots.slice(wire.roots.length);
  }

  /** Reads the values of a message to its end, and writes them as a JSON array. */
  run(reader: CandidReader, writer: ByteWriter): void {
    const level = reader.enter();
    writer.writeByte(0x5b);
    for (const { label, slot, type } of this.#arguments) {
      reader.path[level] = label;
      if (slot === undefined) {
        this.#skips.of(type).run(reader);
        continue;
      }
      if (label > 0) writer.writeByte(0x2c);
      if (!slot.run(reader, writer)) throw reader.fail(reader.mismatch);
    }
    for (const [index, type] of this.#missing.entries()) {
      if (!isNullable(type)) {
        reader.path[level] = undefined;
        throw reader.fail(`expected ${this.#expected.roots.length} values, found ${this.#wire.roots.length}`);
      }
      if (index + this.#wire.roots.length > 0) writer.writeByte(0x2c);
      writer.writeAscii(this.#absent(type));
    }
    writer.writeByte(0x5d);
    reader.depth = level - 1;
    if (reader.remaining > 0) throw reader.fail(`${reader.remaining} bytes are left over after the last value`);
  }

  /** Returns the text of a missing value of a nullable type. */
  #absent(type: CandidType): string {
    if (type.op === Op.NULL) return 'null';
    if (type.op === Op.RESERVED) return this.#style.reserved;
    return !this.#style.isLossless && isNullable(type.inner) ? '[]' : this.#style.none;
  }

  #slotOf(wire: CandidType, expected: CandidType): DecodeSlot {
    const key = wire.index * this.#expected.nodes.length + expected.index;
    const known = this.#slots.get(key);
    if (known !== undefined) return known;
    const slot: DecodeSlot = {
      run: (reader, writer) => {
        const fields = wire.fields.length + expected.fields.length;
        reader.charge(4 + WORK_PER_COMPILED_FIELD * fields);
        this.compiledFields += fields;
        slot.run = this.#compile(wire, expected, reader);
        return slot.run(reader, writer);
      },
    };
    this.#slots.set(key, slot);
    return slot;
  }

  #compile(wire: CandidType, expected: CandidType, reader: CandidReader): Decode {
    if (wire.op === Op.EMPTY) {
      return (from) => {
        throw from.fail('a value of the type empty cannot exist');
      };
    }
    if (expected.op === Op.RESERVED) {
      const skip = this.#skips.of(wire);
      const text = utf8Bytes(this.#style.reserved);
      return (from, writer) => {
        skip.run(from);
        writer.writeAll(text);
        return true;
      };
    }
    if (expected.op === Op.OPT) return this.#compileOpt(wire, expected);
    if (isInteger(expected.op) && (wire.op === expected.op || (wire.op === Op.NAT && expected.op === Op.INT))) {
      return integerDecoder(wire.op, expected.op, this.#style.isLossless);
    }
    if (expected.op === Op.PRINCIPAL && wire.op === Op.SERVICE)
      return principalDecoder(this.#style.isLossless, 'principal');
    if (wire.op !== expected.op) return mismatch(`expected ${TYPE_NAMES[expected.op]}, found ${TYPE_NAMES[wire.op]}`);
    return this.#compileSame(wire, expected, reader);
  }

  /** Compiles a pair of types with the same constructor. */
  #compileSame(wire: CandidType, expected: CandidType, reader: CandidReader): Decode {
    const { isLossless } = this.#style;
    if (isFloat(expected.op)) return floatDecoder(expected.op, isLossless);
    switch (expected.op) {
      case Op.NULL:
        return constant('null');
      case Op.BOOL:
        return decodeBool;
      case Op.TEXT:
        return decodeText;
      case Op.PRINCIPAL:
        return principalDecoder(isLossless, 'principal');
      case Op.SERVICE:
        return this.#reference(wire, expected, reader) ?? principalDecoder(isLossless, 'service');
      case Op.FUNC:
        return this.#reference(wire, expected, reader) ?? funcDecoder(isLossless);
      case Op.VEC:
        return this.#compileVec(wire, expected);
      case Op.RECORD:
        return this.#compileRecord(wire, expected);
      case Op.VARIANT:
        return this.#compileVariant(wire, expected);
      case Op.FUTURE:
        return mismatch('a value of a later Candid version cannot be shown');
      default:
        return unreachable(`no JSON for ${TYPE_NAMES[expected.op]}`);
    }
  }

  /** Returns a mismatch if a reference of the message's type may not stand for the expected one. */
  #reference(wire: CandidType, expected: CandidType, reader: CandidReader): Decode | undefined {
    if (wire === expected || isSubtype(wire, expected, (units) => reader.charge(units))) return undefined;
    return mismatch(`the ${TYPE_NAMES[wire.op]} has another signature than expected`);
  }

  #compileOpt(wire: CandidType, expected: CandidType): Decode {
    const { isLossless } = this.#style;
    const isWrapped = !isLossless && isNullable(expected.inner);
    const none = utf8Bytes(this.#absent(expected));
    const open = utf8Bytes(isLossless ? `{"${MARKER}":"some","value":` : isWrapped ? '[' : '');
    const close = utf8Bytes(isLossless ? '}' : isWrapped ? ']' : '');
    if (wire.op === Op.NULL || wire.op === Op.RESERVED) return constant(this.#absent(expected));
    const inner = wire.op === Op.OPT ? wire.inner : wire;
    const slot = this.#slotOf(inner, expected.inner);
    const skip = this.#skips.of(inner);
    const hasFlag = wire.op === Op.OPT;
    return (reader, writer) => {
      reader.charge(1);
      if (hasFlag && !reader.readFlag('an opt')) {
        writer.writeAll(none);
        return true;
      }
      const level = reader.enter();
      const from = reader.position;
      const to = writer.position;
      writer.writeAll(open);
      if (slot.run(reader, writer)) {
        writer.writeAll(close);
      } else {
        reader.position = from;
        reader.depth = level;
        writer.position = to;
        skip.run(reader);
        writer.writeAll(none);
      }
      reader.depth = level - 1;
      return true;
    };
  }

  #compileVec(wire: CandidType, expected: CandidType): Decode {
    if (expected.inner.op === Op.NAT8) return blobDecoder(wire.inner.op === Op.NAT8, this.#style.isLossless);
    const element = this.#slotOf(wire.inner, expected.inner);
    const skips = this.#skips;
    const wireElement = wire.inner;
    return (reader, writer) => {
      const count = reader.readLength('a vec');
      skips.checkCount(reader, wireElement, count);
      const level = reader.enter();
      writer.writeByte(0x5b);
      for (let index = 0; index < count; index++) {
        if (index > 0) writer.writeByte(0x2c);
        reader.path[level] = index;
        if (!element.run(reader, writer)) return false;
      }
      writer.writeByte(0x5d);
      reader.depth = level - 1;
      return true;
    };
  }

  #compileRecord(wire: CandidType, expected: CandidType): Decode {
    const layout = recordLayout(expected, this.#style.isLossless);
    const onWire = new Map(wire.fields.map((field, index) => [field.id, index]));
    // Text to be written before each field of the message's type; undefined: the field is not expected, and skipped.
    const prefixes: (string | undefined)[] = wire.fields.map(() => undefined);
    const wanted: (CandidField | undefined)[] = wire.fields.map(() => undefined);
    let text = layout.open;
    for (const [position, field] of expected.fields.entries()) {
      text += (position > 0 ? ',' : '') + layout.key(field);
      const index = onWire.get(field.id);
      if (index === undefined) {
        if (!isNullable(field.type)) return mismatch(`the field ${JSON.stringify(field.label)} is missing`);
        text += this.#absent(field.type);
      } else {
        prefixes[index] = text;
        wanted[index] = field;
        text = '';
      }
    }
    const close = utf8Bytes(text + layout.close);
    const steps = wire.fields.map((field, index) => {
      const target = wanted[index];
      const label = target?.label ?? field.label;
      return target === undefined
        ? { prefix: COMMA, label, slot: undefined, skip: this.#skips.of(field.type) }
        : {
            prefix: utf8Bytes(at(prefixes, index, 'prefix')),
            label,
            slot: this.#slotOf(field.type, target.type),
            skip: undefined,
          };
    });
    return (reader, writer) => {
      reader.charge(1);
      const level = reader.enter();
      for (let index = 0; index < steps.length; index++) {
        const step = steps[index];
        if (step === undefined) break;
        if (step.slot !== undefined) {
          writer.writeAll(step.prefix);
          reader.path[level] = step.label;
          if (!step.slot.run(reader, writer)) return false;
        } else {
          step.skip.run(reader);
        }
      }
      writer.writeAll(close);
      reader.depth = level - 1;
      return true;
    };
  }

  #compileVariant(wire: CandidType, expected: CandidType): Decode {
    const { isLossless } = this.#style;
    const tags = new Map(expected.fields.map((field) => [field.id, field]));
    const close = utf8Bytes('}');
    const cases = wire.fields.map((field) => {
      const target = tags.get(field.id);
      if (target === undefined) return { label: field.label, prefix: COMMA, slot: undefined };
      const key = JSON.stringify(target.label);
      const prefix = utf8Bytes(isLossless ? `{"${MARKER}":"variant","tag":${key},"value":` : `{${key}:`);
      return { label: target.label, prefix, slot: this.#slotOf(field.type, target.type) };
    });
    return (reader, writer) => {
      reader.charge(1);
      const index = reader.readLength('a variant');
      const chosen = cases[index];
      if (chosen === undefined) throw reader.fail(`the variant has tag ${index}, and only ${cases.length} tags exist`);
      if (chosen.slot === undefined) {
        reader.mismatch = `the tag ${chosen.label} is not one of the expected type`;
        return false;
      }
      const level = reader.enter();
      reader.path[level] = chosen.label;
      writer.writeAll(chosen.prefix);
      if (!chosen.slot.run(reader, writer)) return false;
      writer.writeAll(close);
      reader.depth = level - 1;
      return true;
    };
  }
}

/** Returns a record's brackets and keys. */
function recordLayout(
  expected: CandidType,
  isLossless: boolean,
): { readonly open: string; readonly close: string; readonly key: (field: CandidField) => string } {
  if (!isLossless && isTuple(expected)) return { open: '[', close: ']', key: () => '' };
  const key = (field: CandidField): string => `${JSON.stringify(field.label)}:`;
  const isMarked = isLossless && expected.fields.some((field) => field.label === MARKER);
  return isMarked ? { open: `{"${MARKER}":"record","value":{`, close: '}}', key } : { open: '{', close: '}', key };
}
