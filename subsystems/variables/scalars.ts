/** Scalars of Motoko's 64-bit runtime as JSON. Worker thread. */
import { type HeapReader, TAG, UnreadableHeap } from './heap-reader.ts';

/** Number of the bits of a scalar's payload, at the upper end, and the tag in the rest. */
const COMPACT: Readonly<Record<string, { readonly bits: bigint; readonly tag: bigint; readonly isSigned: boolean }>> = {
  Nat64: { bits: 60n, tag: 0b0100n, isSigned: false },
  Int64: { bits: 60n, tag: 0b1100n, isSigned: true },
  Nat32: { bits: 32n, tag: 0b01n << 30n, isSigned: false },
  Int32: { bits: 32n, tag: 0b11n << 30n, isSigned: true },
  Char: { bits: 21n, tag: 0b010n << 40n, isSigned: false },
  Nat16: { bits: 16n, tag: 0b01n << 46n, isSigned: false },
  Int16: { bits: 16n, tag: 0b11n << 46n, isSigned: true },
  Nat8: { bits: 8n, tag: 0b01n << 54n, isSigned: false },
  Int8: { bits: 8n, tag: 0b11n << 54n, isSigned: true },
};

/** Returns the JSON of a value of a type that has no parts. Throws UnreadableHeap. */
export function primitiveText(heap: HeapReader, value: bigint, name: string): string {
  switch (name) {
    case 'Null':
    case 'Any':
      return 'null';
    case 'Bool':
      if (value > 1n) throw new UnreadableHeap(`the scalar 0x${value.toString(16)} is no Bool`);
      return value === 1n ? 'true' : 'false';
    case 'Float':
      return floatText(heap, value);
    case 'Char': {
      const code = Number(compact(value, name));
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw new UnreadableHeap(`${code} is no character`);
      // A `Char` is a nat32 in Candid.
      return String(code);
    }
    case 'Nat64':
    case 'Int64':
      return integerText(heap.isPointer(value) ? boxed(heap, value, name) : compact(value, name));
    default:
      return integerText(compact(value, name));
  }
}

/** Returns a number up to 2^53 − 1 in size as it is, a larger one as a string. */
export function integerText(value: bigint): string {
  const isSafe = value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);
  return isSafe ? value.toString() : `"${value}"`;
}

function compact(value: bigint, name: string): bigint {
  const form = COMPACT[name];
  if (form === undefined) throw new UnreadableHeap(`a value of type ${name} cannot be read`);
  const shift = 64n - form.bits;
  if (BigInt.asUintN(Number(shift), value) !== form.tag)
    throw new UnreadableHeap(`the word 0x${value.toString(16)} is no ${name}`);
  return (form.isSigned ? BigInt.asIntN(64, value) : value) >> shift;
}

function boxed(heap: HeapReader, value: bigint, name: string): bigint {
  const isSigned = name === 'Int64';
  const bits = heap.part(heap.object(value, isSigned ? TAG.INT64 : TAG.NAT64), 0);
  return isSigned ? BigInt.asIntN(64, bits) : bits;
}

const WORD = new DataView(new ArrayBuffer(8));

function floatText(heap: HeapReader, value: bigint): string {
  WORD.setBigUint64(0, heap.part(heap.object(value, TAG.FLOAT), 0));
  const number = WORD.getFloat64(0);
  if (!Number.isFinite(number)) return `"${number}"`;
  return Object.is(number, -0) ? '-0' : String(number);
}
