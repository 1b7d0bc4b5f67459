import { at } from '../../kernel/index.ts';
import { utf8Bytes, type ByteWriter } from './byte-writer.ts';
import {
  encodeBase64,
  encodeBool,
  encodeEmpty,
  encodeNull,
  encodePrincipalText,
  encodeText,
  finiteFloat,
  integerWriter,
  isFloat,
  isInteger,
  SPECIAL_FLOATS,
  type Encode,
} from './encode-values.ts';
import {
  funcEncoder,
  recordEncoder,
  shortText,
  slotsOf,
  tagFinder,
  vecEncoder,
  type EncodeSlot,
} from './encode-json.ts';
import { unreachable } from './faults.ts';
import type { JsonReader } from './json-reader.ts';
import { startsWith } from './key-table.ts';
import { isBlob, Op, TYPE_NAMES, type CandidType } from './types.ts';
import { CLOSE_BRACE, COLON, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './json-bytes.ts';

/*
 * JSON to Candid in the lossless encoding, compiled to one closure for each type.
 *
 * A value that JSON cannot express is an object with the marker key `$svc`. Its keys may come in any order, but the
 * marker first is the usual and the fast one.
 */

/** The key that marks an object as a Candid value of the named kind. */
export const MARKER = '$svc';

const DECIMAL = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
/** Tags that are tried one after the other before the object is read key by key. */
const GUESSED_TAGS_MAX = 8;
/** No double needs more characters than this to be distinguished. */
const FLOAT_CHARACTERS_MAX = 1_100;

/** Returns the closures of the lossless encoding. */
export function losslessEncoder(): (type: CandidType) => EncodeSlot {
  const slotOf = slotsOf((type) => compileLossless(type, slotOf));
  return slotOf;
}

function compileLossless(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  const { op } = type;
  const name = TYPE_NAMES[op];
  if (isInteger(op)) {
    const write = integerWriter(op);
    return marked(name, (reader, writer) => {
      if (reader.peek() !== QUOTE) throw reader.unexpected(`${name} as a decimal string`);
      reader.readString();
      write(reader, writer, reader.textToInteger(name));
    });
  }
  if (isFloat(op)) return marked(name, losslessFloat(op));
  switch (op) {
    case Op.NULL:
      return encodeNull;
    case Op.BOOL:
      return encodeBool;
    case Op.TEXT:
      return encodeText;
    case Op.RESERVED:
      return marked(name, undefined);
    case Op.EMPTY:
      return encodeEmpty;
    case Op.PRINCIPAL:
      return marked(name, (reader, writer) => encodePrincipalText(reader, writer, 'a principal'));
    case Op.SERVICE:
      return marked(name, (reader, writer) => encodePrincipalText(reader, writer, "a service's principal"));
    case Op.FUNC:
      return funcEncoder(name);
    case Op.OPT:
      return losslessOpt(slotOf(type.inner));
    case Op.VEC:
      return isBlob(type) ? losslessBlob(slotOf(type.inner)) : vecEncoder(slotOf(type.inner));
    case Op.RECORD: {
      const fields = recordEncoder(type, slotOf);
      return type.fields.some((field) => field.label === MARKER) ? marked('record', fields) : fields;
    }
    case Op.VARIANT:
      return losslessVariant(type, slotOf);
    default:
      return unreachable(`no JSON for ${name}`);
  }
}

/** Encodes `{"$svc": kind, "value": …}`, or the same without a value. */
function marked(kind: string, encodeValue: Encode | undefined): Encode {
  const expected = `{"${MARKER}":"${kind}"${encodeValue === undefined ? '' : ',"value":…'}}`;
  const usual = utf8Bytes(`{"${MARKER}":"${kind}"${encodeValue === undefined ? '' : ',"value":'}`);
  return (reader, writer) => {
    if (reader.peek() === OPEN_BRACE && startsWith(reader.bytes, reader.position, usual)) {
      // The usual form without blanks needs no second look.
      const level = reader.enter();
      reader.position += usual.length;
      encodeValue?.(reader, writer);
      if (!reader.endOrComma(CLOSE_BRACE)) throw reader.fail(`expected ${expected}, found more keys`);
      reader.depth = level - 1;
      return;
    }
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected(expected);
    const level = reader.enter();
    let hasMarker = false;
    let hasValue = encodeValue === undefined;
    if (!reader.take(CLOSE_BRACE)) {
      do {
        const key = readKey(reader, level);
        if (key === MARKER && !hasMarker) {
          hasMarker = true;
          expectKind(reader, kind);
        } else if (key === 'value' && !hasValue) {
          hasValue = true;
          // The path is the user's view of the value, in which the wrapping is no step.
          reader.path[level] = undefined;
          encodeValue?.(reader, writer);
        } else {
          throw wrongKey(reader, level, expected, key);
        }
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    if (!hasMarker || !hasValue) throw reader.fail(`expected ${expected}, found fewer keys`);
    reader.depth = level - 1;
  };
}

function readKey(reader: JsonReader, level: number): string {
  reader.path[level] = undefined;
  if (reader.peek() !== QUOTE) throw reader.unexpected('a key in quotes');
  const key = reader.readText();
  reader.expect(COLON, '":"');
  reader.path[level] = key;
  return key;
}

function wrongKey(reader: JsonReader, level: number, expected: string, key: string): Error {
  reader.path[level] = undefined;
  return reader.fail(`expected ${expected}, found another or repeated key ${shortText(key)}`);
}

function expectKind(reader: JsonReader, ...kinds: readonly string[]): string {
  const expected = kinds.map((kind) => `"${kind}"`).join(' or ');
  if (reader.peek() !== QUOTE) throw reader.unexpected(expected);
  const found = reader.readText();
  if (!kinds.includes(found)) throw reader.fail(`expected ${expected}, found ${shortText(found)}`);
  return found;
}

function losslessFloat(op: Op): Encode {
  const byteCount = op === Op.FLOAT32 ? 4 : 8;
  const expected = `${TYPE_NAMES[op]} as a decimal string, "NaN", "Infinity" or "-Infinity"`;
  return (reader, writer) => {
    if (reader.peek() !== QUOTE) throw reader.unexpected(expected);
    const text = reader.readText();
    const special = SPECIAL_FLOATS.get(text);
    if (special !== undefined) {
      writer.writeFloat(special, byteCount);
    } else {
      if (text.length > FLOAT_CHARACTERS_MAX || !DECIMAL.test(text)) throw reader.fail(`expected ${expected}`);
      writer.writeFloat(finiteFloat(reader, op, text), byteCount);
    }
  };
}

function losslessOpt(inner: EncodeSlot): Encode {
  const expected = '{"$svc":"none"} or {"$svc":"some","value":…}';
  const none = utf8Bytes(`{"${MARKER}":"none"}`);
  const some = utf8Bytes(`{"${MARKER}":"some","value":`);
  return (reader, writer) => {
    if (reader.peek() === OPEN_BRACE) {
      if (startsWith(reader.bytes, reader.position, none)) {
        reader.position += none.length;
        writer.writeByte(0);
        return;
      }
      if (startsWith(reader.bytes, reader.position, some)) {
        const level = reader.enter();
        reader.position += some.length;
        writer.writeByte(1);
        inner.run(reader, writer);
        if (!reader.endOrComma(CLOSE_BRACE)) throw reader.fail(`expected ${expected}, found other keys`);
        reader.depth = level - 1;
        return;
      }
    }
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected(expected);
    const level = reader.enter();
    const flagAt = writer.position;
    writer.writeByte(0);
    let kind: string | undefined;
    let hasValue = false;
    if (!reader.take(CLOSE_BRACE)) {
      do {
        const key = readKey(reader, level);
        if (key === MARKER && kind === undefined) {
          kind = expectKind(reader, 'none', 'some');
        } else if (key === 'value' && !hasValue) {
          hasValue = true;
          reader.path[level] = undefined;
          inner.run(reader, writer);
        } else {
          throw wrongKey(reader, level, expected, key);
        }
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    if (kind === undefined || hasValue !== (kind === 'some'))
      throw reader.fail(`expected ${expected}, found other keys`);
    if (hasValue) writer.bytes[flagAt] = 1;
    reader.depth = level - 1;
  };
}

/** Encodes a blob. Also accepts an array of marked bytes, because an untyped `vec` of them has this form. */
function losslessBlob(element: EncodeSlot): Encode {
  const encodeArray = vecEncoder(element);
  const encodeMarked = marked('blob', (reader, writer) => {
    if (reader.peek() !== QUOTE) throw reader.unexpected('a base64 string');
    encodeBase64(reader, writer);
  });
  return (reader, writer) => {
    if (reader.peek() === OPEN_BRACKET) encodeArray(reader, writer);
    else encodeMarked(reader, writer);
  };
}

function losslessVariant(type: CandidType, slotOf: (type: CandidType) => EncodeSlot): Encode {
  const findTag = tagFinder(type);
  const labels = type.fields.map((field) => field.label);
  const slots = type.fields.map((field) => slotOf(field.type));
  const hasPayload = type.fields.map((field) => field.type.op !== Op.NULL);
  const expected = '{"$svc":"variant","tag":"…","value":…}';
  // The usual text of the object up to its value, for the first tags.
  const guesses = labels
    .slice(0, GUESSED_TAGS_MAX)
    .map((label) => utf8Bytes(`{"${MARKER}":"variant","tag":${JSON.stringify(label)},"value":`));

  function encodePayload(reader: JsonReader, writer: ByteWriter, level: number, index: number): void {
    reader.path[level] = labels[index];
    slots[index]?.run(reader, writer);
  }

  return (reader, writer) => {
    if (reader.peek() === OPEN_BRACE) {
      const guess = guesses.findIndex((start) => startsWith(reader.bytes, reader.position, start));
      if (guess !== -1) {
        const level = reader.enter();
        reader.position += at(guesses, guess, 'guess').length;
        writer.writeLeb(guess);
        encodePayload(reader, writer, level, guess);
        if (!reader.endOrComma(CLOSE_BRACE)) {
          reader.path[level] = undefined;
          throw reader.fail(`expected ${expected}, found more keys`);
        }
        reader.depth = level - 1;
        return;
      }
    }
    if (!reader.take(OPEN_BRACE)) throw reader.unexpected(expected);
    const level = reader.enter();
    let hasMarker = false;
    let tag = -1;
    let hasValue = false;
    let valueAt = -1;
    if (!reader.take(CLOSE_BRACE)) {
      do {
        const key = readKey(reader, level);
        if (key === MARKER && !hasMarker) {
          hasMarker = true;
          expectKind(reader, 'variant');
        } else if (key === 'tag' && tag === -1) {
          if (reader.peek() !== QUOTE) throw reader.unexpected('a tag in quotes');
          reader.readString();
          tag = findTag(reader);
          writer.writeLeb(tag);
        } else if (key === 'value' && !hasValue) {
          hasValue = true;
          if (tag === -1) {
            // The tag comes later and decides the type, so the value is read again afterwards. Reading it twice is
            // charged.
            valueAt = reader.position;
            reader.skipValue();
            reader.charge((reader.position - valueAt) >> 3);
          } else {
            encodePayload(reader, writer, level, tag);
          }
        } else {
          throw wrongKey(reader, level, expected, key);
        }
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    if (!hasMarker || tag === -1) throw reader.fail(`expected ${expected}, found fewer keys`);
    if (!hasValue && hasPayload[tag] === true)
      throw reader.fail(`the tag ${shortText(at(labels, tag, 'label'))} needs a value`);
    if (valueAt !== -1) {
      const end = reader.position;
      reader.position = valueAt;
      encodePayload(reader, writer, level, tag);
      reader.position = end;
    }
    reader.depth = level - 1;
  };
}
