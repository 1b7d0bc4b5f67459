import type { ByteWriter } from './byte-writer.ts';
import type { CandidReader } from './candid-reader.ts';
import { decimalFloat } from './decimal-float.ts';
import { BACKSLASH, QUOTE } from './json-bytes.ts';

/* Writes single values from Candid as JSON text. */

const HEX = Buffer.from('0123456789abcdef');

/**
 * Letter of the escape of each byte that JSON escapes by a letter; 117 (`u`) for other control characters; 0: no
 * escape.
 */
const ESCAPE_LETTER = new Uint8Array(256);
ESCAPE_LETTER.fill(0x75, 0, 0x20);
for (const [letter, plain] of Object.entries({ '"': '"', '\\': '\\', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' })) {
  ESCAPE_LETTER[plain.charCodeAt(0)] = letter.charCodeAt(0);
}

/**
 * Writes a range of a message, which must be UTF-8, as a JSON string. `?? 0`: used for every byte, in loops that end
 * with the range.
 */
export function writeJsonString(reader: CandidReader, writer: ByteWriter, start: number, end: number): void {
  const { bytes } = reader;
  let escapes = 0;
  let high = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    high |= byte;
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH) escapes++;
  }
  if (high >= 0x80) reader.checkUtf8(start, end);
  writer.reserve(end - start + 2 + escapes * 5);
  writer.bytes[writer.position++] = QUOTE;
  if (escapes === 0) writer.writeRange(bytes, start, end);
  else writeEscaped(bytes, writer, start, end);
  writer.writeByte(QUOTE);
}

function writeEscaped(source: Uint8Array, writer: ByteWriter, start: number, end: number): void {
  const { bytes } = writer;
  let to = writer.position;
  for (let at = start; at < end; at++) {
    const byte = source[at] ?? 0;
    const letter = ESCAPE_LETTER[byte] ?? 0;
    if (letter === 0) {
      bytes[to++] = byte;
      continue;
    }
    bytes[to++] = BACKSLASH;
    bytes[to++] = letter;
    if (letter === 0x75) {
      bytes[to++] = 0x30;
      bytes[to++] = 0x30;
      bytes[to++] = HEX[byte >> 4] ?? 0;
      bytes[to++] = HEX[byte & 15] ?? 0;
    }
  }
  writer.position = to;
}

/** Writes an integer in decimal, without quotes. */
export function writeInteger(writer: ByteWriter, value: number | bigint): void {
  if (typeof value === 'number') {
    if (value < 0) {
      writer.writeByte(0x2d);
      writer.writeDigits(-value);
    } else {
      writer.writeDigits(value);
    }
  } else {
    writer.writeAscii(value.toString());
  }
}

/**
 * Returns the shortest decimal text that yields the same double; `-0` for negative zero, and the names of the special
 * values.
 */
export function floatText(value: number): string {
  return value === 0 && 1 / value < 0 ? '-0' : String(value);
}

/** Smallest float32 with the usual number of significant digits. */
const FLOAT32_NORMAL_MIN = 2 ** -126;
/** Below this a double prints integers as plain digits, and a float32 represents them exactly. */
const FLOAT32_INTEGER_MAX = 2 ** 24;

/** Returns the shortest decimal text that yields the same float32. */
export function float32Text(value: number): string {
  if (!Number.isFinite(value) || (Number.isInteger(value) && Math.abs(value) < FLOAT32_INTEGER_MAX))
    return floatText(value);
  // Six digits always survive the conversion; shorter numbers end in zeros, which `Number` drops.
  const first = Math.abs(value) < FLOAT32_NORMAL_MIN ? 1 : 6;
  for (let digits = first; digits < 9; digits++) {
    const candidate = value.toPrecision(digits);
    if (decimalFloat(candidate, 4) === value) return String(Number(candidate));
  }
  return String(Number(value.toPrecision(9)));
}
