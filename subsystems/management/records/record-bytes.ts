/** Values of records as bytes: numbers are LEB128, byte strings have their length before them. */
import type { Family } from '../../storage/index.ts';
import { ByteWriter } from '../../wasm/index.ts';
import { corrupt } from './record-store.ts';

const START_BYTES = 64;
/** 128 bits. */
const NATURAL_BYTES_MAX = 19;

export class RecordWriter {
  readonly #out = new ByteWriter(START_BYTES);

  byte(value: number): this {
    this.#out.byte(value);
    return this;
  }

  /** At most 128 bits. */
  natural(value: bigint | number): this {
    let rest = BigInt(value);
    for (; rest > 127n; rest >>= 7n) this.#out.byte(Number(rest & 127n) | 128);
    return this.byte(Number(rest));
  }

  bytes(value: Uint8Array): this {
    this.natural(value.length);
    this.#out.append(value);
    return this;
  }

  list<T>(values: readonly T[], write: (value: T) => void): this {
    this.natural(values.length);
    for (const value of values) write(value);
    return this;
  }

  truth(value: boolean): this {
    return this.byte(Number(value));
  }

  optional<T>(value: T | undefined, write: (value: T) => void): this {
    this.truth(value !== undefined);
    if (value !== undefined) write(value);
    return this;
  }

  /** A view, valid until more is written. */
  written(): Uint8Array {
    return this.#out.written();
  }
}

/** Reads one stored value to its end; whatever is wrong with it is a ServerError `state-corrupt` that names its key. */
export class RecordReader {
  readonly #family: Family;
  readonly #key: Uint8Array;
  readonly #value: Uint8Array;
  #at = 0;

  constructor(family: Family, key: Uint8Array, value: Uint8Array) {
    this.#family = family;
    this.#key = key;
    this.#value = value;
  }

  fail(reason: string): never {
    throw corrupt(this.#family, this.#key, `${reason} (byte ${this.#at} of ${this.#value.length})`);
  }

  byte(): number {
    const byte = this.#value[this.#at];
    if (byte === undefined) return this.fail('it ends too early');
    this.#at++;
    return byte;
  }

  natural(): bigint {
    let value = 0n;
    for (let length = 0; length < NATURAL_BYTES_MAX; length++) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << BigInt(7 * length);
      if (byte < 128) return value >> 128n === 0n ? value : this.fail('a number has more than 128 bits');
    }
    return this.fail('a number has more than 128 bits');
  }

  /** A natural number of at most `max`, a safe integer. */
  number(max: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.natural();
    return value <= BigInt(max) ? Number(value) : this.fail(`a number is ${value}, more than ${max}`);
  }

  /** The reader's own copy. */
  bytes(max: number = this.#value.length): Uint8Array {
    const length = this.number(max);
    if (length > this.#value.length - this.#at) this.fail(`${length} bytes are announced`);
    const bytes = this.#value.slice(this.#at, this.#at + length);
    this.#at += length;
    return bytes;
  }

  list<T>(read: () => T): T[] {
    // Each element takes a byte at least.
    const count = this.number(this.#value.length);
    const values: T[] = [];
    for (let index = 0; index < count; index++) values.push(read());
    return values;
  }

  truth(): boolean {
    const byte = this.byte();
    return byte <= 1 ? byte === 1 : this.fail('neither yes nor no');
  }

  optional<T>(read: () => T): T | undefined {
    return this.truth() ? read() : undefined;
  }

  /** One of a table's values, by its number there. */
  oneOf<T>(table: readonly T[]): T {
    const value = table[this.byte()];
    return value === undefined ? this.fail('an unknown kind') : value;
  }

  end(): void {
    if (this.#at !== this.#value.length) this.fail('it goes on after its end');
  }
}
