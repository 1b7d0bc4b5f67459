import { isUtf8 } from 'node:buffer';
import type { ServerError } from '../../kernel/index.ts';
import {
  badCandid,
  BIGNUM_BYTES_MAX,
  formatPath,
  quotaExceeded,
  VALUE_DEPTH_MAX,
  WORK_BASE,
  WORK_PER_BYTE,
  type PathStep,
} from './faults.ts';
import { PRINCIPAL_BYTES_MAX } from '../ic/index.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Longest LEB128 of a length, an index or a type; redundant bytes are allowed up to this length. */
const LEB_BYTES_MAX = 10;

/**
 * Reads the parts of a Candid message. Every read checks the remaining length, and `charge` counts the work, so that no
 * message, whatever its bytes claim, costs more than its length allows.
 *
 * `?? 0`: used for every byte, at places where the position has just been checked.
 */
export class CandidReader {
  bytes: Uint8Array = NO_BYTES;
  position = 0;
  end = 0;
  depth = 0;
  readonly path: PathStep[] = Array.from({ length: VALUE_DEPTH_MAX + 2 });
  /** Reason why the last value did not fit the expected type; an enclosing `opt` may make the value null instead. */
  mismatch = '';
  /** True if a read has failed because the message ended too early. */
  hasRunOut = false;
  #root = 'results';
  #work = 0;
  readonly #float = new DataView(new ArrayBuffer(8));

  /** Begins a message. `workBytes` is the length that limits the work, if the message's own would allow too much. */
  start(bytes: Uint8Array, root: string, workBytes = bytes.length): void {
    this.bytes = bytes;
    this.position = 0;
    this.end = bytes.length;
    this.depth = 0;
    this.mismatch = '';
    this.hasRunOut = false;
    this.#root = root;
    this.#work = WORK_BASE + workBytes * WORK_PER_BYTE;
  }

  /** Forgets the input. */
  release(): void {
    this.bytes = NO_BYTES;
  }

