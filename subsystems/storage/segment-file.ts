/**
 * Files of the step log's segments. A segment has its full length from the beginning, and blocks for its first
 * megabyte: zeros are written a little ahead of the units, so that a flush changes no metadata of the file system, and
 * a state in which little happens takes neither 96 MiB nor the time to write them.
 *
 * Storage thread.
 */
import type { Disk, DiskFile } from './disk.ts';
import { HEADER_BLOCK_BYTES } from './step-log-format.ts';

export const FILL_BYTES = 2 ** 20;
const ZEROS = new Uint8Array(FILL_BYTES);
/** Commits add less than that, nearly always. One that adds more changes metadata, which costs less than a wait. */
const AHEAD_BYTES = 4 * FILL_BYTES;
/** A commit waits for these at most. */
const FILLS_PER_PART = 2;
const BLOCK_BYTES = 4096;
/** Suffix of a segment's name until it is finished. */
export const UNFINISHED = '.new';

/** A segment's file. */
export class SegmentFile {
  readonly name: string;
  readonly file: DiskFile;
  readonly #bytes: number;
  /** All blocks up to there were written; they stay when the segment is used again. */
  #filledBytes: number;

  constructor(name: string, file: DiskFile) {
    this.name = name;
    this.file = file;
    this.#bytes = file.sizeBytes;
    const { blockBytes } = file;
    // The last block is there from the beginning.
    this.#filledBytes = blockBytes < this.#bytes ? blockBytes - BLOCK_BYTES : this.#bytes;
  }

  /** Writes zeros behind what is used, if few are there, and makes them durable: a commit then waits for little. */
  fillAhead(usedBytes = HEADER_BLOCK_BYTES): void {
    if (this.#filledBytes >= Math.min(this.#bytes, usedBytes + AHEAD_BYTES)) return;
    let at = Math.max(this.#filledBytes, usedBytes);
    for (let n = 0; n < FILLS_PER_PART && at < this.#bytes; n++) {
      const zeros = ZEROS.subarray(0, this.#bytes - at);
      this.file.write(at, zeros);
      at += zeros.length;
    }
    this.file.sync();
    this.#filledBytes = at;
  }
}

/** A segment that is being made, in two parts between which the log may go on in another one. */
export class SegmentMaker {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #header: Uint8Array;
  readonly #file: DiskFile;

  /** `header`: of a segment that is free. */
  constructor(disk: Disk, name: string, header: Uint8Array, bytes: number) {
    this.#disk = disk;
    this.#name = name;
    this.#header = header;
    this.#file = disk.open(name + UNFINISHED, { create: true });
    this.#file.write(0, ZEROS.subarray(0, bytes));
    if (bytes > FILL_BYTES) this.#file.write(bytes - 1, ZEROS.subarray(0, 1));
  }

  /** Makes durable what is there: the end of the work then waits for little. */
  sync(): void {
    this.#file.sync();
  }

  /** Returns the segment, which is durable. */
  finish(): SegmentFile {
    this.#file.write(0, this.#header);
    this.#file.sync();
    this.#disk.rename(this.#name + UNFINISHED, this.#name);
    this.#disk.syncDirectory();
    return new SegmentFile(this.#name, this.#file);
  }

  /** Closes the file of a segment that is not finished; the next recovery removes it. */
  close(): void {
    this.#file.close();
  }
}
