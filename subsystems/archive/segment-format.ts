/**
 * The bytes of a segment of the archive.
 *
 *     header   a line of ASCII:
 *              svc-archive 1 state 3 line 20261121T200000-5f3a09c1 epoch 1 units 101-220
 *              times 2026-11-21T20:00:00.000Z 2026-11-21T20:00:09.123Z bytes 33120 5f3a09c1
 *              formats of the archive and of the state, line, epoch, first and last unit, their times, bytes of all
 *              frames, CRC-32 of what is before the last blank
 *     frames   u48 unit · u16 mark · u32 length · f64 milliseconds since 1970 · u32 CRC-32 of the bytes ·
 *              u32 CRC-32 of the 24 before · bytes
 *
 * Numbers are little-endian. The units of a segment follow one another without a gap.
 */
import { crc32 } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';

const ARCHIVE_FORMAT = 1;
const MAGIC = 'svc-archive ';
/** A header is shorter, whatever its numbers. */
export const HEADER_BYTES_MAX = 512;
/** Bytes of a frame before those of its unit. */
export const FRAME_BYTES = 28;
/** Bytes from which on a segment is full; the last unit may exceed it. */
export const SEGMENT_BYTES: number = 8 * 2 ** 20;
const MARK = 0xa5c3;

interface SegmentHeader {
  /** Format of the state that the units change. */
  readonly stateFormat: number;
  readonly line: string;
  readonly epoch: number;
  readonly first: number;
  readonly last: number;
  /** Milliseconds since 1970; 0: not known. */
  readonly firstMs: number;
  readonly lastMs: number;
  /** Bytes of all frames. */
  readonly bytes: number;
}

interface Frame {
  readonly unit: number;
  readonly timeMs: number;
  /** Bytes of the unit, a view of the segment's. */
  readonly bytes: Uint8Array;
  /** Place behind the frame. */
  readonly end: number;
}

/** Returns the header with its line feed. */
export function segmentHeader(header: SegmentHeader): Uint8Array {
  const { stateFormat, line, epoch, first, last, firstMs, lastMs, bytes } = header;
  const times = `${new Date(firstMs).toISOString()} ${new Date(lastMs).toISOString()}`;
  const text =
    `${MAGIC}${ARCHIVE_FORMAT} state ${stateFormat} line ${line} epoch ${epoch} ` +
    `units ${first}-${last} times ${times} bytes ${bytes}`;
  return Buffer.from(`${text} ${crc32(text).toString(16).padStart(8, '0')}\n`, 'latin1');
}

/** Result of reading a header: what it says, and where the frames begin; or what is wrong with it. */
type ReadHeader =
  | { readonly header: SegmentHeader; readonly end: number }
  | { readonly problem: 'cut' | 'damaged' | 'foreign' };

const HEADER =
  /^(svc-archive (\d+) state (\d+) line (\S+) epoch (\d+) units (\d+)-(\d+) times (\S+) (\S+) bytes (\d+)) ([0-9a-f]{8})$/;

/** Reads the header of a segment. Throws ServerError `archive-newer`, with `file` as the segment's name. */
export function readSegmentHeader(segment: Uint8Array, file: string): ReadHeader {
  const start = Buffer.from(segment.buffer, segment.byteOffset, Math.min(segment.length, HEADER_BYTES_MAX));
  const end = start.indexOf('\n');
  const isBegun = start.subarray(0, MAGIC.length).equals(Buffer.from(MAGIC).subarray(0, start.length));
  if (end < 0 && start.length < HEADER_BYTES_MAX && isBegun) return { problem: 'cut' };
  const text = start.toString('latin1', 0, Math.max(end, 0));
  const [, summed = '', format, state, line = '', epoch, first, last, from = '', to = '', bytes, crc = ''] =
    HEADER.exec(text) ?? [];
  const isIntact = summed !== '' && Number.parseInt(crc, 16) === crc32(summed);
  const newer = Number(/^svc-archive (\d{1,9}) /.exec(text)?.[1] ?? 0);
  if (newer > ARCHIVE_FORMAT && (isIntact || summed === '')) throw newerFormat(file, newer);
  if (!isIntact) return { problem: isBegun ? 'damaged' : 'foreign' };
  const header = {
    stateFormat: Number(state),
    line,
    epoch: Number(epoch),
    first: Number(first),
    last: Number(last),
    firstMs: Date.parse(from),
    lastMs: Date.parse(to),
    bytes: Number(bytes),
  };
  if (Number(format) !== ARCHIVE_FORMAT || Number.isNaN(header.firstMs + header.lastMs)) return { problem: 'damaged' };
  return { header, end: end + 1 };
}

function newerFormat(file: string, format: number): ServerError {
  const message =
    `${file} has format ${format} of the archive, written by a newer svc; ` +
    `this one reads format ${ARCHIVE_FORMAT}: restore it with that svc`;
  return new ServerError('invalid', 'archive-newer', message);
}

/** Returns what stands before the bytes of a unit, which come in pieces. */
export function frameHeader(unit: number, timeMs: number, pieces: readonly Uint8Array[]): Buffer {
  const header = Buffer.allocUnsafe(FRAME_BYTES);
  let length = 0;
  let crc = 0;
  for (const piece of pieces) {
    length += piece.length;
    crc = crc32(piece, crc);
  }
  header.writeUIntLE(unit, 0, 6);
  header.writeUInt16LE(MARK, 6);
  header.writeUInt32LE(length, 8);
  header.writeDoubleLE(timeMs, 12);
  header.writeUInt32LE(crc, 20);
  header.writeUInt32LE(crc32(header.subarray(0, 24)), 24);
  return header;
}

/** Returns the frame at that place of a segment; `cut` where the segment ends before the frame does. */
export function readFrame(segment: Buffer, at: number): Frame | 'cut' | 'damaged' {
  const left = segment.length - at;
  if (left < FRAME_BYTES) return 'cut';
  const header = segment.subarray(at, at + FRAME_BYTES);
  const isOurs = header.readUInt32LE(24) === crc32(header.subarray(0, 24)) && header.readUInt16LE(6) === MARK;
  if (!isOurs) return 'damaged';
  const length = header.readUInt32LE(8);
  if (left < FRAME_BYTES + length) return 'cut';
  const end = at + FRAME_BYTES + length;
  const bytes = segment.subarray(at + FRAME_BYTES, end);
  if (crc32(bytes) !== header.readUInt32LE(20)) return 'damaged';
  return { unit: header.readUIntLE(0, 6), timeMs: header.readDoubleLE(12), bytes, end };
}
