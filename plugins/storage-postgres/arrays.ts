/** Arrays as the database takes them in binary, which spares it and us the text of a mebibyte of bytes. */

const HEADER_BYTES = 20;
const BYTEA = 17;
const INT2 = 21;
const INT4 = 23;
const TEXT = 25;

export const byteaArray = (values: readonly Uint8Array[]): Buffer => bytesArray(values, BYTEA);
export const textArray = (values: readonly string[]): Buffer =>
  bytesArray(
    values.map((value) => Buffer.from(value)),
    TEXT,
  );

function bytesArray(values: readonly Uint8Array[], type: number): Buffer {
  let length = HEADER_BYTES;
  for (const value of values) length += 4 + value.length;
  const array = startArray(Buffer.allocUnsafe(length), type, values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    array.writeInt32BE(value.length, at);
    array.set(value, at + 4);
    at += 4 + value.length;
  }
  return array;
}

export const int2Array = (values: readonly number[]): Buffer => intArray(values, INT2, 2);
export const int4Array = (values: readonly number[]): Buffer => intArray(values, INT4, 4);

function intArray(values: readonly number[], type: number, width: number): Buffer {
  const array = startArray(Buffer.allocUnsafe(HEADER_BYTES + (4 + width) * values.length), type, values.length);
  for (const [index, value] of values.entries()) {
    const at = HEADER_BYTES + (4 + width) * index;
    array.writeInt32BE(width, at);
    array.writeIntBE(value, at + 4, width);
  }
  return array;
}

/** Dimensions · has nulls · type of the elements · their number · the first one's index. */
function startArray(array: Buffer, type: number, count: number): Buffer {
  array.writeInt32BE(1, 0);
  array.writeInt32BE(0, 4);
  array.writeUInt32BE(type, 8);
  array.writeInt32BE(count, 12);
  array.writeInt32BE(1, 16);
  return array;
}
