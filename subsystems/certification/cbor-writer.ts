/** CBOR for clients of the Internet Computer: definite lengths, shortest forms. */

const ROOM_BYTES_MIN = 512;
const MAJOR_UNSIGNED = 0;
const MAJOR_BYTES = 2;
const MAJOR_TEXT = 3;
const MAJOR_ARRAY = 4;
const MAJOR_MAP = 5;
/** Tag 55799: what follows is CBOR. */
const SELF_DESCRIBED = Uint8Array.of(0xd9, 0xd9, 0xf7);

/** Writes values one after the other; whoever writes an array or a map adds as many values as it announced. */
export class CborWriter {
  #bytes = Buffer.allocUnsafe(ROOM_BYTES_MIN);
  #length = 0;

  /** Marks what follows as CBOR. */
  selfDescribed(): this {
    return this.raw(SELF_DESCRIBED);
  }

  unsigned(value: bigint | number): this {
    this.#head(MAJOR_UNSIGNED, value);
    return this;
  }

  bytes(bytes: Uint8Array): this {
    this.#head(MAJOR_BYTES, bytes.length);
    return this.raw(bytes);
  }

  /** Adds bytes that a text has a character for each of. */
  latin1(text: string): this {
    this.#head(MAJOR_BYTES, text.length);
    this.#reserve(text.length);
    this.#length += this.#bytes.write(text, this.#length, 'latin1');
    return this;
  }

  text(text: string): this {
    const length = Buffer.byteLength(text);
    this.#head(MAJOR_TEXT, length);
    this.#reserve(length);
    this.#length += this.#bytes.write(text, this.#length, 'utf8');
    return this;
  }

  /** Begins an array of so many values. */
  array(length: number): this {
    this.#head(MAJOR_ARRAY, length);
    return this;
  }

  /** Begins a map of so many keys, each with its value. */
  map(length: number): this {
    this.#head(MAJOR_MAP, length);
    return this;
  }

  /** Adds bytes that are CBOR already. */
  raw(bytes: Uint8Array): this {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  /** Returns all that was written. The writer is not used after that. */
  done(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #head(major: number, value: bigint | number): void {
    this.#reserve(9);
    const first = major << 5;
    if (value < 24) this.#bytes[this.#length++] = first | Number(value);
    else if (value < 0x100) {
      this.#bytes[this.#length++] = first | 24;
      this.#bytes[this.#length++] = Number(value);
    } else if (value < 0x1_0000) {
      this.#bytes[this.#length++] = first | 25;
      this.#length = this.#bytes.writeUInt16BE(Number(value), this.#length);
    } else if (value < 0x1_0000_0000) {
      this.#bytes[this.#length++] = first | 26;
      this.#length = this.#bytes.writeUInt32BE(Number(value), this.#length);
    } else {
      this.#bytes[this.#length++] = first | 27;
      this.#length = this.#bytes.writeBigUInt64BE(BigInt(value), this.#length);
    }
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#length + more, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}
