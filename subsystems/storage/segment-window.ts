import type { DiskFile } from './disk.ts';
import { corrupt } from './step-log-format.ts';

/** Bytes that are read at once: the memory stays small, and a system call is a small part of the time of a read. */
const WINDOW_BYTES = 2 ** 20;
const ZEROS = Buffer.alloc(64 * 1024);

/**
 * A piece of a segment in memory, which follows whoever reads. All places are bytes from the segment's beginning and
 * multiples of 8. The next `load` may overwrite what the one before it returned.
 */
export class SegmentWindow {
  readonly #windowBytes: number;
  #buffer: Buffer<ArrayBuffer>;
  #words: Uint32Array;
  #segment: { readonly name: string; readonly file: DiskFile; readonly bytes: number } | undefined;
  /** Places in the segment at which the piece begins and ends. */
  #from = 0;
  #to = 0;

  constructor(windowBytes = WINDOW_BYTES) {
    this.#windowBytes = windowBytes;
    this.#buffer = Buffer.from(new ArrayBuffer(0));
    this.#words = new Uint32Array(0);
  }

  /** Goes to another segment; the file has `bytes`. */
  open({ name, file }: { readonly name: string; readonly file: DiskFile }, bytes: number): void {
    if (this.#segment?.file === file) return;
    this.#segment = { name, file, bytes };
    this.#from = this.#to = 0;
  }

  /**
   * Returns the bytes at `from`: at least `length` bytes, or all up to the segment's end. Throws ServerError
   * `state-corrupt`.
   */
  load(from: number, length: number): Buffer {
    this.#reach(from, length);
    return this.#buffer.subarray(from - this.#from, this.#to - this.#from);
  }

  /**
   * The first place from `from` on whose first six bytes are a number from `lowest`, not 0, to `highest`, or the
   * segment's end. Throws ServerError `state-corrupt`.
   */
  seek(from: number, lowest: number, highest: number): number {
    const end = this.#segment?.bytes ?? 0;
    for (let at = from; at < end;) {
      this.#reach(at, 8);
      const words = this.#words;
      const last = this.#to - this.#from;
      for (let offset = at - this.#from; offset < last;) {
        const stop = Math.min(last, offset + ZEROS.length);
        // All of it at once: a start reads some 30 MB of zeros, and nothing is compiled yet.
        if (this.#buffer.compare(ZEROS, 0, stop - offset, offset, stop) === 0) offset = stop;
        for (; offset < stop; offset += 8) {
          const word = offset >> 2;
          const number = (words[word] ?? 0) + ((words[word + 1] ?? 0) & 0xffff) * 2 ** 32;
          if (number >= lowest && number <= highest) return this.#from + offset;
        }
      }
      at = this.#to;
    }
    return end;
  }

  #reach(from: number, length: number): void {
    const segment = this.#segment;
    if (segment === undefined) return;
    const wanted = Math.min(length, segment.bytes - from);
    if (from >= this.#from && from + wanted <= this.#to) return;
    const bytes = Math.min(Math.max(this.#windowBytes, wanted), segment.bytes - from);
    if (this.#buffer.length < bytes) {
      const memory = new ArrayBuffer(Math.ceil(bytes / 8) * 8);
      this.#buffer = Buffer.from(memory);
      this.#words = new Uint32Array(memory);
    }
    this.#from = this.#to = from;
    if (segment.file.read(from, this.#buffer.subarray(0, bytes)) < bytes) throw corrupt(`${segment.name} is cut off`);
    this.#to = from + bytes;
  }
}
