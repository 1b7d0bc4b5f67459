/**
 * The bytes of the step log. Numbers are little-endian.
 *
 *     segment   header block of 4096 bytes · parts, each at a multiple of 8 · zeros or leftovers of earlier uses
 *     header    8 bytes magic · u32 version · u32 checksum · u48 generation · u16 0 · u48 start unit · u16 start part ·
 *               u48 durable · u16 0 · u48 segment bytes · u16 0 · 8 bytes salt · zeros up to 512
 *     part      u48 unit · u16 part · u32 behind · u32 length · u32 checksum of the bytes ·
 *               u32 checksum of the 20 before · bytes
 *
 * A segment of generation 0 is free. `start` is where the segment goes on: no unit before it is in here. The u16 of a
 * part is its index within the unit (14 bits), MARK, and LAST. `behind` is how far the unit was ahead of the newest
 * durable one when it was written.
 *
 * A part's checksum begins with that of its segment's header, salt and all: what was left by another generation never
 * fits, nor does what a guest puts into a unit to look like a part. The header has one sector, so it is there wholly
 * or not at all.
 */
import { crc32 } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';

export const HEADER_BLOCK_BYTES = 4096;
const HEADER_BYTES = 512;
export const PART_HEADER_BYTES = 24;
const MAGIC = Buffer.from('SVC-STEP', 'latin1');
const VERSION = 1;
const CHECKSUM_AT = 12;
const SALT_AT = 48;
export const SALT_BYTES = 8;

const LAST = 0x8000;
const MARK = 0x4000;
const PART_MAX = 0x3fff;

/** A place in the sequence of parts: the next one is part `part` of unit `unit`. */
export interface Position {
  readonly unit: number;
  readonly part: number;
}

export interface SegmentHeader {
  /** 1, 2, 3 … in the order of use; 0: the segment is free. */
  readonly generation: number;
  readonly start: Position;
  /** The newest unit that was durable when this was written. */
  readonly durable: number;
  readonly segmentBytes: number;
}

export interface PartHeader extends Position {
  readonly isLast: boolean;
  /** No part of a unit: it only says what was durable. */
  readonly isMark: boolean;
  /** The newest unit that was durable when this was written. */
  readonly durable: number;
  /** Bytes that follow. */
  readonly length: number;
}

/** The header and the checksum that its parts begin with. */
export function encodeHeader(header: SegmentHeader, salt: Uint8Array): { bytes: Uint8Array; seed: number } {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.set(MAGIC);
  bytes.writeUInt32LE(VERSION, 8);
  bytes.writeUIntLE(header.generation, 16, 6);
  bytes.writeUIntLE(header.start.unit, 24, 6);
  bytes.writeUInt16LE(header.start.part, 30);
  bytes.writeUIntLE(header.durable, 32, 6);
  bytes.writeUIntLE(header.segmentBytes, 40, 6);
  bytes.set(salt, SALT_AT);
  const seed = headerChecksum(bytes);
  bytes.writeUInt32LE(seed, CHECKSUM_AT);
  return { bytes, seed };
}

/** Reads a segment's first bytes. Throws ServerError `state-corrupt` or `state-newer`. */
export function decodeHeader(block: Uint8Array, file: string): SegmentHeader & { readonly seed: number } {
  const bytes = Buffer.from(block.buffer, block.byteOffset, Math.min(block.length, HEADER_BYTES));
  if (bytes.length < HEADER_BYTES) throw corrupt(`${file} is cut off within its header`);
  const seed = headerChecksum(bytes);
  if (bytes.readUInt32LE(CHECKSUM_AT) !== seed) {
    const isOurs = MAGIC.equals(bytes.subarray(0, MAGIC.length));
    throw corrupt(isOurs ? `the header of ${file} is damaged` : `${file} is not a segment of a step log`);
  }
  const version = bytes.readUInt32LE(8);
  if (version > VERSION) {
    throw new ServerError(
      'unavailable',
      'state-newer',
      `${file} is a step log of format ${version}, and this version reads format ${VERSION}`,
    );
  }
  return {
    generation: bytes.readUIntLE(16, 6),
    start: { unit: bytes.readUIntLE(24, 6), part: bytes.readUInt16LE(30) },
    durable: bytes.readUIntLE(32, 6),
    segmentBytes: bytes.readUIntLE(40, 6),
    seed,
  };
}

function headerChecksum(bytes: Uint8Array): number {
  return crc32(bytes.subarray(CHECKSUM_AT + 4), crc32(bytes.subarray(0, CHECKSUM_AT)));
}

/** Puts a part at `at`; there must be room for `partBytes(body.length)`. */
export function encodePart(into: Buffer, at: number, part: PartHeader, body: Uint8Array, seed: number): void {
  encodePartHeader(into, at, part, [body], seed);
  into.set(body, at + PART_HEADER_BYTES);
  into.fill(0, at + PART_HEADER_BYTES + body.length, at + partBytes(body.length));
}

/** Puts the header of a part at `at`; behind it belong the bytes, `body`, and zeros up to `partBytes(part.length)`. */
export function encodePartHeader(
  into: Buffer,
  at: number,
  part: PartHeader,
  body: readonly Uint8Array[],
  seed: number,
): void {
  if (part.part > PART_MAX) throw new Error(`unit ${part.unit} has more than ${PART_MAX + 1} parts`);
  into.writeUIntLE(part.unit, at, 6);
  into.writeUInt16LE(part.part | (part.isLast ? LAST : 0) | (part.isMark ? MARK : 0), at + 6);
  into.writeUInt32LE(part.unit - part.durable, at + 8);
  into.writeUInt32LE(part.length, at + 12);
  let checksum = 0;
  for (const piece of body) checksum = crc32(piece, checksum);
  into.writeUInt32LE(checksum, at + 16);
  into.writeUInt32LE(crc32(into.subarray(at, at + 20), seed), at + 20);
}

/**
 * Returns the part header that bytes begin with, if there is an intact one of the segment with this seed; its bytes
 * may still be damaged. `roomBytes`: from there to the segment's end.
 */
export function decodePart(bytes: Buffer, roomBytes: number, seed: number): PartHeader | undefined {
  if (PART_HEADER_BYTES > roomBytes) return undefined;
  const unit = bytes.readUIntLE(0, 6);
  const behind = bytes.readUInt32LE(8);
  const length = bytes.readUInt32LE(12);
  // Zeros and most leftovers end here, without a checksum.
  if (unit === 0 || behind > unit || PART_HEADER_BYTES + length > roomBytes) return undefined;
  if (bytes.readUInt32LE(20) !== crc32(bytes.subarray(0, 20), seed)) return undefined;
  const part = bytes.readUInt16LE(6);
  return {
    unit,
    part: part & PART_MAX,
    isLast: (part & LAST) !== 0,
    isMark: (part & MARK) !== 0,
    durable: unit - behind,
    length,
  };
}

/** The body of the part that bytes begin with, or nothing if it is not what was written. */
export function decodeBody(bytes: Buffer, length: number): Uint8Array | undefined {
  const body = bytes.subarray(PART_HEADER_BYTES, PART_HEADER_BYTES + length);
  return crc32(body) === bytes.readUInt32LE(16) ? body : undefined;
}

/** Returns the bytes that a part of this length takes in its segment. */
export function partBytes(length: number): number {
  return alignedUp(PART_HEADER_BYTES + length);
}

function alignedUp(length: number): number {
  return Math.ceil(length / 8) * 8;
}

export function corrupt(message: string): ServerError {
  return new ServerError('unavailable', 'state-corrupt', `the step log is damaged: ${message}`);
}
