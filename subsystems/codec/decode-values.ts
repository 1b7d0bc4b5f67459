import { writeBase64 } from './base64.ts';
import { utf8Bytes, type ByteWriter } from './byte-writer.ts';
import type { CandidReader } from './candid-reader.ts';
import { MARKER } from './encode-lossless.ts';
import { unreachable } from './faults.ts';
import { float32Text, floatText, writeInteger, writeJsonString } from './json-output.ts';
import { PRINCIPAL_CHARACTERS_MAX, writePrincipalText } from '../ic/index.ts';
import { Op, TYPE_NAMES } from './types.ts';

/* Single values from Candid to JSON, in either encoding: one closure for each type, made when a plan is compiled. */

/** Reads one Candid value and writes it as JSON. Returns false if it does not fit; `reader.mismatch` says why. */
export type Decode = (reader: CandidReader, writer: ByteWriter) => boolean;

export function mismatch(reason: string): Decode {
  return (reader) => {
    reader.charge(1);
    reader.mismatch = reason;
    return false;
  };
}

export function constant(text: string): Decode {
  const bytes = utf8Bytes(text);
  return (reader, writer) => {
    reader.charge(1);
    writer.writeAll(bytes);
    return true;
  };
}

const TRUE = utf8Bytes('true');
const FALSE = utf8Bytes('false');

export const decodeBool: Decode = (reader, writer) => {
  reader.charge(1);
  writer.writeAll(reader.readFlag('a bool') ? TRUE : FALSE);
  return true;
};

export const decodeText: Decode = (reader, writer) => {
  reader.charge(1);
  const length = reader.readByteCount('a text');
  const start = reader.position;
  reader.position = start + length;
  writeJsonString(reader, writer, start, start + length);
  return true;
};

/** Returns the reader for integers of one type. */
export function integerReader(op: Op): (reader: CandidReader) => number | bigint {
  switch (op) {
    case Op.NAT:
      return (reader) => reader.readLebInteger(false);
    case Op.INT:
      return (reader) => reader.readLebInteger(true);
    case Op.NAT64:
      return (reader) => reader.readFixed64(false);
    case Op.INT64:
      return (reader) => reader.readFixed64(true);
    case Op.NAT8:
    case Op.NAT16:
    case Op.NAT32: {
      const byteCount = 2 ** (Op.NAT8 - op);
      return (reader) => reader.readFixed(byteCount, false);
    }
    case Op.INT8:
    case Op.INT16:
    case Op.INT32: {
      const byteCount = 2 ** (Op.INT8 - op);
      return (reader) => reader.readFixed(byteCount, true);
    }
    default:
      return unreachable('not an integer type');
  }
}

export function integerDecoder(wire: Op, expected: Op, isLossless: boolean): Decode {
  const read = integerReader(wire);
  if (isLossless) {
    const open = utf8Bytes(`{"${MARKER}":"${TYPE_NAMES[expected]}","value":"`);
    const close = utf8Bytes('"}');
    return (reader, writer) => {
      reader.charge(1);
      const value = read(reader);
      writer.writeAll(open);
      writeInteger(writer, value);
      writer.writeAll(close);
      return true;
    };
  }
  return (reader, writer) => {
    reader.charge(1);
    const value = read(reader);
    if (typeof value === 'number') {
      writeInteger(writer, value);
    } else {
      writer.writeByte(0x22);
      writeInteger(writer, value);
      writer.writeByte(0x22);
    }
    return true;
  };
}

export function floatDecoder(op: Op, isLossless: boolean): Decode {
  const byteCount = op === Op.FLOAT32 ? 4 : 8;
  const toText = op === Op.FLOAT32 ? float32Text : floatText;
  const open = isLossless ? `{"${MARKER}":"${TYPE_NAMES[op]}","value":"` : '';
  const close = isLossless ? '"}' : '';
  return (reader, writer) => {
    reader.charge(1);
    const value = reader.readFloat(byteCount);
    const text = toText(value);
    if (!isLossless && !Number.isFinite(value)) writer.writeAscii(`"${text}"`);
    else writer.writeAscii(open + text + close);
    return true;
  };
}

function writePrincipal(writer: ByteWriter, principal: Uint8Array): void {
  writer.reserve(PRINCIPAL_CHARACTERS_MAX);
  writer.position = writePrincipalText(principal, 0, principal.length, writer.bytes, writer.position);
}

export function principalDecoder(isLossless: boolean, kind: string): Decode {
  const open = utf8Bytes(isLossless ? `{"${MARKER}":"${kind}","value":"` : '"');
  const close = utf8Bytes(isLossless ? '"}' : '"');
  return (reader, writer) => {
    reader.charge(1);
    const principal = reader.readPrincipal();
    writer.writeAll(open);
    writePrincipal(writer, principal);
    writer.writeAll(close);
    return true;
  };
}

export function funcDecoder(isLossless: boolean): Decode {
  const open = utf8Bytes(isLossless ? `{"${MARKER}":"func","principal":"` : '{"principal":"');
  const middle = utf8Bytes('","method":');
  return (reader, writer) => {
    reader.charge(1);
    if (!reader.readFlag('a func')) throw reader.fail('an opaque reference cannot be shown');
    const principal = reader.readPrincipal();
    writer.writeAll(open);
    writePrincipal(writer, principal);
    writer.writeAll(middle);
    decodeText(reader, writer);
    writer.writeByte(0x7d);
    return true;
  };
}

/** Returns the decoder of a blob; a vec of any other type fits only if it is empty. */
export function blobDecoder(isBlob: boolean, isLossless: boolean): Decode {
  const open = utf8Bytes(isLossless ? `{"${MARKER}":"blob","value":"` : '"');
  const close = utf8Bytes(isLossless ? '"}' : '"');
  return (reader, writer) => {
    reader.charge(1);
    const count = isBlob ? reader.readByteCount('a blob') : reader.readLength('a vec');
    if (!isBlob && count > 0) {
      reader.mismatch = 'expected a blob, found a vec of another type';
      return false;
    }
    writer.writeAll(open);
    writeBase64(writer, reader.bytes, reader.position, reader.position + count);
    reader.position += count;
    writer.writeAll(close);
    return true;
  };
}
