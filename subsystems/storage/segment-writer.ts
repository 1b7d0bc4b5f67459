import type { Random } from '../../kernel/index.ts';
import {
  encodeHeader,
  encodePart,
  HEADER_BLOCK_BYTES,
  PART_HEADER_BYTES,
  partBytes,
  SALT_BYTES,
  type PartHeader,
  type SegmentHeader,
} from './step-log-format.ts';
import type { SegmentFile } from './step-log-reader.ts';

const FIRST_BYTES = 2 ** 16;
/** What one flush needed may be a lot; so much is kept for the next. */
const KEPT_BYTES = 2 ** 22;

/** A segment that units are added to. It takes a file only when it is first written. */
export class SegmentWriter {
  readonly generation: number;
  readonly #header: Uint8Array;
  readonly #seed: number;
  readonly #segmentBytes: number;
  #slot: SegmentFile | undefined;
  #usedBytes = HEADER_BLOCK_BYTES;
  #writtenBytes = HEADER_BLOCK_BYTES;
  /** What is used and not written. */
  #buffer = Buffer.alloc(0);

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

  /** With the header block, and with what is not written yet. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  get hasUnwritten(): boolean {
    return this.#usedBytes > this.#writtenBytes;
  }

  /** How long the bytes of one more part may be; negative: there is no room for another. */
  get roomBytes(): number {
    return this.#segmentBytes - this.#usedBytes - PART_HEADER_BYTES;
  }

  add(part: PartHeader, body: Uint8Array): void {
    const at = this.#usedBytes - this.#writtenBytes;
    const needed = at + partBytes(body.length);
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2, FIRST_BYTES));
      larger.set(this.#buffer.subarray(0, at));
      this.#buffer = larger;
    }
    encodePart(this.#buffer, at, part, body, this.#seed);
    this.#usedBytes += partBytes(body.length);
  }

  /** Takes a file that nothing else uses. Its header is durable before anything refers to it. */
  begin(slot: SegmentFile): void {
    slot.file.write(0, this.#header);
    slot.file.sync();
    this.#slot = slot;
  }

  write(slot: SegmentFile): void {
    slot.file.write(this.#writtenBytes, this.#buffer.subarray(0, this.#usedBytes - this.#writtenBytes));
    this.#writtenBytes = this.#usedBytes;
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

  /** Nothing more will be added. */
  end(): void {
    if (!this.hasUnwritten) this.#buffer = Buffer.alloc(0);
  }
}
