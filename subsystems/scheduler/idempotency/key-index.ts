/**
 * Which keys of one actor have been answered, and where the answers are, in the order in which they came: 24 bytes an entry
 * and 4 for its bucket, half of them in use at least, and nothing for V8 to look through.
 *
 *     entries   a ring: hash · row · offset · bytes · seconds · slot of the next one in its bucket (+ 1; 0: none)
 *     buckets   slot of the newest entry (+ 1; 0: none)
 *
 * New entries go in front of their bucket's chain, so the oldest one of all is always the last of its own. A hash says who may
 * be there; the answer's record says who is.
 *
 * Main thread: plain data. The longest it holds anybody up is when it grows: 260,000 entries take about 10 ms.
 */
import { assert, numberAt } from '../../../kernel/index.ts';

const FIELDS = 6;
const HASH = 0;
const ROW = 1;
const OFFSET = 2;
const BYTES = 3;
const SECONDS = 4;
const NEXT = 5;

const FIRST_ENTRIES = 8;

/** What is known of an answer. All below 2^32. */
export interface KeyEntry {
  readonly hash: number;
  /** The lowest 32 bits of its row's number. */
  readonly row: number;
  readonly offset: number;
  readonly bytes: number;
  /** When it was given, s since 1970. */
  readonly seconds: number;
}

/** Memory of an entry, of which the ring may have as many again that are not used. */
export const INDEX_BYTES_PER_KEY = (FIELDS + 1) * 4;

export class KeyIndex {
  #entries = new Uint32Array(FIRST_ENTRIES * FIELDS);
  #buckets = new Uint32Array(FIRST_ENTRIES);
  #mask = FIRST_ENTRIES - 1;
  #first = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(hash: number, row: number, offset: number, bytes: number, seconds: number): void {
    if (this.#count > this.#mask) this.#grow();
    const slot = (this.#first + this.#count++) & this.#mask;
    const entries = this.#entries;
    const at = slot * FIELDS;
    entries[at + HASH] = hash;
    entries[at + ROW] = row;
    entries[at + OFFSET] = offset;
    entries[at + BYTES] = bytes;
    entries[at + SECONDS] = seconds;
    this.#link(slot, hash);
  }

  /** Row of the oldest entry; -1: there is none. */
  get oldestRow(): number {
    return this.#count === 0 ? -1 : this.#field(this.#first, ROW);
  }

  get oldestBytes(): number {
    return this.#count === 0 ? 0 : this.#field(this.#first, BYTES);
  }

  /** When the oldest entry was given, s since 1970; Infinity: there is none. */
  get oldestSeconds(): number {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : this.#field(this.#first, SECONDS);
  }

  /** Entries with that hash, the newest first. */
  withHash(hash: number): readonly KeyEntry[] {
    let found: KeyEntry[] | undefined;
    for (let link = this.#newestIn(hash & this.#mask); link !== 0;) {
      const slot = link - 1;
      if (this.#field(slot, HASH) === hash) (found ??= []).push(this.#entryAt(slot));
      link = this.#field(slot, NEXT);
    }
    return found ?? NONE;
  }

  removeOldest(): void {
    assert(this.#count > 0, 'there is no key to be removed');
    const gone = this.#first + 1;
    const bucket = this.#field(this.#first, HASH) & this.#mask;
    let link = this.#newestIn(bucket);
    if (link === gone) this.#buckets[bucket] = 0;
    else {
      for (;;) {
        const next = this.#field(link - 1, NEXT);
        if (next === gone) break;
        assert(next !== 0, 'a key is not in its bucket');
        link = next;
      }
      this.#entries[(link - 1) * FIELDS + NEXT] = 0;
    }
    this.#first = gone & this.#mask;
    this.#count--;
  }

  #field(slot: number, field: number): number {
    return numberAt(this.#entries, slot * FIELDS + field, 'field of a key');
  }

  /** Slot of the newest entry of a bucket (+ 1; 0: none). */
  #newestIn(bucket: number): number {
    return numberAt(this.#buckets, bucket, 'bucket');
  }

  #entryAt(slot: number): KeyEntry {
    return {
      hash: this.#field(slot, HASH),
      row: this.#field(slot, ROW),
      offset: this.#field(slot, OFFSET),
      bytes: this.#field(slot, BYTES),
      seconds: this.#field(slot, SECONDS),
    };
  }

  #link(slot: number, hash: number): void {
    const bucket = hash & this.#mask;
    this.#entries[slot * FIELDS + NEXT] = this.#newestIn(bucket);
    this.#buckets[bucket] = slot + 1;
  }

  #grow(): void {
    const [before, first] = [this.#entries, this.#first];
    const capacity = this.#buckets.length;
    this.#entries = new Uint32Array(2 * capacity * FIELDS);
    this.#entries.set(before.subarray(first * FIELDS));
    this.#entries.set(before.subarray(0, first * FIELDS), (capacity - first) * FIELDS);
    this.#buckets = new Uint32Array(2 * capacity);
    this.#mask = 2 * capacity - 1;
    this.#first = 0;
    for (let slot = 0; slot < this.#count; slot++) this.#link(slot, this.#field(slot, HASH));
  }
}

const NONE: readonly KeyEntry[] = [];
