/**
 * Encoders of Candid messages whose types are fixed in the program: directly from the value, without JSON in between. A
 * type is composed of the parts below like the value's type in TypeScript, and the compiler keeps the two equal:
 *
 *     const HEADER = record<Header>({ name: text, value: text });
 *     const candidOf = messageOf(vec(HEADER));
 *
 * The value is walked twice: once for its size, and once to write it. Only for values that the program made or has
 * checked: input in JSON or text goes through a tuple's codec, which names the place of a fault.
 */
import { IDL } from '@dfinity/candid';
import { unreachable } from './faults.ts';
import { lebSize, LOOP_CHARACTERS_MAX, SizedOutput } from './sized-output.ts';
import { encodeHeader } from './type-table.ts';
import { graphOfTypes, hashName } from './types.ts';

/** Candid encoding of one TypeScript type. */
interface KnownType<Value> {
  readonly idl: IDL.Type;
  /** Returns the bytes of a value, without its type. */
  size(value: Value): number;
  write(value: Value, output: SizedOutput): void;
}

/** A number from 0 to 2^53 - 1. */
export const nat: KnownType<number> = {
  idl: IDL.Nat,
  size: lebSize,
  write: (value, output) => output.writeLeb(value),
};

/** Text in UTF-8; a lone surrogate is replaced, as usual. */
export const text: KnownType<string> = {
  idl: IDL.Text,
  size(value) {
    const length = utf8Length(value);
    return lebSize(length) + length;
  },
  write(value, output) {
    const { length } = value;
    if (length > LOOP_CHARACTERS_MAX) {
      output.writeLeb(Buffer.byteLength(value));
      output.position += output.bytes.write(value, output.position);
      return;
    }
    const { bytes } = output;
    const start = output.position + 1;
    for (let at = 0; at < length; at++) {
      const code = value.charCodeAt(at);
      if (code > 127) {
        // At most three bytes for each character: the length still fits into one byte.
        const written = bytes.write(value, start);
        bytes[start - 1] = written;
        output.position = start + written;
        return;
      }
      bytes[start + at] = code;
    }
    bytes[start - 1] = length;
    output.position = start + length;
  },
};

export const blob: KnownType<Uint8Array> = {
  idl: IDL.Vec(IDL.Nat8),
  size: ({ length }) => lebSize(length) + length,
  write(value, output) {
    output.writeLeb(value.length);
    output.writeBytes(value);
  },
};

export function vec<Value>(element: KnownType<Value>): KnownType<readonly Value[]> {
  return {
    idl: IDL.Vec(element.idl),
    size(values) {
      let size = lebSize(values.length);
      for (const value of values) size += element.size(value);
      return size;
    },
    write(values, output) {
      output.writeLeb(values.length);
      for (const value of values) element.write(value, output);
    },
  };
}

/** A record with these fields of the value; other fields of the value are left out. */
export function record<Value extends object>(fields: {
  readonly [Name in keyof Value & string]: KnownType<Value[Name]>;
}): KnownType<Value> {
  const names = Object.keys(fields) as (keyof Value & string)[];
  // Order in messages: by the hashes of the names.
  const inOrder = names
    .sort((left, right) => hashName(left) - hashName(right))
    .map((name) => ({ name, type: fields[name] }));
  return {
    idl: IDL.Record(Object.fromEntries(inOrder.map(({ name, type }) => [name, type.idl]))),
    size(value) {
      let size = 0;
      for (const { name, type } of inOrder) size += type.size(value[name]);
      return size;
    },
    write(value, output) {
      for (const { name, type } of inOrder) type.write(value[name], output);
    },
  };
}

/**
 * Returns a function that encodes one value of this type. Each message has a buffer of its own, which may be
 * transferred to another thread.
 */
export function messageOf<Value>(type: KnownType<Value>): (value: Value) => Uint8Array {
  const head = encodeHeader(graphOfTypes([type.idl]));
  return (value) => {
    const output = new SizedOutput(Buffer.allocUnsafeSlow(head.length + type.size(value)), head);
    type.write(value, output);
    // Unwritten bytes would be those of another message.
    if (output.position !== output.bytes.length)
      unreachable(`a message of ${output.bytes.length} bytes has ${output.position}`);
    return output.bytes;
  };
}

function utf8Length(value: string): number {
  const { length } = value;
  if (length > LOOP_CHARACTERS_MAX) return Buffer.byteLength(value);
  for (let at = 0; at < length; at++) if (value.charCodeAt(at) > 127) return Buffer.byteLength(value);
  return length;
}
