/** Executor thread: one pool for all canisters of the thread. Takes from the budget that all threads share. */
import { PAGE_BYTES } from '../../bytes/index.ts';
import { assert, ServerError } from '../../../kernel/index.ts';
import { MemoryBudget } from './memory-budget.ts';

const SLAB_SLOTS = 256;
const SLAB_PAGES = (SLAB_SLOTS * PAGE_BYTES) / PAGE_BYTES;
/** Pages of one table: 1,024 entries of 4 bytes. */
const TABLE_PAGES = 1;
/** Number of discarded tables that are released at once: 16 MiB, one or two milliseconds. */
const RELEASED_TABLES = 4;
/** Free slots up to which all are kept for later: 64 MiB. Beyond, as many are kept as are in use, up to this. */
const SPARE_SLOTS = 64 * SLAB_SLOTS;

/**
 * Memory behind every stable memory of one executor thread: slots of 4 KiB, cut from slabs of 1 MiB.
 *
 * One pool for all canisters needs no JavaScript object for a page (a page is a number here), lets slots that one
 * canister gives back serve the next, and gives the thread one number that bounds it: `bytesMax`. Slabs count in the
 * budget that all actors share; when many are unused, they are given back. Making a slab takes up to half a
 * millisecond: room for slabs is taken when it is reserved, and each slab is made when it is used.
 */
export class StablePagePool {
  readonly #slotsMax: number;
  readonly #budget: MemoryBudget;
  /** Undefined: the slab was given back, and its number is free for a new one. */
  readonly #slabs: (Uint8Array | undefined)[] = [];
  readonly #freeSlabs: number[] = [];
  #free: number[] = [];
  /** Tables of memories that are gone, whose slots are free and not yet in `#free`; and the number of these slots. */
  readonly #discarded: Int32Array[] = [];
  #discardedSlots = 0;
  /** Slabs for which room is taken, and which are not made yet. */
  #promised = 0;
  #slots = 0;
  /** Free slots that belong to writes under way: those take them, and nobody else. */
  #claimed = 0;
  /** Number of free slots above which slabs are looked through. */
  #freeMax = SPARE_SLOTS;
  /** True while free slots are about to be used: then the thread must not give them back as spare. */
  #isReserving = false;

  constructor(bytesMax: number, budget: MemoryBudget = MemoryBudget.unbounded()) {
    this.#slotsMax = Math.floor(bytesMax / PAGE_BYTES);
    this.#budget = budget;
  }

  /** Slots in use. */
  get used(): number {
    return this.#slots - this.#free.length - this.#discardedSlots;
  }

  /** Bytes that can be taken without another slab. */
  get freeBytes(): number {
    return this.#freeSlots * PAGE_BYTES;
  }

