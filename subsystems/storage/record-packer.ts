import type { PackedRecords } from './index.ts';

const FIRST_BYTES = 4096;
const FIRST_RECORDS = 256;

/** Puts byte strings one after the other, as they come. */
export class RecordPacker {
  #bytes = new Uint8Array(FIRST_BYTES);
  #ends = new Uint32Array(FIRST_RECORDS);
  #length = 0;
  #records = 0;

  add(record: Uint8Array): void {
    const at = this.#length;
    this.#length += record.length;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length));
      larger.set(this.#bytes.subarray(0, at));
      this.#bytes = larger;
    }
    this.#bytes.set(record, at);
    if (this.#records === this.#ends.length) {
      const larger = new Uint32Array(this.#records * 2);
      larger.set(this.#ends);
      this.#ends = larger;
    }
    this.#ends[this.#records++] = this.#length;
  }

  /** Returns the records that were added. The caller owns the result: the buffers have nothing else in them. */
  take(): PackedRecords {
    return { bytes: this.#bytes.slice(0, this.#length), ends: this.#ends.slice(0, this.#records) };
  }
}
