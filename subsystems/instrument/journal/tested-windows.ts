/**
 * The facts of store-coverage.ts: windows of SPILL_BYTES that are tested. A window begins `start` bytes after `value +
 * constant`, where `value` is a value number; newer facts stand behind older ones.
 */
import { SPILL_BYTES } from '../abi/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';

/** Limit on the facts that a search looks at, newest first. */
const FACTS_SEARCHED_MAX = 64;

export class TestedWindows {
  #value = new Int32Array(256);
  #constant = new Float64Array(256);
  #start = new Float64Array(256);
  /** Number of facts; a smaller number forgets the newest. */
  count = 0;

  /** Returns true if a window includes the store of `bytes` at `value + constant + offset`. */
  cover(value: number, constant: number, offset: number, bytes: number): boolean {
    const oldest = Math.max(0, this.count - FACTS_SEARCHED_MAX);
    for (let k = this.count - 1; k >= oldest; k--) {
      if (this.#value[k] !== value) continue;
      const distance = constant - (this.#constant[k] ?? 0);
      if (distance <= -PAGE_BYTES || distance >= PAGE_BYTES) continue;
      const start = this.#start[k] ?? 0;
      if (distance + offset >= start && distance + offset + bytes <= start + SPILL_BYTES) return true;
    }
    return false;
  }

  add(value: number, constant: number, start: number): void {
    if (this.count === this.#value.length) {
      this.#value = doubled(this.#value, Int32Array);
      this.#constant = doubled(this.#constant, Float64Array);
      this.#start = doubled(this.#start, Float64Array);
    }
    const k = this.count++;
    this.#value[k] = value;
    this.#constant[k] = constant;
    this.#start[k] = start;
  }
}

/** Returns a copy of twice the length. */
export function doubled<T extends Int32Array | Float64Array>(values: T, Kind: new (length: number) => T): T {
  const grown = new Kind(values.length * 2);
  grown.set(values);
  return grown;
}
