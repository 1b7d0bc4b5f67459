/**
 * A canister's stable memory: an address range of up to 500 GiB, with storage for the parts that were written.
 *
 * Stable memory grows in 64 KiB pages (the unit the canister sees) and lives in 4 KiB granules. A granule that was
 * never written has no storage and reads as zeros, so growing costs nothing, however far. A written granule is a slot
 * of the thread's `StablePagePool`; a two-level table finds the slot:
 *
 *     granule number ──┬── upper bits ──► #tables (Map)  ──► Int32Array of 1,024 entries, 4 MiB of addresses
 *                      └── lower 10 bits ─────────────────►  entry:  0        never written, zeros
 *                                                                    slot+1   as committed
 *                                                                   -slot-1   written by the message in progress
 *
 * Every write is journalled. The first write of a message to a granule takes a fresh slot, copies the old content there
 * and continues in the copy; the old slot stays untouched as the pre-image. `rollback` puts the old slots back,
 * `commit` gives them back to the pool. So either costs a few operations for each dirty granule and never copies a
 * page, and the sign of the entry answers "already dirty?" without a second structure.
 *
 * Nothing has to be called at a message's start: a message begins when the last one was committed or rolled back.
 *
 * Executor thread: touched by its own canister's messages, and between them when it is captured or loaded.
 */
import { numberAt } from '../../../kernel/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { copyBytes, PageEntries, type PageSink, PAGE_BYTES, SharedSlabs } from '../../bytes/index.ts';
import { inOneGo, type Pieces } from './pieces.ts';
import { StablePagePool } from './stable-pages.ts';

export { StablePagePool } from './stable-pages.ts';

/** 500 GiB, the limit of the interface specification. */
export const STABLE_PAGES_MAX = 8_192_000;

const TABLE_ENTRIES = 1024;
const TABLE_BYTES = TABLE_ENTRIES * PAGE_BYTES;
/** Granules processed between two pauses. */
const ENDED_GRANULES = 4096;
const IMAGE_GRANULES = 256;
const COMPARED_GRANULES = 128;
/** Tables whose granules are given back at once: up to 16 MiB. */
const CLEARED_TABLES = 4;

export class StableMemory {
  readonly #pool: StablePagePool;
  readonly #tables = new Map<number, Int32Array>();
  #pages = 0;

  // The journal of the message in progress.
  /** Granules in the order of their first write, and in step with them the entries they had before. */
  readonly #dirty: number[] = [];
  readonly #before: number[] = [];
  /**
   * Tables that this message created: a rollback must not leave them behind, or trapping messages would pile them up.
   */
  readonly #newTables: number[] = [];
  /** Free slots of the pool that are kept for the message. */
  #claims = 0;
  #pagesBefore = 0;

  // The table used last: most reads and writes stay within 4 MiB of the previous one.
  #lastKey = -1;
  #lastTable: Int32Array | undefined;

  constructor(pool: StablePagePool) {
    this.#pool = pool;
  }

  /** Size in pages of 64 KiB. */
  get pages(): number {
    return this.#pages;
  }

  get bytes(): number {
    return this.#pages * WASM_PAGE_BYTES;
  }

  /** Bytes that can be written without more memory. */
  get roomBytes(): number {
    return this.#pool.freeBytes;
  }

  /** Size in pages of 64 KiB when the message in progress began. */
  get pagesBefore(): number {
    return this.#pagesBefore;
  }

  /**
   * Granules that the message in progress has written, in the order of their first write; valid until commit or
   * rollback.
   */
  get dirtyGranules(): readonly number[] {
    return this.#dirty;
  }

