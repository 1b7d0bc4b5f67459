/**
 * Which keys of one actor have been answered, and where the answers are, in the order in which they came: 24 bytes an
 * entry and 4 for its bucket, half of them in use at least, and nothing for V8 to look through.
 *
 *     entries   a ring: hash · row · offset · bytes · 2 + open · seconds · link to the next one in its bucket
 *     buckets   link to the newest entry
 *     link      the number of an entry, as it was added, + 1; 0: none. The ring's mask makes a place of it
 *
 * New entries go in front of their bucket's chain, so the oldest one of all is always the last of its own: to remove it
 * is to count on, and the link to it, which then leads to a number that is not in use, ends its chain. Nobody has to
 * look for that link. A hash says who may be there; the answer's record says who is.
 *
 * Nothing is done to all entries at once (linear hashing): where there are more entries than buckets, each new one
 * divides one bucket, the next in their order. When the arrays are full they are copied, and links stay what they are.
 *
 * Main thread: plain data. The longest it holds anybody up is when a full ring of 260,000 entries, 6 MiB, is copied.
 */
import { assert } from '../../../kernel/index.ts';

const FIELDS = 6;
const HASH = 0;
const ROW = 1;
const OFFSET = 2;
const BYTES = 3;
const SECONDS = 4;
const NEXT = 5;

const FIRST_ENTRIES = 8;
/**
 * Links are below 2^31, so that counting on from them stays exact; long before they come again, their entries are gone,
 * and their buckets have been written to: there are not more buckets than there were keys at once.
 */
const LINK_MASK = 2 ** 30 - 1;

/** Facts about an answer. All numbers are below 2^32. */
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
  /** Mask of the ring's indices. */
  #mask = FIRST_ENTRIES - 1;
  /** Number of the oldest entry. */
  #first = 0;
  #count = 0;
  #buckets = new Uint32Array(FIRST_ENTRIES);
  /** Buckets that hashes had when all of them were last divided: a power of two. */
  #low = FIRST_ENTRIES;
  /** Number of chains that have been divided since, each into itself and the one `#low` behind it. */
  #divided = 0;

  get count(): number {
    return this.#count;
  }

  /** `bytes` are below 2^31; `isOpen`: the client had shown no token. */
  add(hash: number, row: number, offset: number, bytes: number, seconds: number, isOpen = false): void {
    if (this.#count > this.#mask) this.#growRing();
    const number = (this.#first + this.#count++) & LINK_MASK;
    const entries = this.#entries;
    const at = (number & this.#mask) * FIELDS;
    entries[at + HASH] = hash;
    entries[at + ROW] = row;
    entries[at + OFFSET] = offset;
    entries[at + BYTES] = bytes * 2 + (isOpen ? 1 : 0);
    entries[at + SECONDS] = seconds;
    const bucket = this.#bucketOf(hash);
    entries[at + NEXT] = this.#buckets[bucket] ?? 0;
    this.#buckets[bucket] = number + 1;
    if (this.#count > this.#low + this.#divided) this.#divideBucket();
  }

  /** Row of the oldest entry; -1: there is none. */
  get oldestRow(): number {
    return this.#count === 0 ? -1 : this.#oldest(ROW);
  }

  get oldestBytes(): number {
    return this.#count === 0 ? 0 : this.#oldest(BYTES) >>> 1;
  }

  /** True if the client of the oldest entry had shown no token. */
  get isOldestOpen(): boolean {
    return this.#count > 0 && (this.#oldest(BYTES) & 1) === 1;
  }

  /** When the oldest entry was given, s since 1970; Infinity: there is none. */
  get oldestSeconds(): number {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : this.#oldest(SECONDS);
  }

  /** Entries with that hash, the newest first. */
  withHash(hash: number): readonly KeyEntry[] {
    const entries = this.#entries;
    let found: KeyEntry[] | undefined;
    for (let link = this.#buckets[this.#bucketOf(hash)] ?? 0; this.#isThere(link);) {
      const at = this.#placeOf(link);
      if (entries[at + HASH] === hash) (found ??= []).push(this.#entryAt(at));
      link = entries[at + NEXT] ?? 0;
    }
    return found ?? NONE;
  }

  removeOldest(): void {
    assert(this.#count > 0, 'there is no key to be removed');
    this.#first = (this.#first + 1) & LINK_MASK;
    this.#count--;
  }

  #oldest(field: number): number {
    return this.#entries[(this.#first & this.#mask) * FIELDS + field] ?? 0;
  }

  /** Returns true if a link leads to an entry that has not been removed. */
  #isThere(link: number): boolean {
    return link !== 0 && ((link - 1 - this.#first) & LINK_MASK) < this.#count;
  }

  #placeOf(link: number): number {
    return ((link - 1) & this.#mask) * FIELDS;
  }

  #entryAt(at: number): KeyEntry {
    const entries = this.#entries;
    return {
      hash: entries[at + HASH] ?? 0,
      row: entries[at + ROW] ?? 0,
      offset: entries[at + OFFSET] ?? 0,
      bytes: (entries[at + BYTES] ?? 0) >>> 1,
      seconds: entries[at + SECONDS] ?? 0,
    };
  }

  #bucketOf(hash: number): number {
    const bucket = hash & (this.#low - 1);
    return bucket < this.#divided ? hash & (2 * this.#low - 1) : bucket;
  }

  /** The chains of both keep the order that they had as one. */
  #divideBucket(): void {
    const [stays, goes] = [this.#divided, this.#divided + this.#low];
    if (goes >= this.#buckets.length) this.#growBuckets();
    const [entries, buckets] = [this.#entries, this.#buckets];
    let link = buckets[stays] ?? 0;
    buckets[stays] = 0;
    buckets[goes] = 0;
    let [lastOfStays, lastOfGoes] = [-1, -1];
    while (this.#isThere(link)) {
      const at = this.#placeOf(link);
      if (((entries[at + HASH] ?? 0) & this.#low) === 0) {
        if (lastOfStays < 0) buckets[stays] = link;
        else entries[lastOfStays + NEXT] = link;
        lastOfStays = at;
      } else {
        if (lastOfGoes < 0) buckets[goes] = link;
        else entries[lastOfGoes + NEXT] = link;
        lastOfGoes = at;
      }
      link = entries[at + NEXT] ?? 0;
    }
    if (lastOfStays >= 0) entries[lastOfStays + NEXT] = 0;
    if (lastOfGoes >= 0) entries[lastOfGoes + NEXT] = 0;
    if (++this.#divided < this.#low) return;
    this.#low *= 2;
    this.#divided = 0;
  }

  #growBuckets(): void {
    const before = this.#buckets;
    this.#buckets = new Uint32Array(2 * before.length);
    this.#buckets.set(before);
  }

  /** Each entry goes where its number says in a ring of twice the size. */
  #growRing(): void {
    const [before, capacity] = [this.#entries, this.#mask + 1];
    const entries = new Uint32Array(2 * capacity * FIELDS);
    const mask = 2 * capacity - 1;
    // The ring is full: from the oldest entry to the end of the old one, and what had wrapped around it.
    const wrapped = this.#first & this.#mask;
    entries.set(before.subarray(wrapped * FIELDS), (this.#first & mask) * FIELDS);
    entries.set(before.subarray(0, wrapped * FIELDS), ((this.#first + capacity - wrapped) & mask) * FIELDS);
    this.#entries = entries;
    this.#mask = mask;
  }
}

const NONE: readonly KeyEntry[] = [];
