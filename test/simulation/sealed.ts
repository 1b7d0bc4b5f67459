/**
 * Payloads of a simulation: whatever their size, each shows by itself if a part of it was lost, damaged or replaced.
 *
 *     bytes   u32 length of the content · u32 checksum · content · filling
 *     text    MARK · checksum, 8 hex digits · length of the content, 4 hex digits · content · filling
 *
 * The checksum is a CRC-32 of the content and of the payload's length. The filling follows from the content, so that it
 * is compared and not summed: a fifth of all time went into sums of filling.
 *
 * Sizes lie on both sides of the bound between the ring and the port, and sometimes exactly at it.
 */
import assert from 'node:assert/strict';
import { crc32 } from 'node:zlib';
import { INLINE_BYTES_MAX } from '../../subsystems/execution/wire/ring-bytes.ts';

/** An integer in [0, below). */
export type Draw = (below: number) => number;

const HEADER_BYTES = 8;
const MARK = 'sealed ';
const TEXT_HEADER = MARK.length + 12;
const PAYLOAD_BYTES_MAX = 4 * 2 ** 20;

const FILLING = Buffer.alloc(PAYLOAD_BYTES_MAX + 4096);
for (let at = 0, state = 1; at < FILLING.length; at += 4) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
  FILLING.writeInt32LE(state, at);
}
/** Letters, one byte each. */
const FILLING_TEXT = Buffer.from(FILLING.map((byte) => 97 + (byte % 26))).toString('latin1');

/** Draws the bytes of one payload: most are small, many lie around the bound, some are far above. */
export function drawBytes(draw: Draw): number {
  if (draw(10) > 0) return draw(200);
  const what = draw(40);
  if (what < 24) return INLINE_BYTES_MAX - 2 + draw(5);
  if (what < 39) return draw(6 * INLINE_BYTES_MAX);
  return draw(4) === 0 ? PAYLOAD_BYTES_MAX - draw(2) : draw(PAYLOAD_BYTES_MAX);
}

/** Returns `content` in a payload of so many bytes, or of as many as it needs. */
export function seal(content: Uint8Array, bytes: number): Uint8Array {
  const length = Math.max(bytes, HEADER_BYTES + content.length);
  const from = fillingOf(content);
  // Some payloads are views of larger buffers.
  const sealed = Buffer.alloc(length + (from % 3 === 0 ? 16 : 0)).subarray(0, length);
  sealed.set(content, HEADER_BYTES);
  const rest = HEADER_BYTES + content.length;
  sealed.set(FILLING.subarray(from, from + sealed.length - rest), rest);
  sealed.writeUInt32LE(content.length, 0);
  sealed.writeUInt32LE(crc32(content, length), 4);
  return new Uint8Array(sealed.buffer, sealed.byteOffset, sealed.length);
}

/** Returns the content that was given to `seal`, in a buffer of its own. */
export function unseal(sealed: Uint8Array, what: string): Buffer {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.length);
  assert.ok(bytes.length >= HEADER_BYTES, `${what} has ${bytes.length} bytes`);
  const content = bytes.subarray(HEADER_BYTES, HEADER_BYTES + bytes.readUInt32LE(0));
  const filling = bytes.subarray(HEADER_BYTES + content.length);
  const from = fillingOf(content);
  assert.equal(crc32(content, bytes.length), bytes.readUInt32LE(4), `${what}, ${bytes.length} bytes, is whole`);
  const isFilled = filling.equals(FILLING.subarray(from, from + filling.length));
  assert.ok(isFilled, `the filling of ${what}, ${bytes.length} bytes, is whole`);
  return Buffer.from(content);
}

/** Returns ASCII content in a text; some texts have more bytes than letters. */
export function sealText(content: string, bytes: number): string {
  const ending = endingOf(content);
  const filling = Math.max(0, bytes - TEXT_HEADER - content.length - Buffer.byteLength(ending));
  const rest = content + fillingTextOf(content, filling) + ending;
  return MARK + hex(crc32(content, rest.length), 8) + hex(content.length, 4) + rest;
}

/** Returns the content that was given to `sealText`; undefined if the text was not made by it. */
export function unsealText(text: string, what: string): string | undefined {
  if (!text.startsWith(MARK)) return undefined;
  const rest = text.slice(TEXT_HEADER);
  const content = rest.slice(0, Number.parseInt(text.slice(MARK.length + 8, TEXT_HEADER), 16));
  assert.equal(hex(crc32(content, rest.length), 8), text.slice(MARK.length, MARK.length + 8), `${what} is whole`);
  const ending = endingOf(content);
  const filling = fillingTextOf(content, Math.max(0, rest.length - content.length - ending.length));
  assert.ok(rest === content + filling + ending, `the filling of ${what} is whole`);
  return content;
}

/** Returns where the filling behind such a content begins in the common one. */
function fillingOf(content: Uint8Array | string): number {
  return crc32(content) % 4096;
}

function fillingTextOf(content: string, length: number): string {
  const from = fillingOf(content);
  return FILLING_TEXT.slice(from, from + length);
}

function endingOf(content: string): string {
  return crc32(content) % 2 === 0 ? 'ü€' : '';
}

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, '0');
}
