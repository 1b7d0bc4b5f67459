/**
 * The bytes that stored records consist of. Numbers are little-endian and unaligned. A `count` has 7 bits in each byte,
 * the lowest first, and the highest bit where another byte follows (LEB128, which also writes larger numbers). Bytes
 * and texts (UTF-8) begin with their length as a count, or, where they are `sized`, with their length in 32 bits.
 */
import { ServerError } from '../../kernel/index.ts';
import { copyBytes } from './copy-bytes.ts';

const FIRST_BYTES = 1024;
/** Larger buffers are not kept for the next record. */
const KEPT_BYTES_MAX = 1 << 20;
const COUNT_BITS_MAX = 32;
const SHORT_LENGTH_MAX = 64;
const U64_BITS = 64n;
/** Shift of the nineteenth byte, which has the last two of 128 bits. */
const LEB128_SHIFT_MAX = 126n;

/** Puts one record after the other into a buffer that is used again. */
export class RecordWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #at = 0;

  begin(): this {
    this.#at = 0;
    if (this.#bytes.length > KEPT_BYTES_MAX) this.#reserve(FIRST_BYTES);
    return this;
  }

  /** Bytes that were written since `begin`. */
  get length(): number {
    return this.#at;
  }

  /** Returns what was written since `begin`, as a view that is valid until the next `begin`. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#at);
  }

  u8(value: number): void {
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  /** An integer below 2^48. */
  u48(value: number): void {
    const at = this.#room(6);
    // `setUint32` cuts off the bits beyond 32; `%` of such numbers is a call into the C library.
    this.#view.setUint32(at, value, true);
    this.#view.setUint16(at + 4, value / 2 ** 32, true);
  }

  f64(value: number): void {
    const at = this.#room(8);
    this.#view.setFloat64(at, value, true);
  }

  u64(value: bigint): void {
    const at = this.#room(8);
    this.#view.setBigUint64(at, value, true);
  }

  u128(value: bigint): void {
    this.u64(value);
    this.u64(value >> U64_BITS);
  }

  /** Writes a count below 2^32. */
  count(value: number): void {
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.u8((rest & 0x7f) | 0x80);
    this.u8(rest);
  }

  /** A natural number of at most 128 bits, as `count` writes smaller ones. */
  leb128(value: bigint | number): void {
    let rest = BigInt(value);
    for (; rest > 0x7fn; rest >>= 7n) this.u8(Number(rest & 0x7fn) | 0x80);
    this.u8(Number(rest));
  }

  truth(value: boolean): void {
    this.u8(value ? 1 : 0);
  }

  /** Writes whether there is a value, then the value. */
  optional<T>(value: T | undefined, write: (value: T) => void): void {
    this.truth(value !== undefined);
    if (value !== undefined) write(value);
  }

  /** The number of values, then each. */
  list<T>(values: readonly T[], write: (value: T) => void): void {
    this.count(values.length);
    for (const value of values) write(value);
  }

  /** Bytes whose length is known to the reader. */
  raw(bytes: Uint8Array): void {
    const at = this.#room(bytes.length);
    copyBytes(bytes, 0, this.#bytes, at, bytes.length);
  }

  data(bytes: Uint8Array): void {
    this.count(bytes.length);
    this.raw(bytes);
  }

  text(text: string): void {
    if (isShortAscii(text)) this.latin1(text);
    else this.data(Buffer.from(text));
  }

  /** Short, every character a byte; read as `data`. */
  latin1(text: string): void {
    this.count(text.length);
    this.characters(text);
  }

  /** Short, every character a byte, and their number is known to the reader. */
  characters(text: string): void {
    const { length } = text;
    const at = this.#room(length);
    const bytes = this.#bytes;
    for (let k = 0; k < length; k++) bytes[at + k] = text.charCodeAt(k);
  }

  sized(bytes: Uint8Array): void {
    const at = this.#room(4);
    this.#view.setUint32(at, bytes.length, true);
    this.raw(bytes);
  }

  sizedText(text: string): void {
    this.sized(Buffer.from(text));
  }

  texts(texts: ReadonlyMap<string, string>): void {
    this.count(texts.size);
    for (const [name, value] of texts) {
      this.text(name);
      this.text(value);
    }
  }

  #room(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) {
      const before = this.#bytes;
      this.#reserve(Math.max(before.length * 2, this.#at));
      this.#bytes.set(before.subarray(0, at));
    }
    return at;
  }

  #reserve(length: number): void {
    this.#bytes = new Uint8Array(length);
    this.#view = new DataView(this.#bytes.buffer);
  }
}

