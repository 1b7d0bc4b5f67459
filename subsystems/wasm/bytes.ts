import { hex, refusal } from './refusal.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const toUtf8 = new TextEncoder();

/** `?? 0` in this file: for every byte, and its place has just been tested. */

/** Reads the primitives of the binary format within bounds; a module that ends too early is refused with the place. */
export class ByteReader {
  readonly bytes: Uint8Array;
  readonly end: number;
  /** Name of the part that is read, for messages: `the type section`. */
  readonly what: string;
  position: number;

  constructor(bytes: Uint8Array, what: string, position = 0, end = bytes.length) {
    this.bytes = bytes;
    this.what = what;
    this.position = position;
    this.end = end;
  }

  get isAtEnd(): boolean {
    return this.position >= this.end;
  }

  fail(reason: string, at = this.position): never {
    throw refusal('wasm-malformed', `${this.what}: ${reason} at offset ${hex(at)}`);
  }

  byte(): number {
    if (this.position >= this.end) this.fail('the bytes end too early');
    return this.bytes[this.position++] ?? 0;
  }

  /** Unsigned LEB128 of at most 32 bits. */
  u32(): number {
    const at = this.position;
    let value = 0;
    let scale = 1;
    for (let length = 1; length <= 5; length++) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (value > 0xffffffff) break;
        return value;
      }
      scale *= 128;
    }
    return this.fail('a number has more than 32 bits', at);
  }

  /** Unsigned LEB128 of at most 64 bits; rounded above 2^53, where only its size matters. */
  u64(): number {
    const at = this.position;
    let value = 0;
    let scale = 1;
    for (let length = 1; length <= 10; length++) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    return this.fail('a number has more than 64 bits', at);
  }

  take(length: number): Uint8Array {
    if (length > this.end - this.position)
      this.fail(`${length} bytes are announced, ${this.end - this.position} are left`);
    const part = this.bytes.subarray(this.position, this.position + length);
    this.position += length;
    return part;
  }

  name(): string {
    const length = this.u32();
    const at = this.position;
    const bytes = this.take(length);
    try {
      return utf8.decode(bytes);
    } catch {
      return this.fail('a name is not UTF-8', at);
    }
  }
}

/**
 * The signed LEB128 number in `bytes[from..to)`; exact up to 2^53 also when it is padded to ten bytes, as linkers do:
 * the upper part gets its sign before both are put together.
 */
export function signedLeb(bytes: Uint8Array, from: number, to: number): number {
  let low = 0;
  let lowScale = 1;
  let high = 0;
  let highScale = 1;
  let last = 0;
  for (let p = from; p < to; p++) {
    last = bytes[p] ?? 0;
    if (p - from < 4) {
      low += (last & 0x7f) * lowScale;
      lowScale *= 128;
    } else {
      high += (last & 0x7f) * highScale;
      highScale *= 128;
    }
  }
  if ((last & 0x40) === 0) return high * lowScale + low;
  return highScale === 1 ? low - lowScale : (high - highScale) * lowScale + low;
}

/**
 * Grows while a section is written. Fields are public so that hot loops can write several bytes after one `reserve`.
 */
export class ByteWriter {
  bytes: Uint8Array;
  length = 0;

  constructor(capacity = 256) {
    this.bytes = new Uint8Array(capacity);
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, needed));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  byte(value: number): void {
    if (this.length === this.bytes.length) this.reserve(1);
    this.bytes[this.length++] = value;
  }

  /** A short literal sequence. */
  put(values: readonly number[]): void {
    this.reserve(values.length);
    let at = this.length;
    for (const value of values) this.bytes[at++] = value;
    this.length = at;
  }

  append(source: Uint8Array): void {
    this.reserve(source.length);
    this.bytes.set(source, this.length);
    this.length += source.length;
  }

  /** Copies `source[from..to)`; by hand where a call would cost more than the bytes. */
  copy(source: Uint8Array, from: number, to: number): void {
    const count = to - from;
    this.reserve(count);
    if (count > 32) {
      this.bytes.set(source.subarray(from, to), this.length);
      this.length += count;
      return;
    }
    const target = this.bytes;
    let at = this.length;
    for (let p = from; p < to; p++) target[at++] = source[p] ?? 0;
    this.length = at;
  }

  /** Unsigned LEB128 of a safe integer. */
  unsigned(value: number): void {
    this.reserve(10);
    let rest = value;
    while (rest > 127) {
      this.bytes[this.length++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.bytes[this.length++] = rest;
  }

  /** Signed LEB128 of a safe integer. */
  signed(value: number): void {
    this.reserve(10);
    let rest = value;
    for (;;) {
      const low = ((rest % 128) + 128) % 128;
      rest = (rest - low) / 128;
      if ((rest === 0 && low < 64) || (rest === -1 && low >= 64)) {
        this.bytes[this.length++] = low;
        return;
      }
      this.bytes[this.length++] = low | 0x80;
    }
  }

  name(text: string): void {
    const bytes = toUtf8.encode(text);
    this.unsigned(bytes.length);
    this.append(bytes);
  }

  /** Returns the bytes that were written, as a view that the next write may invalidate. */
  written(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }
}
