import { numberAt } from '../../kernel/index.ts';
import { OUTPUT_BYTES_BASE, OUTPUT_BYTES_MAX, OUTPUT_BYTES_PER_BYTE, quotaExceeded } from './faults.ts';

/*
 * The output of a conversion: one growable buffer, reused for every message, with a quota.
 *
 * The closures of a compiled codec write through it in small steps, so each step must cost nanoseconds: short copies
 * are loops (a `subarray` for `set` would cost more than the copy), only long ones use the engine's own.
 */

const START_BYTES = 64 * 1024;
/** A buffer that a large message has enlarged beyond this is released afterwards. */
const KEEP_BYTES_MAX = 4 * 1024 * 1024;
/** From this length on the engine's own copy is faster than a loop. */
const LOOP_BYTES_MAX = 48;

export function utf8Bytes(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'utf8'));
}

/** Bits that seven bytes of a LEB128 hold. */
const LOW_BITS = 49n;

/** Largest number of decimal digits that `writeDigits` writes: 2^53 has 16. */
const DIGITS_MAX = 16;

export class ByteWriter {
  bytes: Buffer = Buffer.from(new ArrayBuffer(START_BYTES));
  position = 0;
  #bytesMax = OUTPUT_BYTES_BASE;
  #scratch: Buffer = Buffer.from(new ArrayBuffer(1024));
  readonly #float = new DataView(new ArrayBuffer(8));

