/**
 * Counts the room for canisters that are awake: so many places, so many bytes, and one place beside those for a
 * canister that is larger than all bytes together. Such a canister does not count among the bytes: if it did, nobody
 * else could be awake while it is, nor while it is being woken, which takes seconds.
 *
 * Main thread; counts.
 */
import { assert } from '../../kernel/index.ts';
import { type LruNode, lruNodeOf } from './lru-list.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

export interface LiveBounds {
  /** The most canisters that are awake; 0 is no limit. */
  readonly liveCap?: number;
  /** The most bytes of heap and stable memory that the awake ones have; 0 is no limit. */
  readonly liveBytes?: number;
}

/**
 * The thing that there is too little of: places, bytes for canisters that fit into them, the place of one that does
 * not, or memory.
 */
export type Lack = 'place' | 'bytes' | 'oversizedPlace' | 'memory';

/** Room that some canisters would give back. */
export class Freed {
  places = 0;
  bytes = 0;
  oversized = 0;
  /** Bytes of large ones. */
  largeBytes = 0;
}

export class LivePlaces {
  readonly cap: number;
  readonly bytesMax: number;
  readonly #sizeOf: (canister: ScheduledCanister) => number;
  /** Places of canisters that are awake or waking. */
  #places = 0;
  #oversized = 0;
  /** Bytes of the canisters that fit. */
  #bytes = 0;

  constructor({ liveCap = 0, liveBytes = 0 }: LiveBounds, sizeOf: (canister: ScheduledCanister) => number) {
    this.cap = liveCap;
    this.bytesMax = liveBytes;
    this.#sizeOf = sizeOf;
  }

  /** Returns what the canister counts in bytes: 0 if bytes are not bounded, since its size is not asked for then. */
  bytesOf(canister: ScheduledCanister): number {
    return this.bytesMax === 0 ? 0 : this.#sizeOf(canister);
  }

  isOversized(bytes: number): boolean {
    return this.bytesMax > 0 && bytes > this.bytesMax;
  }

  take(canister: ScheduledCanister): void {
    canister.expect('take a place', 'live', 'loading');
    this.#places++;
    this.#count(lruNodeOf(canister), this.bytesOf(canister), 1);
  }

  release(canister: ScheduledCanister): void {
    this.#places--;
    const node = canister.lruNode;
    assert(node !== undefined, 'a canister that has no place cannot give it back');
    this.#count(node, node.bytes, -1);
    canister.lruNode = undefined;
  }

  /** The canister may have another size now. */
  recount(canister: ScheduledCanister): void {
    if (this.bytesMax === 0) return;
    const node = lruNodeOf(canister);
    this.#count(node, node.bytes, -1);
    this.#count(node, this.bytesOf(canister), 1);
  }

  #count(node: LruNode<ScheduledCanister>, bytes: number, sign: 1 | -1): void {
    node.bytes = bytes;
    if (this.isOversized(bytes)) this.#oversized += sign;
    else this.#bytes += sign * bytes;
  }

  /** Returns what is lacking for one more canister of that size, when `freed` has been given back. */
  lackFor(bytes: number, freed: Freed): Lack | undefined {
    if (this.cap > 0 && this.#places - freed.places + 1 > this.cap) return 'place';
    if (this.isOversized(bytes)) return this.#oversized - freed.oversized > 0 ? 'oversizedPlace' : undefined;
    return this.bytesMax > 0 && this.#bytes - freed.bytes + bytes > this.bytesMax ? 'bytes' : undefined;
  }

  /** The thing that is lacking for canisters that have their places. */
  get excess(): Lack | undefined {
    if (this.cap > 0 && this.#places > this.cap) return 'place';
    if (this.#oversized > 1) return 'oversizedPlace';
    return this.bytesMax > 0 && this.#bytes > this.bytesMax ? 'bytes' : undefined;
  }

  /** Tells whether there is more of what is lacking when that canister sleeps. */
  helps(lack: Lack, canister: ScheduledCanister): boolean {
    if (lack === 'place' || lack === 'memory') return true;
    const bytes = canister.lruNode?.bytes ?? 0;
    return lack === 'bytes' ? bytes > 0 && !this.isOversized(bytes) : this.isOversized(bytes);
  }

  /** Adds what a canister that is awake would give back. */
  free(canister: ScheduledCanister, freed: Freed): void {
    const bytes = canister.lruNode?.bytes ?? 0;
    freed.places++;
    if (this.isOversized(bytes)) freed.oversized++;
    else freed.bytes += bytes;
  }
}
