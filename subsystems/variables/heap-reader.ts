/**
 * Reads objects of Motoko's 64-bit runtime from a copy of an actor's heap: "64-bit, layout version 1", as the module's
 * section `enhanced-orthogonal-persistence` says. Every pointer and length is checked against the memory, so that any
 * bytes give values or an `UnreadableHeap`, in bounded time.
 *
 *     value    …11 pointer less 1 · …00 …10 scalar · 1 true · 0xffff…fffb null
 *     object   tag u64, forwarding pointer, then by its tag (all words of 8 bytes):
 *              array length, elements · blob length, bytes · object pointer to a blob of hashes, fields
 *              variant hash, payload · box payload · number bits · rope length, two texts
 *     big      used i32, capacity i32, sign i32, –, pointer, digits of 60 bits
 *     4.5 MiB  "MOTOKO ORTHOGONAL PERSISTENCE 64" in characters of 4 bytes, version, the record of stable variables
 *
 * Worker thread.
 */
/** The heap cannot be read at a place. */
export class UnreadableHeap extends Error {}

export const TAG = {
  OBJECT: 1,
  ARRAY: 3,
  MUTABLE_ARRAY: 5,
  TUPLE: 7,
  FUNCTION: 9,
  NAT64: 11,
  INT64: 13,
  FLOAT: 15,
  BOX: 17,
  SOME: 21,
  VARIANT: 23,
  BLOB: 25,
  TEXT: 27,
  PRINCIPAL: 29,
  ACTOR: 31,
  BIG: 35,
  ROPE: 37,
  REGION: 39,
  WEAK: 45,
  /** From this tag on, an array is being marked by the collector, and the tag says how far. */
  SLICE_MIN: 46,
} as const;

const NAMES = new Map<number, string>(
  Object.entries(TAG).map(([name, tag]) => [tag, name.toLowerCase().replace('_', ' ')]),
);

export const NULL = 0xffff_ffff_ffff_fffbn;
const HEADER_BYTES = 16;
export const WORD_BYTES = 8;
const METADATA = 4.5 * 1024 * 1024;
const FINGERPRINT = 'MOTOKO ORTHOGONAL PERSISTENCE 64';
const VERSION_AT = METADATA + FINGERPRINT.length * 4;
const LAYOUT_VERSION = 1n;
/** Digits of a big number: about 1.2 million decimal ones are shown. */
const DIGITS_MAX = 64 * 1024;
const BITS_OF_DIGIT = 60n;

/** An object: where it lies, and its tag. */
export interface HeapObject {
  readonly at: number;
  readonly tag: number;
}

