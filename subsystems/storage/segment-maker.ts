/**
 * Makes a free segment of the step log: its blocks are allocated and written, so that using the segment changes no
 * metadata of the file system. A segment of 32 MiB takes a tenth of a second and more, so it can be made in parts,
 * while the log goes on in another one.
 *
 * Storage thread; touches a file that is nobody else's until it is finished.
 */
import type { Disk, DiskFile } from './disk.ts';
import type { SegmentFile } from './step-log-reader.ts';

export const FILL_BYTES = 2 ** 20;
/** Half of a segment has room for sixteen commits of a megabyte; by then all of the next one is to be filled. */
const FILLS_PER_PART = 2;
/** Suffix of a segment's name until it is finished. */
export const UNFINISHED = '.new';

export class SegmentMaker {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #file: DiskFile;
  readonly #header: Uint8Array;
  readonly #zeros: Uint8Array;
  readonly #segmentBytes: number;
  #filledBytes = 0;

  /** `header`: of a segment that is free. */
  constructor(disk: Disk, name: string, header: Uint8Array, segmentBytes: number) {
    this.#disk = disk;
    this.#name = name;
    this.#header = header;
    this.#segmentBytes = segmentBytes;
    this.#zeros = new Uint8Array(Math.min(FILL_BYTES, segmentBytes));
    this.#file = disk.open(name + UNFINISHED, { create: true });
  }

  /** Fills some of the file, and makes that durable: the end of the work then waits for little. */
  fillPart(): void {
    for (let n = 0; n < FILLS_PER_PART && !this.isFilled; n++) this.#fill();
    this.#file.sync();
  }

  get isFilled(): boolean {
    return this.#filledBytes === this.#segmentBytes;
  }

  /** Does all that is left to do. Returns the segment, which is durable. */
  finish(): SegmentFile {
    while (!this.isFilled) this.#fill();
    this.#file.write(0, this.#header);
    this.#file.sync();
    this.#disk.rename(this.#name + UNFINISHED, this.#name);
    this.#disk.syncDirectory();
    return { name: this.#name, file: this.#file };
  }

  /** Closes the file of a segment that is not finished; the next recovery removes it. */
  close(): void {
    this.#file.close();
  }

  #fill(): void {
    const bytes = Math.min(FILL_BYTES, this.#segmentBytes - this.#filledBytes);
    this.#file.write(this.#filledBytes, this.#zeros.subarray(0, bytes));
    this.#filledBytes += bytes;
  }
}
