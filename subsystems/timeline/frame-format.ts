/**
 * Frames of a timeline's files:
 *
 *     u32 length of the frame · u32 CRC-32 of all that follows · u48 unit · u48 seq · f64 ms since 1970 · u8 kind ·
 *     u8 1 if a frame of the same unit follows · 2 bytes 0 · u32 length of the note · note · operations
 *
 * Numbers are little-endian. A base has in place of the note the last unit that its pages may be of, u48, and its
 * operations are deflated. A gap says that units before the next frame are missing, and has the unit up to which none
 * is, u48; earlier versions left that out.
 */
import { crc32 } from 'node:zlib';
import type { Place } from './index.ts';

export const FRAME = { message: 1, change: 2, base: 3, gap: 4 } as const;
type FrameKind = (typeof FRAME)[keyof typeof FRAME];

export const FILE_HEAD: Uint8Array = Buffer.from('svc-timeline 1\n');
export const FRAME_HEAD_BYTES = 36;
const SUMMED_FROM = 8;

/** A frame without what it has. */
export type FrameHead = Pick<Frame, 'kind' | 'hasMore' | keyof Place>;

export interface Frame extends Place {
  readonly kind: FrameKind;
  /** True if more of its unit follows: the unit counts with its last frame. */
  readonly hasMore: boolean;
  readonly note: Uint8Array;
  readonly operations: Uint8Array;
  /** Place behind the frame in the bytes that it was read from. */
  readonly end: number;
}

export function encodeFrame(
  { kind, hasMore, ...place }: FrameHead,
  note: Uint8Array,
  parts: readonly Uint8Array[],
): Buffer {
  const length = FRAME_HEAD_BYTES + note.length + parts.reduce((sum, part) => sum + part.length, 0);
  const frame = Buffer.alloc(length);
  frame.writeUInt32LE(length, 0);
  frame.writeUIntLE(place.unit, 8, 6);
  frame.writeUIntLE(place.seq, 14, 6);
  frame.writeDoubleLE(place.timeMs, 20);
  frame.writeUInt8(kind, 28);
  frame.writeUInt8(hasMore ? 1 : 0, 29);
  frame.writeUInt32LE(note.length, 32);
  frame.set(note, FRAME_HEAD_BYTES);
  let at = FRAME_HEAD_BYTES + note.length;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  frame.writeUInt32LE(crc32(frame.subarray(SUMMED_FROM)), 4);
  return frame;
}

/** Returns the frame at that place; `cut` where the bytes end before it does, `damaged` where it is not what it was. */
export function readTimelineFrame(bytes: Buffer, at: number): Frame | 'cut' | 'damaged' {
  if (bytes.length - at < FRAME_HEAD_BYTES) return 'cut';
  const length = bytes.readUInt32LE(at);
  if (length < FRAME_HEAD_BYTES) return 'damaged';
  if (bytes.length - at < length) return 'cut';
  const frame = bytes.subarray(at, at + length);
  const noteEnd = FRAME_HEAD_BYTES + frame.readUInt32LE(32);
  if (crc32(frame.subarray(SUMMED_FROM)) !== frame.readUInt32LE(4) || noteEnd > length) return 'damaged';
  return {
    unit: frame.readUIntLE(8, 6),
    seq: frame.readUIntLE(14, 6),
    timeMs: frame.readDoubleLE(20),
    kind: frame.readUInt8(28) as FrameKind,
    hasMore: frame.readUInt8(29) === 1,
    note: frame.subarray(FRAME_HEAD_BYTES, noteEnd),
    operations: frame.subarray(noteEnd),
    end: at + length,
  };
}