/** Returns true if a text is the same in UTF-8 and in Latin-1, and not worth a call into native code. */
function isShortAscii(text: string): boolean {
  const { length } = text;
  if (length > SHORT_LENGTH_MAX) return false;
  for (let at = 0; at < length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}

/**
 * Reads records out of bytes that may be anything: no read goes beyond the record, and nothing becomes larger than what
 * the record has bytes for. Every method throws ServerError `state-corrupt` where the bytes do not say what they
 * should.
 */
export class RecordReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** Name of the record in errors. */
  readonly #what: string;
  #start = 0;
  #at = 0;
  #end = 0;

  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#what = what;
  }

  /** Goes to the record in `start` ≤ bytes < `end`. */
  open(start: number, end: number): void {
    this.#start = this.#at = start;
    this.#end = end;
    if (!(start <= end && end <= this.#bytes.length)) throw this.malformed('it is cut off');
  }

  /** The record ends here. */
  close(): void {
    if (this.#at !== this.#end) throw this.malformed(`${this.#end - this.#at} bytes are left over`);
  }

  u8(): number {
    return this.#bytes[this.#take(1)] ?? 0;
  }

  u48(): number {
    const at = this.#take(6);
    return this.#view.getUint32(at, true) + this.#view.getUint16(at + 4, true) * 2 ** 32;
  }

  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }

  /** A number from 0 on that is no fraction. */
  natural(): number {
    const value = this.f64();
    if (!Number.isSafeInteger(value) || value < 0) throw this.malformed(`${value} is not a count`);
    return value;
  }

  /** A number from 0 on, Infinity with it. */
  limit(): number {
    const value = this.f64();
    if (!(value >= 0)) throw this.malformed(`${value} is not a limit`);
    return value;
  }

  /** Milliseconds since 1970. */
  instant(): number {
    const value = this.f64();
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) throw this.malformed(`${value} is not a time`);
    return value;
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }

  u128(): bigint {
    const low = this.u64();
    const high = this.u64();
    return high === 0n ? low : low | (high << U64_BITS);
  }

  count(): number {
    let value = 0;
    for (let shift = 0; shift < COUNT_BITS_MAX; shift += 7) {
      const byte = this.u8();
      // Not `<<`: what does not fit into 32 bits is to be noticed.
      value += (byte & 0x7f) * 2 ** shift;
      if (byte <= 0x7f) {
        if (value > 0xffff_ffff) break;
        return value;
      }
    }
    throw this.malformed('a count has more than 32 bits');
  }

  /** Reads a number of at most 128 bits. */
  leb128(): bigint {
    let value = 0n;
    for (let shift = 0n; shift <= LEB128_SHIFT_MAX; shift += 7n) {
      const byte = this.u8();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte <= 0x7f) {
        if (value >> 128n !== 0n) break;
        return value;
      }
    }
    throw this.malformed('a number has more than 128 bits');
  }

  /** Reads a number as `leb128` does; at most `max`, a safe integer. */
  leb128Number(max: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.leb128();
    if (value > BigInt(max)) throw this.malformed(`a number is ${value}, more than ${max}`);
    return Number(value);
  }

  truth(): boolean {
    const byte = this.u8();
    if (byte > 1) throw this.malformed('neither yes nor no');
    return byte === 1;
  }

  optional<T>(read: () => T): T | undefined {
    return this.truth() ? read() : undefined;
  }

  list<T>(read: () => T): T[] {
    const count = this.count();
    // Each element takes a byte at least.
    if (count > this.#end - this.#at) throw this.malformed(`a list of ${count} is cut off`);
    return Array.from({ length: count }, read);
  }

  /** The place of one of `names`. */
  oneOf<T>(names: readonly T[]): T {
    const number = this.u8();
    const name = names[number];
    if (name === undefined) throw this.malformed(`there is no choice ${number}`);
    return name;
  }

  /** A view of the next `length` bytes. */
  raw(length: number): Uint8Array {
    const at = this.#take(length);
    return this.#bytes.subarray(at, at + length);
  }

  /** A view. */
  data(): Uint8Array {
    return this.raw(this.count());
  }

  /** Reads a text as `latin1` wrote it. */
  latin1(): string {
    return this.characters(this.count());
  }

  /** Reads a text as `characters` wrote it. */
  characters(length: number): string {
    const bytes = this.raw(length);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  }

  /** Reads bytes as `data` does, and returns `before` if the bytes are the same. */
  sameData(before: Uint8Array): Uint8Array {
    const length = this.count();
    const at = this.#take(length);
    const bytes = this.#bytes;
    let isSame = length === before.length;
    for (let k = 0; isSame && k < length; k++) isSame = bytes[at + k] === before[k];
    return isSame ? before : bytes.slice(at, at + length);
  }

  /** The reader's own copy. */
  sized(): Uint8Array {
    return this.raw(this.#view.getUint32(this.#take(4), true)).slice();
  }

  skipSized(): void {
    this.#take(this.#view.getUint32(this.#take(4), true));
  }

  /** Place at which the next read begins. */
  get at(): number {
    return this.#at;
  }

  sizedText(): string {
    const length = this.#view.getUint32(this.#take(4), true);
    // Whatever was written: reject messages are the canisters' own.
    return Buffer.from(this.raw(length)).toString('utf8');
  }

  text(): string {
    const bytes = this.data();
    try {
      return decoder.decode(bytes);
    } catch {
      throw this.malformed('a text is not UTF-8');
    }
  }

  texts(): Map<string, string> {
    const texts = new Map<string, string>();
    for (let left = this.count(); left > 0; left--) texts.set(this.text(), this.text());
    return texts;
  }

  /** The error that says so. */
  malformed(reason: string): ServerError {
    const from = this.#start === 0 ? '' : ` ${this.#at - this.#start} bytes from its beginning,`;
    const message = `${this.#what} is damaged${from} at byte ${this.#at}: ${reason}`;
    return new ServerError('unavailable', 'state-corrupt', message);
  }

  #take(length: number): number {
    const at = this.#at;
    const end = at + length;
    if (end > this.#end) throw this.malformed('it is cut off');
    this.#at = end;
    return at;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