  /** Starts a new output for an input of `inputBytes`. */
  start(inputBytes: number): void {
    if (this.bytes.length > KEEP_BYTES_MAX) this.bytes = Buffer.from(new ArrayBuffer(START_BYTES));
    if (this.#scratch.length > KEEP_BYTES_MAX) this.#scratch = Buffer.from(new ArrayBuffer(1024));
    this.position = 0;
    this.#bytesMax = Math.min(OUTPUT_BYTES_BASE + inputBytes * OUTPUT_BYTES_PER_BYTE, OUTPUT_BYTES_MAX);
  }

  /** Returns a copy of the output so far. */
  finish(): Uint8Array {
    const result = new Uint8Array(this.position);
    copyBytes(this.bytes, 0, this.position, result, 0);
    return result;
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    if (this.position + count > this.bytes.length) this.#grow(this.position + count);
  }

  #grow(needed: number): void {
    if (needed > this.#bytesMax) {
      throw quotaExceeded(
        'output',
        `the result would pass ${this.#bytesMax} bytes, the most that an input of this length may become`,
      );
    }
    const grown = Buffer.from(new ArrayBuffer(Math.min(Math.max(needed, this.bytes.length * 2), this.#bytesMax + 64)));
    grown.set(this.bytes.subarray(0, this.position));
    this.bytes = grown;
  }

  writeByte(byte: number): void {
    if (this.position === this.bytes.length) this.#grow(this.position + 1);
    this.bytes[this.position++] = byte;
  }

  writeAll(source: Uint8Array): void {
    this.writeRange(source, 0, source.length);
  }

  writeRange(source: Uint8Array, start: number, end: number): void {
    const length = end - start;
    if (this.position + length > this.bytes.length) this.#grow(this.position + length);
    copyBytes(source, start, end, this.bytes, this.position);
    this.position += length;
  }

  /** Writes text that has only ASCII characters. */
  writeAscii(text: string): void {
    this.reserve(text.length);
    if (text.length > LOOP_BYTES_MAX) {
      this.position += this.bytes.write(text, this.position, 'latin1');
    } else {
      const { bytes } = this;
      let at = this.position;
      for (let index = 0; index < text.length; index++) bytes[at++] = text.charCodeAt(index);
      this.position = at;
    }
  }

  /** Writes a natural number below 2^53 in decimal. */
  writeDigits(value: number): void {
    this.reserve(DIGITS_MAX);
    const { bytes } = this;
    let rest = value;
    let length = 1;
    for (let power = 10; power <= rest; power *= 10) length++;
    let at = this.position + length;
    this.position = at;
    // Integer division of doubles is slow, so the part above 32 bits is written first.
    while (rest > 0xffff_ffff) {
      const quotient = Math.floor(rest / 10);
      bytes[--at] = 48 + (rest - quotient * 10);
      rest = quotient;
    }
    let small = rest >>> 0;
    do {
      const quotient = (small / 10) >>> 0;
      bytes[--at] = 48 + small - quotient * 10;
      small = quotient;
    } while (small !== 0);
  }

  /** Writes a natural number below 2^53 as LEB128. */
  writeLeb(value: number): void {
    this.reserve(8);
    let rest = value;
    while (rest > 0x7fff_ffff) {
      this.bytes[this.position++] = (rest & 127) | 128;
      rest = Math.floor(rest / 128);
    }
    while (rest > 127) {
      this.bytes[this.position++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.bytes[this.position++] = rest;
  }

  /** Writes an integer of at most 53 bits as signed LEB128. */
  writeSleb(value: number): void {
    this.reserve(9);
    let rest = value;
    for (;;) {
      const low = rest - Math.floor(rest / 128) * 128;
      rest = Math.floor(rest / 128);
      if ((rest === 0 && low < 64) || (rest === -1 && low >= 64)) {
        this.bytes[this.position++] = low;
        return;
      }
      this.bytes[this.position++] = low | 128;
    }
  }

  /** Writes an integer of any size as LEB128, signed if `isSigned` is true. */
  writeBigLeb(value: bigint, isSigned: boolean): void {
    const high = value >> LOW_BITS;
    // -1: the groups below may hold the sign already.
    if (high !== 0n && high !== -1n && high < Number.MAX_SAFE_INTEGER && high > Number.MIN_SAFE_INTEGER) {
      // Seven groups of 7 bits and the rest are plain numbers, for everything of up to 102 bits.
      this.reserve(16);
      let low = Number(BigInt.asUintN(49, value));
      for (let group = 0; group < 7; group++) {
        this.bytes[this.position++] = (low & 127) | 128;
        low = Math.floor(low / 128);
      }
      if (isSigned) this.writeSleb(Number(high));
      else this.writeLeb(Number(high));
      return;
    }
    // Two's complement in hexadecimal takes linear time; shifting a bigint step by step would be quadratic.
    const magnitudeBits = (value < 0n ? -value : value).toString(16).length * 4;
    const groups = Math.floor((magnitudeBits + (isSigned ? 1 : 0) + 6) / 7);
    const width = groups * 7;
    const hexDigits = Math.ceil(width / 4);
    const hex = BigInt.asUintN(width, value).toString(16).padStart(hexDigits, '0');
    const groupsOf7: number[] = [];
    let pending = 0;
    let pendingBits = 0;
    for (let index = hex.length - 1; index >= 0; index--) {
      pending |= Number.parseInt(hex.charAt(index), 16) << pendingBits;
      pendingBits += 4;
      if (pendingBits >= 7) {
        groupsOf7.push(pending & 127);
        pending >>>= 7;
        pendingBits -= 7;
      }
    }
    if (groupsOf7.length < groups) groupsOf7.push(pending & 127);
    groupsOf7.length = groups;
    // Drops groups that only repeat the sign.
    let last = groups - 1;
    while (last > 0) {
      const top = numberAt(groupsOf7, last, 'group of 7 bits');
      const below = numberAt(groupsOf7, last - 1, 'group of 7 bits');
      const isRedundant = isSigned ? (top === 0 && below < 64) || (top === 127 && below >= 64) : top === 0;
      if (!isRedundant) break;
      last--;
    }
    this.reserve(last + 1);
    for (let index = 0; index <= last; index++) {
      this.bytes[this.position++] = numberAt(groupsOf7, index, 'group of 7 bits') | (index === last ? 0 : 128);
    }
  }

  /** Writes an integer of at most 53 bits as `byteCount` little-endian bytes (negative: two's complement). */
  writeFixed(value: number, byteCount: number): void {
    this.reserve(byteCount);
    let low = value | 0;
    if (byteCount === 8) {
      const high = Math.floor(value / 0x1_0000_0000);
      low = (value - high * 0x1_0000_0000) | 0;
      this.bytes.writeInt32LE(high | 0, this.position + 4);
      this.bytes.writeInt32LE(low, this.position);
    } else {
      for (let index = 0; index < byteCount; index++) this.bytes[this.position + index] = (low >>> (8 * index)) & 255;
    }
    this.position += byteCount;
  }

  writeBigFixed64(value: bigint): void {
    this.reserve(8);
    this.bytes.writeBigUInt64LE(BigInt.asUintN(64, value), this.position);
    this.position += 8;
  }

  writeFloat(value: number, byteCount: number): void {
    this.reserve(byteCount);
    if (byteCount === 4) this.#float.setFloat32(0, value, true);
    else this.#float.setFloat64(0, value, true);
    for (let index = 0; index < byteCount; index++) this.bytes[this.position++] = this.#float.getUint8(index);
  }

  /** Writes `value` as LEB128 at `at`, where one byte was left, and moves the bytes after it if it needs more. */
  insertLeb(value: number, at: number): void {
    if (value < 128) {
      this.bytes[at] = value;
      return;
    }
    let extra = 0;
    for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) extra++;
    this.reserve(extra);
    this.bytes.copyWithin(at + 1 + extra, at + 1, this.position);
    const end = this.position + extra;
    this.position = at;
    this.writeLeb(value);
    this.position = end;
  }

  /** Moves the output since `start` into a scratch buffer, to be written again in another order. */
  lift(start: number): Uint8Array {
    const length = this.position - start;
    if (this.#scratch.length < length)
      this.#scratch = Buffer.from(new ArrayBuffer(Math.max(length, this.#scratch.length * 2)));
    copyBytes(this.bytes, start, this.position, this.#scratch, 0);
    this.position = start;
    return this.#scratch;
  }
}

/** Copies bytes, by a loop if that is faster. */
export function copyBytes(source: Uint8Array, start: number, end: number, target: Uint8Array, at: number): void {
  if (end - start > LOOP_BYTES_MAX) {
    target.set(source.subarray(start, end), at);
  } else {
    let to = at;
    for (let from = start; from < end; from++) target[to++] = source[from] ?? 0;
  }
}
