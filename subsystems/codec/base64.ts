import type { ByteWriter } from './byte-writer.ts';

/* `?? 0` here: the loops run for every byte and end with the range, and the tables have an entry for every byte. */
const LETTERS = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/');
const PAD = 0x3d;
const INVALID = 64;
/** From this length on the engine's own encoder is faster than a loop. */
const LOOP_BYTES_MAX = 96;

const SEXTET_OF = new Uint8Array(256).fill(INVALID);
for (const [value, letter] of LETTERS.entries()) SEXTET_OF[letter] = value;

/** Writes bytes as base64 with padding. */
export function writeBase64(writer: ByteWriter, source: Uint8Array, start: number, end: number): void {
  const length = end - start;
  writer.reserve(Math.ceil(length / 3) * 4);
  if (length > LOOP_BYTES_MAX) {
    const text = Buffer.from(source.buffer, source.byteOffset + start, length).toString('base64');
    writer.position += writer.bytes.write(text, writer.position, 'latin1');
    return;
  }
  const { bytes } = writer;
  let to = writer.position;
  for (let from = start; from < end; from += 3) {
    const left = end - from;
    const first = source[from] ?? 0;
    const second = left > 1 ? (source[from + 1] ?? 0) : 0;
    const third = left > 2 ? (source[from + 2] ?? 0) : 0;
    bytes[to++] = LETTERS[first >> 2] ?? 0;
    bytes[to++] = LETTERS[((first & 3) << 4) | (second >> 4)] ?? 0;
    bytes[to++] = left > 1 ? (LETTERS[((second & 15) << 2) | (third >> 6)] ?? 0) : PAD;
    bytes[to++] = left > 2 ? (LETTERS[third & 63] ?? 0) : PAD;
  }
  writer.position = to;
}

/**
 * Returns the number of bytes that base64 text encodes, or −1 if it is not base64 in its one canonical form: standard
 * letters, padded, unused bits zero. Node's own decoder would silently skip over anything else.
 */
export function base64Length(text: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length % 4 !== 0) return -1;
  if (length === 0) return 0;
  const padding = text[end - 1] !== PAD ? 0 : text[end - 2] !== PAD ? 1 : 2;
  let invalid = 0;
  for (let at = start; at < end - padding; at++) invalid |= SEXTET_OF[text[at] ?? 0] ?? INVALID;
  const last = SEXTET_OF[text[end - padding - 1] ?? 0] ?? INVALID;
  if ((invalid & INVALID) !== 0) return -1;
  if ((padding === 1 && (last & 3) !== 0) || (padding === 2 && (last & 15) !== 0)) return -1;
  return (length / 4) * 3 - padding;
}

/** Writes the bytes of base64 text whose length `base64Length` has returned. */
export function writeFromBase64(
  writer: ByteWriter,
  text: Uint8Array,
  start: number,
  end: number,
  length: number,
): void {
  writer.reserve(length + 3);
  const { bytes } = writer;
  let to = writer.position;
  for (let at = start; at < end; at += 4) {
    // Padding reads as 64, whose bit the masks below remove.
    const group =
      ((SEXTET_OF[text[at] ?? 0] ?? 0) << 18) |
      ((SEXTET_OF[text[at + 1] ?? 0] ?? 0) << 12) |
      (((SEXTET_OF[text[at + 2] ?? 0] ?? 0) & 63) << 6) |
      ((SEXTET_OF[text[at + 3] ?? 0] ?? 0) & 63);
    bytes[to++] = group >> 16;
    bytes[to++] = (group >> 8) & 255;
    bytes[to++] = group & 255;
  }
  writer.position += length;
}
