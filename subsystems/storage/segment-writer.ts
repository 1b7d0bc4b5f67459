import type { Random } from '../../kernel/index.ts';
import {
  encodeHeader,
  encodePart,
  encodePartHeader,
  HEADER_BLOCK_BYTES,
  PART_HEADER_BYTES,
  partBytes,
  SALT_BYTES,
  type PartHeader,
  type SegmentHeader,
} from './step-log-format.ts';
import type { SegmentFile } from './step-log-reader.ts';

const FIRST_BYTES = 2 ** 16;
/** Bytes of the buffer that are kept for the next flush; one flush may need a lot more. */
const KEPT_BYTES = 2 ** 22;
/** Bytes above which pieces are written from where they are. */
const COPIED_BYTES_MAX = 2 ** 16;

/** A segment that units are added to. It takes a file only when it is first written. */
export class SegmentWriter {
  readonly generation: number;
  readonly #header: Uint8Array;
  readonly #seed: number;
  readonly #segmentBytes: number;
  #slot: SegmentFile | undefined;
  #usedBytes = HEADER_BLOCK_BYTES;
  #writtenBytes = HEADER_BLOCK_BYTES;
  /**
   * Pieces that are used and not written, in their order; behind them comes what of `#buffer` is in none of these
   * yet.
   */
  #unwritten: Uint8Array[] = [];
  /** Small pieces, one behind the other. */
  #buffer = Buffer.alloc(0);
  #bufferedFrom = 0;
  #bufferedTo = 0;

  constructor(header: SegmentHeader, random: Random) {
    const { bytes, seed } = encodeHeader(header, random.bytes(SALT_BYTES));
    this.generation = header.generation;
    this.#header = bytes;
    this.#seed = seed;
    this.#segmentBytes = header.segmentBytes;
  }

  get slot(): SegmentFile | undefined {
    return this.#slot;
  }

  /** Bytes in use, including the header block and what is not written yet. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  get hasUnwritten(): boolean {
    return this.#usedBytes > this.#writtenBytes;
  }

  /** Bytes that one more part may have; negative if there is no room for another part. */
  get roomBytes(): number {
    return this.#segmentBytes - this.#usedBytes - PART_HEADER_BYTES;
  }

  /** `body`: `part.length` bytes in pieces, which stay as they are until they are written. */
  add(part: PartHeader, body: readonly Uint8Array[]): void {
    const at = this.#room(PART_HEADER_BYTES);
    encodePartHeader(this.#buffer, at, part, body, this.#seed);
    for (const piece of body) {
      if (piece.length <= COPIED_BYTES_MAX) {
        const from = this.#room(piece.length);
        this.#buffer.set(piece, from);
      } else {
        this.#endBuffered();
        this.#unwritten.push(piece);
      }
    }
    const zeros = partBytes(part.length) - PART_HEADER_BYTES - part.length;
    const from = this.#room(zeros);
    this.#buffer.fill(0, from, from + zeros);
    this.#usedBytes += partBytes(part.length);
  }

  #room(length: number): number {
    const kept = this.#bufferedTo - this.#bufferedFrom;
    if (this.#bufferedTo + length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(kept + length, this.#buffer.length * 2, FIRST_BYTES));
      larger.set(this.#buffer.subarray(this.#bufferedFrom, this.#bufferedTo));
      this.#buffer = larger;
      this.#bufferedFrom = 0;
      this.#bufferedTo = kept;
    }
    const at = this.#bufferedTo;
    this.#bufferedTo += length;
    return at;
  }

  #endBuffered(): void {
    this.#unwritten.push(this.#buffer.subarray(this.#bufferedFrom, this.#bufferedTo));
    this.#bufferedFrom = this.#bufferedTo;
  }

  /** Takes a file that nothing else uses. Its header is durable before anything refers to it. */
  begin(slot: SegmentFile): void {
    slot.file.write(0, this.#header);
    slot.file.sync();
    this.#slot = slot;
  }

  write(slot: SegmentFile): void {
    this.#endBuffered();
    for (const bytes of this.#unwritten) {
      slot.file.write(this.#writtenBytes, bytes);
      this.#writtenBytes += bytes.length;
    }
    this.#unwritten = [];
    this.#bufferedFrom = this.#bufferedTo = 0;
    if (this.#buffer.length > KEPT_BYTES) this.#buffer = Buffer.alloc(0);
  }

  /** Writes a mark behind what is written, if there is room; what is not written is lost. */
  writeMark(durable: number): void {
    if (this.#slot === undefined || this.#writtenBytes + PART_HEADER_BYTES > this.#segmentBytes) return;
    const mark = Buffer.alloc(PART_HEADER_BYTES);
    const part = { unit: durable, part: 0, isLast: false, isMark: true, durable, length: 0 };
    encodePart(mark, 0, part, new Uint8Array(), this.#seed);
    this.#slot.file.write(this.#writtenBytes, mark);
  }

  /** Ends the segment: nothing more will be added. */
  end(): void {
    if (!this.hasUnwritten) this.#buffer = Buffer.alloc(0);
  }
}