  /** Bytes of the granules that have storage: the memory's real cost. */
  get storedBytes(): number {
    let stored = 0;
    for (const table of this.#tables.values())
      for (let index = 0; index < TABLE_ENTRIES; index++) if (table[index] !== 0) stored++;
    return stored * PAGE_BYTES;
  }

  /** Bytes of the tables that find the written granules. */
  get tableBytes(): number {
    return this.#tables.size * TABLE_ENTRIES * Int32Array.BYTES_PER_ELEMENT;
  }

  /** Grows by `pages`; returns the old size, or −1 if the new one would pass `pagesMax`. Allocates nothing. */
  grow(pages: number, pagesMax: number = STABLE_PAGES_MAX): number {
    const before = this.#pages;
    if (pages > pagesMax - before) return -1;
    this.#pages = before + pages;
    return before;
  }

  /**
   * Returns true if `[offset, offset + length)` lies within the memory. Numbers beyond 2^53 are simply out of bounds.
   */
  contains(offset: number, length: number): boolean {
    return offset + length <= this.bytes;
  }

  /** Copies `length` bytes from `offset` to `target[at…]`. The caller has checked the bounds. */
  read(offset: number, target: Uint8Array, at: number, length: number): void {
    let granule = Math.floor(offset / PAGE_BYTES);
    let within = offset - granule * PAGE_BYTES;
    let to = at;
    const end = at + length;
    while (to < end) {
      const table = this.#table(granule);
      if (table === undefined) {
        const inTable = (granule % TABLE_ENTRIES) * PAGE_BYTES + within;
        const part = Math.min(TABLE_BYTES - inTable, end - to);
        target.fill(0, to, to + part);
        to += part;
        granule += TABLE_ENTRIES - (granule % TABLE_ENTRIES);
        within = 0;
        continue;
      }
      const part = Math.min(PAGE_BYTES - within, end - to);
      // `?? 0` here and below: runs for each granule, and a table has TABLE_ENTRIES.
      const entry = table[granule % TABLE_ENTRIES] ?? 0;
      if (entry === 0) {
        target.fill(0, to, to + part);
      } else {
        const slot = slotOf(entry);
        copyBytes(this.#pool.slabOf(slot), StablePagePool.offsetOf(slot) + within, target, to, part);
      }
      to += part;
      granule++;
      within = 0;
    }
  }

  /**
   * Returns the number of granules that a write of `[offset, offset + length)` would dirty and that are still clean in
   * this message.
   */
  cleanGranules(offset: number, length: number): number {
    if (length === 0) return 0;
    const first = Math.floor(offset / PAGE_BYTES);
    const last = Math.floor((offset + length - 1) / PAGE_BYTES);
    let clean = 0;
    for (let granule = first; granule <= last;) {
      const table = this.#table(granule);
      const index = granule % TABLE_ENTRIES;
      if (table === undefined) {
        const next = Math.min(last + 1, granule - index + TABLE_ENTRIES);
        clean += next - granule;
        granule = next;
      } else {
        if ((table[index] ?? 0) >= 0) clean++;
        granule++;
      }
    }
    return clean;
  }

  /**
   * Keeps room for writing `granules` clean granules until the message ends, whoever else writes meanwhile. Throws as
   * `write` does.
   */
  reserve(granules: number): void {
    this.#pool.reserve(granules);
    this.#claims += granules;
  }

  /** Does the same with `take`, which may return false: not yet; returns false then (`StablePagePool.claim`). */
  claim(granules: number, take: (pages: number) => boolean): boolean {
    if (!this.#pool.claim(granules, take)) return false;
    this.#claims += granules;
    return true;
  }

  /**
   * Copies `source[at…]` to `[offset, offset + length)`. The caller has checked the bounds. Throws ServerError
   * `stable-memory-exhausted` if the thread's pool has no room; bytes written before that are journalled like the rest.
   */
  write(offset: number, source: Uint8Array, at: number, length: number): void {
    let granule = Math.floor(offset / PAGE_BYTES);
    let within = offset - granule * PAGE_BYTES;
    let from = at;
    const end = at + length;
    while (from < end) {
      const part = Math.min(PAGE_BYTES - within, end - from);
      const slot = this.#writable(granule, part === PAGE_BYTES);
      copyBytes(source, from, this.#pool.slabOf(slot), StablePagePool.offsetOf(slot) + within, part);
      from += part;
      granule++;
      within = 0;
    }
  }

  /**
   * Writes the bytes that the message in progress has changed, as page entries by granule. Must be called before commit
   * or rollback.
   */
  deltas(sink: PageSink): void {
    if (this.#dirty.length > 0) inOneGo(this.deltasInPieces(sink));
  }

  /** Does the same as `deltas`, in pieces. */
  *deltasInPieces(sink: PageSink): Pieces {
    if (this.#dirty.length === 0) return;
    const entries = new PageEntries(sink, this.#dirty.length);
    for (const [i, granule] of this.#dirty.entries()) {
      const after = slotOf(this.#entry(granule));
      const entryBefore = numberAt(this.#before, i, 'entry before the message');
      const before = entryBefore === 0 ? undefined : slotOf(entryBefore);
      entries.addChanged(
        granule,
        before === undefined ? undefined : this.#pool.slabOf(before),
        before === undefined ? 0 : StablePagePool.offsetOf(before),
        this.#pool.slabOf(after),
        StablePagePool.offsetOf(after),
      );
      if (i % COMPARED_GRANULES === COMPARED_GRANULES - 1) yield;
    }
    entries.end();
  }

  /** Writes everything that has storage, as page entries by granule, ascending: every granule that is not all zeros. */
  *image(sink: PageSink, pauseGranules = IMAGE_GRANULES): Pieces {
    const entries = new PageEntries(sink, Math.min(this.storedBytes / PAGE_BYTES, pauseGranules));
    yield* this.addTo(entries, pauseGranules);
    entries.end();
  }

  /** Does the same as `image`, for a collector of page entries. */
  *addTo(entries: PageEntries, pauseGranules = IMAGE_GRANULES): Pieces {
    for (const [key, table] of this.#tablesInOrder()) {
      // A table has a thousand places, most of them empty: making pairs of them would be waste.
      for (let index = 0; index < TABLE_ENTRIES; index++) {
        const entry = numberAt(table, index, 'entry of a table');
        if (entry === 0) continue;
        const slot = slotOf(entry);
        entries.addWhole(key * TABLE_ENTRIES + index, this.#pool.slabOf(slot), StablePagePool.offsetOf(slot));
        if (index % pauseGranules === pauseGranules - 1) yield;
      }
    }
  }

  /**
   * Returns the dirty granules' content as the message has made it, by number. Must be called before commit or
   * rollback.
   */
  dirtyContents(): Map<number, Uint8Array> {
    return new Map(this.#dirty.map((granule) => [granule, this.#content(this.#entry(granule))]));
  }

  /**
   * Returns the dirty granules' content as it was when the message began, by number. Must be called before commit or
   * rollback.
   */
  preImages(): Map<number, Uint8Array> {
    return new Map(
      this.#dirty.map((granule, i) => [granule, this.#content(numberAt(this.#before, i, 'entry before the message'))]),
    );
  }

  /**
   * Begins a message with another size and other content in some granules, which count as its writes and are reserved.
   */
  layOver(pages: number, granules: ReadonlyMap<number, Uint8Array>): void {
    this.#pages = pages;
    for (const [granule, bytes] of granules) this.write(granule * PAGE_BYTES, bytes, 0, bytes.length);
  }

  /**
   * Returns copies of all granules that have storage, by ascending offset, in runs of at most `runBytesMax` bytes;
   * pauses after each run.
   */
  *contents(runBytesMax: number): Generator<void, { offset: number; bytes: Uint8Array }[], void> {
    const runs: { offset: number; bytes: Uint8Array }[] = [];
    const slabs = new SharedSlabs();
    const runMax = Math.max(1, Math.floor(runBytesMax / PAGE_BYTES));
    let first = -1;
    let last = -2;
    const end = (): void => {
      if (first < 0) return;
      const offset = first * PAGE_BYTES;
      const bytes = slabs.take((last + 1 - first) * PAGE_BYTES);
      this.read(offset, bytes, 0, bytes.length);
      runs.push({ offset, bytes });
    };
    for (const [key, table] of this.#tablesInOrder()) {
      for (const [index, entry] of table.entries()) {
        if (entry === 0) continue;
        const granule = key * TABLE_ENTRIES + index;
        if (granule !== last + 1 || granule - first >= runMax) {
          end();
          if (first >= 0) yield;
          first = granule;
        }
        last = granule;
      }
    }
    end();
    return runs;
  }

  /** Returns the granules that have storage, in no particular order. */
  *granules(): Generator<number> {
    for (const [key, table] of this.#tables) {
      for (const [index, entry] of table.entries()) if (entry !== 0) yield key * TABLE_ENTRIES + index;
    }
  }

  #tablesInOrder(): [key: number, table: Int32Array][] {
    return [...this.#tables].sort(([a], [b]) => a - b);
  }

  #content(entry: number): Uint8Array {
    if (entry === 0) return new Uint8Array(PAGE_BYTES);
    const slot = slotOf(entry);
    const start = StablePagePool.offsetOf(slot);
    return this.#pool.slabOf(slot).slice(start, start + PAGE_BYTES);
  }

  /** Keeps the message's writes. */
  commit(): void {
    this.#keep(this.#dirty.length);
    this.#forgetJournal();
  }

  /** Does the same as `commit`, in pieces. */
  *commitInPieces(): Pieces {
    while (this.#dirty.length > ENDED_GRANULES) {
      this.#keep(ENDED_GRANULES);
      yield;
    }
    this.commit();
  }

  /** Keeps the last `count` granules that the message wrote. */
  #keep(count: number): void {
    for (let n = 0; n < count; n++) {
      const granule = lastOf(this.#dirty);
      this.#setEntry(granule, -this.#entry(granule));
      const before = lastOf(this.#before);
      if (before !== 0) this.#pool.give(slotOf(before));
    }
  }

  /** Undoes the message's writes, and its growth. */
  rollback(): void {
    this.#undo(this.#dirty.length);
    if (this.#newTables.length > 0) {
      for (const key of this.#newTables) this.#tables.delete(key);
      this.#pool.giveTables(this.#newTables.length);
      this.#lastKey = -1;
    }
    this.#pages = this.#pagesBefore;
    this.#forgetJournal();
  }

  /** Does the same as `rollback`, in pieces. */
  *rollbackInPieces(): Pieces {
    while (this.#dirty.length > ENDED_GRANULES) {
      this.#undo(ENDED_GRANULES);
      yield;
    }
    this.rollback();
  }

  /** Undoes the last `count` granules that the message wrote. */
  #undo(count: number): void {
    for (let n = 0; n < count; n++) {
      const granule = lastOf(this.#dirty);
      this.#pool.give(slotOf(this.#entry(granule)));
      this.#setEntry(granule, lastOf(this.#before));
    }
  }

  /**
   * Gives all storage back: the canister is gone or its stable memory was cleared. Ends the message in progress. For a
   * large memory this takes a while, and is left to the pool (`StablePagePool.release`).
   */
  clear(): void {
    this.rollback();
    if (this.#tables.size > CLEARED_TABLES) this.#pool.discard(this.#tables.values(), this.storedBytes / PAGE_BYTES);
    else for (const table of this.#tables.values()) this.#give(table);
    this.#pool.giveTables(this.#tables.size);
    this.#tables.clear();
    this.#lastKey = -1;
    this.#pages = 0;
    this.#pagesBefore = 0;
  }

  #give(table: Int32Array): void {
    for (let index = 0; index < TABLE_ENTRIES; index++) {
      const entry = numberAt(table, index, 'entry of a table');
      if (entry !== 0) this.#pool.give(slotOf(entry));
    }
  }

  #forgetJournal(): void {
    if (this.#newTables.length > 0) this.#newTables.length = 0;
    if (this.#claims > 0) {
      this.#pool.unclaim(this.#claims);
      this.#claims = 0;
    }
    this.#pagesBefore = this.#pages;
  }

  /**
   * Returns the slot for writing a granule's bytes, journalled. `isOverwritten`: all of the granule will be written, so
   * its old content need not be copied.
   */
  #writable(granule: number, isOverwritten: boolean): number {
    const before = this.#entry(granule);
    if (before < 0) return slotOf(before);
    const table = this.#table(granule) ?? this.#addTable(granule);
    const isClaimed = this.#claims > 0;
    if (isClaimed) this.#claims--;
    const slot = this.#pool.take(before === 0 && !isOverwritten, isClaimed);
    if (before !== 0 && !isOverwritten) {
      const old = slotOf(before);
      const start = StablePagePool.offsetOf(old);
      this.#pool
        .slabOf(slot)
        .set(this.#pool.slabOf(old).subarray(start, start + PAGE_BYTES), StablePagePool.offsetOf(slot));
    }
    table[granule % TABLE_ENTRIES] = -(slot + 1);
    this.#dirty.push(granule);
    this.#before.push(before);
    return slot;
  }

  #addTable(granule: number): Int32Array {
    const key = Math.floor(granule / TABLE_ENTRIES);
    this.#pool.takeTable();
    const table = new Int32Array(TABLE_ENTRIES);
    this.#tables.set(key, table);
    this.#newTables.push(key);
    this.#lastKey = key;
    this.#lastTable = table;
    return table;
  }

  #table(granule: number): Int32Array | undefined {
    const key = Math.floor(granule / TABLE_ENTRIES);
    if (key !== this.#lastKey) {
      this.#lastTable = this.#tables.get(key);
      this.#lastKey = key;
    }
    return this.#lastTable;
  }

  #entry(granule: number): number {
    return this.#table(granule)?.[granule % TABLE_ENTRIES] ?? 0;
  }

  #setEntry(granule: number, entry: number): void {
    const table = this.#table(granule);
    if (table !== undefined) table[granule % TABLE_ENTRIES] = entry;
  }
}

/** Removes and returns the last number. */
function lastOf(numbers: number[]): number {
  const last = numbers.pop();
  if (last === undefined) throw new Error('the journal of a stable memory has fewer granules than it says');
  return last;
}

function slotOf(entry: number): number {
  return Math.abs(entry) - 1;
}
