/**
 * When RocksDB may remove its own log. It removes a file of it when each family has written out the memtables that have rows
 * from there. A family that is seldom written never fills its memtable, and would keep all of the log, 300 MiB, which
 * is read at every open. The binding cannot ask for a memtable to be written out; but one that is full is, together with
 * the next one. So those that do not fill by themselves are filled with a row that is deleted in the same batch, and that nobody ever sees.
 */
import type { Family } from './tables.ts';

/** RocksDB insists on one more family. */
export type ColumnFamily = Family | 'default';

/** Twice as much log is kept, for memtables are written out by twos. It is read at some 1 GB/s. */
const LOG_BYTES = 32 << 20;
/** A memtable may hold a part of a block, an eighth of it, more than its size before it counts as full. */
const FULL_FACTOR = 1.25;
/** Whoever wrote so many memtables full since the last filler has none left from before it. */
const MEMTABLES_KEPT = 3;

export interface Filler {
  readonly family: ColumnFamily;
  readonly bytes: number;
}

export class Memtables {
  /** Bytes of a memtable. */
  readonly #sizes: Readonly<Record<ColumnFamily, number>>;
  /** Bytes since fillers were last due, of all families that were ever written: a filler may wait for the next one. */
  readonly #written = new Map<ColumnFamily, number>();
  #logBytes = 0;
  #fillers: Filler[] = [];

  constructor(sizes: Readonly<Record<ColumnFamily, number>>) {
    this.#sizes = sizes;
  }

  wrote(family: ColumnFamily, bytes: number): void {
    this.#written.set(family, (this.#written.get(family) ?? 0) + bytes);
    this.#logBytes += bytes;
  }

  /** What has to be written next, for the log to go. One for each write, so that none takes long. */
  nextFiller(): Filler | undefined {
    if (this.#logBytes >= LOG_BYTES) this.#fillersAreDue();
    return this.#fillers.shift();
  }

  #fillersAreDue(): void {
    this.#fillers = [];
    for (const [family, written] of this.#written) {
      const bytes = FULL_FACTOR * this.#sizes[family];
      if (written < MEMTABLES_KEPT * bytes) this.#fillers.push({ family, bytes });
      this.#written.set(family, 0);
    }
    this.#logBytes = 0;
  }
}