  /** Slots that anybody can take without more room. */
  get #freeSlots(): number {
    return this.#free.length + this.#promised * SLAB_SLOTS + this.#discardedSlots - this.#claimed;
  }

  /** Pages that the budget counts for slabs. */
  get slabPages(): number {
    return (this.#slabs.length - this.#freeSlabs.length + this.#promised) * SLAB_PAGES;
  }

  /** Number of slots that can still be taken within the thread's own bound. */
  get left(): number {
    return this.#slotsMax - this.used;
  }

  /** Free slots that are neither claimed nor in tables of memories that are gone: claims are served from these. */
  get #nobodysSlots(): number {
    return this.#freeSlots - this.#discardedSlots;
  }

  /**
   * Takes a slot with undefined content, or zeros if `isZeroed`. `isClaimed`: it is one of those that the caller has
   * claimed. Throws ServerError `stable-memory-exhausted` if none is left.
   */
  take(isZeroed: boolean, isClaimed = false): number {
    if (isClaimed) this.#claimed--;
    else if (this.#claimed > 0 || this.#free.length === 0)
      this.#hasRoomFor(1, (pages) => this.#orNoRoom(this.#budget.takeOrWaitRarely(pages)));
    if (this.#free.length === 0 && this.hasDiscarded) this.release(Number.POSITIVE_INFINITY);
    if (this.#free.length === 0) this.#addSlab();
    const slot = this.#free.pop();
    // A fallback to slot 0 would give the slot to two canisters.
    assert(slot !== undefined, 'room for a slot was reserved, and none is free');
    if (isZeroed) {
      const start = StablePagePool.offsetOf(slot);
      this.slabOf(slot).fill(0, start, start + PAGE_BYTES);
    }
    return slot;
  }

  give(slot: number): void {
    this.#free.push(slot);
    if (this.#nobodysSlots > this.#freeMax) this.trim(Math.min(SPARE_SLOTS, this.used));
  }

  /** Takes back `slots` slots of the memory that has these tables. They are free at once; `release` does the work. */
  discard(tables: Iterable<Int32Array>, slots: number): void {
    this.#discarded.push(...tables);
    this.#discardedSlots += slots;
  }

  get hasDiscarded(): boolean {
    return this.#discarded.length > 0;
  }

  /**
   * Does some of the remaining work for memories that are gone: gives back slabs that are free as a whole, and keeps
   * about `slotsKept` free slots.
   */
  release(slotsKept = Math.min(SPARE_SLOTS, this.used)): void {
    const bySlab = new Map<number, number[]>();
    for (const table of this.#discarded.splice(-RELEASED_TABLES)) {
      for (const entry of table) {
        if (entry === 0) continue;
        const slot = entry - 1;
        const own = bySlab.get(slot >> 8);
        if (own === undefined) bySlab.set(slot >> 8, [slot]);
        else own.push(slot);
      }
    }
    for (const [slab, own] of bySlab) {
      const isExcess = own.length === this.#slotsIn(slab) && this.#freeSlots > slotsKept;
      this.#discardedSlots -= own.length;
      if (isExcess) this.#dropSlab(slab);
      else this.#free.push(...own);
    }
  }

  /**
   * Keeps `slots` slots for the caller, all at once: `take` or `unclaim` ends that. Throws as `take` does, and then has
   * nothing more than before.
   */
  reserve(slots: number): void {
    this.claim(slots, (pages) => this.#orNoRoom(this.#budget.take(pages)));
  }

  #orNoRoom(isTaken: boolean): true {
    if (isTaken) return true;
    this.#budget.refused();
    throw noRoom(this.#budget.explain('stable memory cannot be written'));
  }

  /**
   * Does the same as `reserve` with `take`, which takes pages from the budget, or throws, or returns false: not yet.
   * Returns false then, and has reserved nothing.
   */
  claim(slots: number, take: (pages: number) => boolean): boolean {
    if (!this.#hasRoomFor(slots, take)) return false;
    this.#claimed += slots;
    return true;
  }

  unclaim(slots: number): void {
    this.#claimed -= slots;
  }

  /** Takes room for `slots` slots that are not claimed, if there are not so many; returns false as `claim` does. */
  #hasRoomFor(slots: number, take: (pages: number) => boolean): boolean {
    // Discarded slabs may be given back before their slots are taken.
    while (this.hasDiscarded && slots > this.#nobodysSlots) this.release(Number.POSITIVE_INFINITY);
    const missing = slots - this.#nobodysSlots;
    if (missing <= 0) return true;
    const rest = this.#slotsMax - this.#slots - this.#promised * SLAB_SLOTS;
    if (missing > rest) throw exhausted(this.#slotsMax);
    const slabs = Math.ceil(missing / SLAB_SLOTS);
    this.#isReserving = true;
    try {
      if (!take(slabs * SLAB_PAGES)) return false;
    } finally {
      this.#isReserving = false;
    }
    this.#promised += slabs;
    return true;
  }

  /** Gives back slabs that are free as a whole; keeps about `slotsKept` free slots. */
  trim(slotsKept: number): void {
    if (this.#isReserving) return;
    // All free slots have to be given back.
    while (slotsKept === 0 && this.hasDiscarded) this.release(0);
    const most = Math.min(this.#freeSlots - slotsKept, this.#nobodysSlots);
    const unmade = Math.min(this.#promised, Math.max(0, Math.floor(most / SLAB_SLOTS)));
    this.#promised -= unmade;
    this.#budget.free(unmade * SLAB_PAGES);
    const freeIn = new Map<number, number>();
    for (const slot of this.#free) freeIn.set(slot >> 8, (freeIn.get(slot >> 8) ?? 0) + 1);
    let excess = this.#freeSlots - slotsKept;
    let nobodys = this.#nobodysSlots;
    for (const [slab, free] of freeIn) {
      if (excess <= 0 || nobodys < free) break;
      if (free < this.#slotsIn(slab)) continue;
      excess -= free;
      nobodys -= free;
      this.#dropSlab(slab);
    }
    this.#free = this.#free.filter((slot) => this.#slabs[slot >> 8] !== undefined);
    this.#freeMax = Math.max(SPARE_SLOTS, 2 * this.#freeSlots);
  }

  /** Makes a promised slab. Throws ServerError if the machine has no memory for it. */
  #addSlab(): void {
    const slots = Math.min(SLAB_SLOTS, this.#slotsMax - this.#slots);
    let slab: Uint8Array;
    assert(this.#promised > 0, 'a slab is made for which no room was taken');
    this.#promised--;
    try {
      slab = new Uint8Array(slots * PAGE_BYTES);
    } catch (cause) {
      this.#budget.free(SLAB_PAGES);
      throw noRoom('stable memory cannot be written: the machine has no memory left', cause);
    }
    const number = this.#freeSlabs.pop() ?? this.#slabs.length;
    this.#slabs[number] = slab;
    this.#slots += slots;
    // The slab's first slot is taken first.
    for (let k = slots - 1; k >= 0; k--) this.#free.push(number * SLAB_SLOTS + k);
  }

  /** Counts another table with which a canister finds its slots. Throws as `take` does. */
  takeTable(): void {
    this.#orNoRoom(this.#budget.takeOrWaitRarely(TABLE_PAGES));
  }

  giveTables(count: number): void {
    this.#budget.free(count * TABLE_PAGES);
  }

  #dropSlab(number: number): void {
    const slab = this.#slabs[number];
    if (slab === undefined) return;
    this.#slots -= this.#slotsIn(number);
    this.#slabs[number] = undefined;
    this.#freeSlabs.push(number);
    // Frees the memory at once, not when the slab is collected.
    (slab.buffer as ArrayBuffer).transfer(0);
    this.#budget.free(SLAB_PAGES);
  }

  #slotsIn(slab: number): number {
    return (this.#slabs[slab]?.length ?? 0) / PAGE_BYTES;
  }

  /** Returns the slab that holds `slot`; the slot begins at `offsetOf(slot)` in it. */
  slabOf(slot: number): Uint8Array {
    const slab = this.#slabs[slot >> 8];
    if (slab === undefined) throw new Error(`stable page slot ${slot} was never issued`);
    return slab;
  }

  static offsetOf(slot: number): number {
    return (slot & (SLAB_SLOTS - 1)) * PAGE_BYTES;
  }
}

function exhausted(slotsMax: number): ServerError {
  const mebibytes = (slotsMax * PAGE_BYTES) / (1 << 20);
  return noRoom(
    `stable memory cannot be written: one executor thread holds at most ${mebibytes} MiB of it for all its actors, and all of that is in use`,
  );
}

function noRoom(message: string, cause?: unknown): ServerError {
  return new ServerError('unavailable', 'stable-memory-exhausted', message, { cause });
}
