/**
 * Gives back the memory that a thread keeps and that no canister uses: spare heaps, journals of spare engines, free
 * slabs of stable memory, packed canisters, and garbage.
 *
 * Large heaps and journals go back in pieces (page-returns.ts), a piece between two pieces of other work, so nobody
 * waits for a gigabyte. The rest goes at once when memory is wanted: in some milliseconds, or some tens with a
 * collection of garbage.
 *
 * Executor thread; touches memory that no canister has.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { SharedStores } from '../engine/engine.ts';
import { inOneGo } from '../memory/pieces.ts';
import type { HeapGarbage } from './heap-garbage.ts';
import type { LongMessages } from './long-messages.ts';
import type { PackedCanisters } from './packed-canisters.ts';

interface Keepers {
  readonly long: Pick<LongMessages, 'spareBytes' | 'trim'>;
  readonly packed: Pick<PackedCanisters, 'countedBytes' | 'clear'>;
  readonly stores: Pick<SharedStores, 'heaps' | 'pool' | 'budget'>;
  readonly garbage: Pick<HeapGarbage, 'bytes' | 'collect'>;
}

export class SpareMemory {
  readonly #keepers: Keepers;
  /** Requests that wait for memory that was spare when they came. */
  readonly #waiting: { readonly isBack: () => boolean; readonly given: () => void }[] = [];

  constructor(keepers: Keepers) {
    this.#keepers = keepers;
    const { budget, heaps } = keepers.stores;
    budget.givePieceBack = () => heaps.returns.work();
    budget.reclaim = (pages) => this.#reclaim(pages);
  }

  /** True while pieces wait to be given back, or somebody waits for that: a message may give the last one back. */
  get hasWork(): boolean {
    const { pool, heaps } = this.#keepers.stores;
    return pool.hasDiscarded || heaps.returns.hasWork || this.#waiting.length > 0;
  }

  /** Gives a piece back. */
  work(): void {
    const { pool, heaps } = this.#keepers.stores;
    pool.release();
    heaps.returns.work();
    this.#tell();
  }

  /** Gives everything back, and calls `given` when all of it is the machine's again, whatever has come since. */
  giveBack(given: () => void): void {
    this.#trim();
    this.#waiting.push({ isBack: this.#keepers.stores.heaps.returns.all(), given });
    this.#tell();
  }

  #tell(): void {
    while (this.#waiting[0]?.isBack() === true) this.#waiting.shift()?.given();
  }

  /** Makes room for pages at once, if it can; returns true if there is more room than before. */
  #reclaim(pages: number): boolean {
    const { long, packed, stores, garbage } = this.#keepers;
    const { budget, heaps, pool } = stores;
    inOneGo(budget.givingBack(pages));
    if (budget.pagesLeft >= pages) return true;
    // A collection takes tens of milliseconds, so it is done only if it helps.
    const spareBytes = heaps.countedBytes + pool.freeBytes + long.spareBytes + packed.countedBytes;
    if (garbage.bytes + spareBytes < (pages - budget.pagesLeft) * PAGE_BYTES) return false;
    this.#trim();
    // Large journals and heaps wait to be given back by now.
    inOneGo(budget.givingBack(pages));
    return true;
  }

  #trim(): void {
    const { long, packed, stores, garbage } = this.#keepers;
    long.trim();
    packed.clear();
    stores.heaps.clear();
    stores.pool.trim(0);
    if (garbage.bytes > 0) garbage.collect();
  }
}