export class HeapReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Returns the record that the upgrade hook has left. Throws UnreadableHeap. */
  stableRecord(): HeapObject {
    const { length } = this.#bytes;
    if (length < VERSION_AT + 2 * WORD_BYTES)
      throw new UnreadableHeap(`a heap of ${length} bytes has no stable variables`);
    for (let k = 0; k < FINGERPRINT.length; k++)
      if (this.#view.getUint32(METADATA + 4 * k, true) !== FINGERPRINT.charCodeAt(k))
        throw new UnreadableHeap(`there is no mark of enhanced persistence at ${METADATA}`);
    const version = this.word(VERSION_AT);
    if (version !== LAYOUT_VERSION)
      throw new UnreadableHeap(`its heap has layout ${version}; this server reads layout 1`);
    return this.object(this.word(VERSION_AT + WORD_BYTES), TAG.OBJECT);
  }

  word(at: number): bigint {
    if (!Number.isSafeInteger(at) || at < 0 || at + WORD_BYTES > this.#bytes.length)
      throw new UnreadableHeap(`address ${at} lies beyond the heap of ${this.#bytes.length} bytes`);
    return this.#view.getBigUint64(at, true);
  }

  isPointer(value: bigint): boolean {
    return (value & 3n) === 3n && value !== NULL;
  }

  /** Returns the object that a value points to, behind forwarding; checks its tag, if `tags` are given. */
  object(value: bigint, ...tags: readonly number[]): HeapObject {
    if (!this.isPointer(value))
      throw new UnreadableHeap(`expected ${namesOf(tags)}, found the scalar 0x${value.toString(16)}`);
    const first = this.#addressOf(value);
    const at = this.#addressOf(this.word(first + WORD_BYTES));
    const word = this.word(at);
    const tag = word >= BigInt(TAG.SLICE_MIN) ? TAG.ARRAY + 2 * Number(word >> 62n) : Number(word);
    if (tags.length > 0 && !tags.includes(tag))
      throw new UnreadableHeap(`expected ${namesOf(tags)} at ${at}, found ${namesOf([tag])}`);
    return { at, tag };
  }

  #addressOf(value: bigint): number {
    const at = value + 1n;
    if (!this.isPointer(value) || (at & 7n) !== 0n || at + 16n > BigInt(this.#bytes.length))
      throw new UnreadableHeap(`0x${value.toString(16)} points to no object`);
    return Number(at);
  }

  /** Returns the k-th word behind an object's header. */
  part({ at }: HeapObject, k: number): bigint {
    return this.word(at + HEADER_BYTES + k * WORD_BYTES);
  }

  lengthOf(array: HeapObject): number {
    return this.#checkedLength(array, 2, WORD_BYTES);
  }

  element({ at }: HeapObject, k: number): bigint {
    return this.word(at + HEADER_BYTES + (1 + k) * WORD_BYTES);
  }

  /** Returns the bytes of a blob from one offset to another; they are the heap's own. */
  bytesOf(blob: HeapObject, from = 0, to = Number.POSITIVE_INFINITY): Uint8Array {
    const length = this.byteLengthOf(blob);
    const start = blob.at + HEADER_BYTES + WORD_BYTES;
    return this.#bytes.subarray(start + Math.min(from, length), start + Math.min(to, length));
  }

  byteLengthOf(blob: HeapObject): number {
    return this.#checkedLength(blob, 2, 1);
  }

  #checkedLength({ at }: HeapObject, headerWords: number, bytesEach: number): number {
    const length = this.word(at + headerWords * WORD_BYTES);
    const end = BigInt(at + (headerWords + 1) * WORD_BYTES) + length * BigInt(bytesEach);
    if (end > BigInt(this.#bytes.length))
      throw new UnreadableHeap(`the object at ${at} with ${length} parts ends beyond the heap`);
    return Number(length);
  }

  /** Returns the hashes of an object's fields, ascending. */
  hashesOf(object: HeapObject): { readonly count: number; hash: (k: number) => bigint } {
    const blob = this.object(this.part(object, 0), TAG.BLOB);
    const bytes = this.byteLengthOf(blob);
    const start = blob.at + HEADER_BYTES + WORD_BYTES;
    return { count: Math.floor(bytes / WORD_BYTES), hash: (k) => this.word(start + k * WORD_BYTES) };
  }

  /** Returns the value of a field; undefined: the object has no field with that hash. */
  field(object: HeapObject, hash: number): bigint | undefined {
    const { count, hash: hashAt } = this.hashesOf(object);
    const wanted = BigInt(hash);
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (hashAt(middle) < wanted) low = middle + 1;
      else high = middle;
    }
    return low < count && hashAt(low) === wanted ? this.part(object, 1 + low) : undefined;
  }

  /** Returns the number of digits, of 60 bits each, of a value of type `Nat` or `Int`. */
  digitsOf(value: bigint): number {
    return this.isPointer(value) ? Number(this.part(this.object(value, TAG.BIG), 0) & 0xffff_ffffn) : 1;
  }

  /** Returns a value of type `Nat` or `Int`. */
  integer(value: bigint): bigint {
    if (!this.isPointer(value)) {
      if ((value & 3n) !== 2n) throw new UnreadableHeap(`the scalar 0x${value.toString(16)} is no Nat or Int`);
      return BigInt.asIntN(64, value) >> 2n;
    }
    const big = this.object(value, TAG.BIG);
    const head = this.part(big, 0);
    const used = Number(head & 0xffff_ffffn);
    const isNegative = (this.part(big, 1) & 0xffff_ffffn) !== 0n;
    if (used > DIGITS_MAX || used > Number(head >> 32n))
      throw new UnreadableHeap(`the number at ${big.at} has ${used} digits`);
    let text = '';
    for (let k = used - 1; k >= 0; k--) {
      const digit = this.part(big, 3 + k);
      if (digit >> BITS_OF_DIGIT !== 0n)
        throw new UnreadableHeap(`the number at ${big.at} has a digit of more than 60 bits`);
      text += digit.toString(16).padStart(15, '0');
    }
    const size = BigInt(`0x${text || '0'}`);
    return isNegative ? -size : size;
  }
}

function namesOf(tags: readonly number[]): string {
  return tags.length === 0 ? 'an object' : tags.map((tag) => NAMES.get(tag) ?? `an object of kind ${tag}`).join(' or ');
}
