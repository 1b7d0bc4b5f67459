import { base64Length, writeFromBase64 } from './base64.ts';
import type { ByteWriter } from './byte-writer.ts';
import { decimalFloat } from './decimal-float.ts';
import { unreachable } from './faults.ts';
import type { JsonReader } from './json-reader.ts';
import { readPrincipalText } from '../ic/index.ts';
import { INTEGER_BYTES, Op, TYPE_NAMES } from './types.ts';

/*
 * Single values from JSON to Candid, for both encodings. Each function reads the value in its name from the reader,
 * checks it and writes it.
 */

/** Reads one JSON value and writes one Candid value. */
export type Encode = (reader: JsonReader, writer: ByteWriter) => void;
type WriteInteger = (reader: JsonReader, writer: ByteWriter, value: number | bigint) => void;

export function isInteger(op: Op): boolean {
  return op === Op.NAT || op === Op.INT || INTEGER_BYTES.has(op);
}

export function isFloat(op: Op): boolean {
  return op === Op.FLOAT32 || op === Op.FLOAT64;
}

/** Returns the smallest and largest value of a fixed-size integer type. */
export function integerRange(op: Op): readonly [bigint, bigint] {
  const bits = BigInt(INTEGER_BYTES.get(op) ?? unreachable('not a fixed-size integer')) * 8n;
  return op >= Op.NAT64 ? [0n, (1n << bits) - 1n] : [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n];
}

/** Returns the function that checks and writes integers of one type. */
export function integerWriter(op: Op): WriteInteger {
  if (op === Op.NAT) {
    return (reader, writer, value) => {
      if (value < 0) throw reader.fail(`expected nat, found the negative number ${shorten(value)}`);
      if (typeof value === 'number') writer.writeLeb(value);
      else writer.writeBigLeb(value, false);
    };
  }
  if (op === Op.INT) {
    return (_reader, writer, value) => {
      if (typeof value === 'number') writer.writeSleb(value);
      else writer.writeBigLeb(value, true);
    };
  }
  const byteCount = INTEGER_BYTES.get(op) ?? unreachable('not an integer type');
  const [lowest, highest] = integerRange(op);
  const lowestNumber = Number(lowest);
  const highestNumber = Number(highest);
  return (reader, writer, value) => {
    if (typeof value === 'number') {
      if (value < lowestNumber || value > highestNumber) throw outOfRange(reader, op, value);
      if (byteCount === 1) writer.writeByte(value & 255);
      else writer.writeFixed(value, byteCount);
    } else {
      if (value < lowest || value > highest) throw outOfRange(reader, op, value);
      writer.writeBigFixed64(value);
    }
  };
}

function outOfRange(reader: JsonReader, op: Op, value: number | bigint): Error {
  const [lowest, highest] = integerRange(op);
  return reader.fail(`${shorten(value)} is out of range: ${TYPE_NAMES[op]} goes from ${lowest} to ${highest}`);
}

function shorten(value: number | bigint): string {
  if (typeof value === 'bigint' && (value > 10n ** 40n || value < -(10n ** 40n)))
    return 'a number of more than 40 digits';
  return String(value);
}

/** Returns the float of a type that is nearest to a decimal number. Throws if the number is too large for the type. */
export function finiteFloat(reader: JsonReader, op: Op, written: string): number {
  const byteCount = op === Op.FLOAT32 ? 4 : 8;
  const value = decimalFloat(written, byteCount);
  if (Number.isFinite(value)) return value;
  const largest = byteCount === 4 ? '3.4028235e+38' : '1.7976931348623157e+308';
  throw reader.fail(
    `the number is out of range for ${TYPE_NAMES[op]}, which goes to ${largest}; infinity is written "Infinity"`,
  );
}

export const SPECIAL_FLOATS: ReadonlyMap<string, number> = new Map([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
]);

export const encodeBool: Encode = (reader, writer) => {
  if (reader.takeWord('true')) writer.writeByte(1);
  else if (reader.takeWord('false')) writer.writeByte(0);
  else throw reader.unexpected('bool');
};

export const encodeNull: Encode = (reader) => {
  if (!reader.takeWord('null')) throw reader.unexpected('null');
};

export const encodeText: Encode = (reader, writer) => {
  if (reader.peek() !== 0x22) throw reader.unexpected('text');
  reader.readString();
  reader.writeTextTo(writer);
};

export const encodeEmpty: Encode = (reader) => {
  throw reader.fail('no value has the type empty');
};

/** Writes the text of a principal as a reference: byte 1, length, bytes. */
export function encodePrincipalText(reader: JsonReader, writer: ByteWriter, what: string): void {
  if (reader.peek() !== 0x22) throw reader.unexpected(`${what} as text`);
  reader.readString();
  const principal = readPrincipalText(reader.text, reader.textStart, reader.textEnd);
  if (principal === undefined) {
    const text = reader.textValue();
    throw reader.fail(`expected ${what}, found ${JSON.stringify(text.length > 63 ? `${text.slice(0, 63)}…` : text)}`);
  }
  writer.writeByte(1);
  writer.writeByte(principal.length);
  writer.writeAll(principal);
}

/** Writes a base64 string with its length. */
export function encodeBase64(reader: JsonReader, writer: ByteWriter): void {
  reader.readString();
  const length = base64Length(reader.text, reader.textStart, reader.textEnd);
  if (length === -1) throw reader.fail('expected base64 with the standard letters and padding');
  writer.writeLeb(length);
  writeFromBase64(writer, reader.text, reader.textStart, reader.textEnd, length);
}