  fail(problem: string): ServerError {
    return badCandid(formatPath(this.#root, this.path, this.depth), problem);
  }

  charge(units: number): void {
    this.#work -= units;
    if (this.#work < 0) {
      throw quotaExceeded(
        formatPath(this.#root, this.path, this.depth),
        'there are too many values for a message of this length',
      );
    }
  }

  /** Steps into a value; to be left by `depth--`. */
  enter(): number {
    if (this.depth === VALUE_DEPTH_MAX) throw this.fail(`the value is nested deeper than ${VALUE_DEPTH_MAX} levels`);
    this.path[++this.depth] = undefined;
    return this.depth;
  }

  get remaining(): number {
    return this.end - this.position;
  }

  #ends(what: string): ServerError {
    this.hasRunOut = true;
    return this.fail(`the message ends within ${what}`);
  }

  /** Throws unless `count` more bytes are there. */
  need(count: number, what: string): void {
    if (count > this.end - this.position) throw this.#ends(what);
  }

  readByte(what: string): number {
    if (this.position >= this.end) throw this.#ends(what);
    return this.bytes[this.position++] ?? 0;
  }

  /** Reads a flag of 0 or 1. */
  readFlag(what: string): boolean {
    const flag = this.readByte(what);
    if (flag > 1) throw this.fail(`${what} begins with the byte ${flag} instead of 0 or 1`);
    return flag === 1;
  }

  /** Reads a LEB128 below 2^53: a length, a count, an index. */
  readLength(what: string): number {
    let value = 0;
    let weight = 1;
    for (let index = 0; index < LEB_BYTES_MAX; index++) {
      const byte = this.readByte(what);
      value += (byte & 127) * weight;
      weight *= 128;
      if (byte < 128) {
        if (value > Number.MAX_SAFE_INTEGER) throw this.fail(`${what} is 2^53 or more`);
        return value;
      }
    }
    throw this.fail(`${what} is a LEB128 of more than ${LEB_BYTES_MAX} bytes`);
  }

  /** Reads the signed LEB128 of a type; a number of more than 53 bits is no type. */
  readSleb(what: string): number {
    let value = 0;
    let weight = 1;
    for (let index = 0; index < LEB_BYTES_MAX; index++) {
      const byte = this.readByte(what);
      value += (byte & 127) * weight;
      weight *= 128;
      if (byte < 128) {
        const signed = byte >= 64 ? value - weight : value;
        if (!Number.isSafeInteger(signed)) throw this.fail(`${what} holds a number of more than 53 bits`);
        return signed;
      }
    }
    throw this.fail(`${what} is a LEB128 of more than ${LEB_BYTES_MAX} bytes`);
  }

  /** Reads a nat or int of any size; returns a number if that is exact. */
  readLebInteger(isSigned: boolean): number | bigint {
    const { bytes } = this;
    const start = this.position;
    let value = 0;
    let weight = 1;
    // Seven bytes hold 49 bits, which a double represents exactly.
    const fastEnd = Math.min(this.end, start + 7);
    for (let at = start; at < fastEnd; at++) {
      const byte = bytes[at] ?? 0;
      value += (byte & 127) * weight;
      weight *= 128;
      if (byte < 128) {
        this.position = at + 1;
        return isSigned && byte >= 64 ? value - weight : value;
      }
    }
    return this.#readBigLeb(isSigned);
  }

  #readBigLeb(isSigned: boolean): number | bigint {
    const start = this.position;
    this.skipLeb();
    const { bytes } = this;
    const last = this.position - 1;
    if (last - start < 14) {
      let low = 0;
      for (let at = start + 6; at >= start; at--) low = low * 128 + ((bytes[at] ?? 0) & 127);
      let high = 0;
      for (let at = last; at >= start + 7; at--) high = high * 128 + ((bytes[at] ?? 0) & 127);
      if (isSigned && ((bytes[last] ?? 0) & 64) !== 0) high -= 2 ** (7 * (last - start - 6));
      const sum = high * 2 ** 49 + low;
      return Number.isSafeInteger(sum) ? sum : (BigInt(high) << 49n) + BigInt(low);
    }
    // Collects hexadecimal digits from the top group down, which takes linear time; shifting a bigint would not.
    const length = last - start + 1;
    const bits: number[] = [];
    let pending = 0;
    let pendingBits = 0;
    for (let at = start; at <= last; at++) {
      pending |= ((bytes[at] ?? 0) & 127) << pendingBits;
      pendingBits += 7;
      while (pendingBits >= 8) {
        bits.push(pending & 255);
        pending >>>= 8;
        pendingBits -= 8;
      }
    }
    if (pendingBits > 0) bits.push(pending);
    const magnitude = BigInt(`0x${Buffer.from(bits.toReversed()).toString('hex')}`);
    const isNegative = isSigned && ((bytes[last] ?? 0) & 64) !== 0;
    const value = isNegative ? magnitude - (1n << BigInt(7 * length)) : magnitude;
    return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
  }

  skipLeb(): void {
    const { bytes } = this;
    const limit = Math.min(this.end, this.position + BIGNUM_BYTES_MAX);
    let at = this.position;
    while (at < limit && (bytes[at] ?? 0) >= 128) at++;
    if (at === limit) {
      if (at === this.end) throw this.#ends('a number');
      throw this.fail(`the number has more than ${BIGNUM_BYTES_MAX} bytes`);
    }
    this.position = at + 1;
  }

  /** Reads a little-endian integer of 1, 2 or 4 bytes. */
  readFixed(byteCount: number, isSigned: boolean): number {
    this.need(byteCount, 'a number');
    const { bytes, position } = this;
    let value = 0;
    for (let index = byteCount - 1; index >= 0; index--) value = (value << 8) | (bytes[position + index] ?? 0);
    this.position = position + byteCount;
    if (!isSigned) return value >>> 0;
    const unused = 32 - 8 * byteCount;
    return (value << unused) >> unused;
  }

  /** Reads a little-endian integer of 8 bytes; returns a number if that is exact. */
  readFixed64(isSigned: boolean): number | bigint {
    const low = this.readFixed(4, false);
    const high = this.readFixed(4, isSigned);
    const value = high * 0x1_0000_0000 + low;
    if (Number.isSafeInteger(value)) return value;
    return (BigInt(high) << 32n) | BigInt(low);
  }

  readFloat(byteCount: number): number {
    this.need(byteCount, 'a number');
    for (let index = 0; index < byteCount; index++) this.#float.setUint8(index, this.bytes[this.position++] ?? 0);
    return byteCount === 4 ? this.#float.getFloat32(0, true) : this.#float.getFloat64(0, true);
  }

  /** Reads the length of a text or blob, and checks that its bytes follow. */
  readByteCount(what: string): number {
    const length = this.readLength(what);
    this.need(length, what);
    return length;
  }

  /** Checks that a range of the message is UTF-8. */
  checkUtf8(start: number, end: number): void {
    if (!isUtf8(this.bytes.subarray(start, end))) throw this.fail('the text is not UTF-8');
  }

  readText(what: string): string {
    const length = this.readByteCount(what);
    const start = this.position;
    this.position += length;
    this.checkUtf8(start, this.position);
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + start, length).toString('utf8');
  }

  /** Reads the bytes of a principal or service reference. */
  readPrincipal(): Uint8Array {
    if (!this.readFlag('a principal')) throw this.fail('an opaque reference cannot be shown');
    const length = this.readByteCount('a principal');
    if (length > PRINCIPAL_BYTES_MAX)
      throw this.fail(`the principal has ${length} bytes; at most ${PRINCIPAL_BYTES_MAX} are allowed`);
    const start = this.position;
    this.position += length;
    return this.bytes.subarray(start, this.position);
  }
}
