/**
 * Decides when RocksDB may remove its own log. RocksDB removes a file of the log when each family has written out the
 * memtables that have rows from there. A family that is seldom written never fills its memtable, and would keep all
 * of the log, 300 MiB, which is read at every open. The binding cannot ask for a memtable to be written out; but a
 * full one is written out, together with the next one. So memtables that do not fill by themselves are filled with a
 * row that is deleted in the same batch, and that nobody ever sees.
 */
import type { Family } from './tables.ts';

/** RocksDB insists on one more family. */
export type ColumnFamily = Family | 'default';

/**
 * Bytes of log that are due to go. Two to three times as much log is kept: memtables are written out by twos, and
 * fillers are in it as well. It is read at some 1 GB/s.
 */
const LOG_BYTES = 32 << 20;
/** Bytes that are written for each filler: of eight families at most, all have theirs before others are due. */
const BYTES_PER_FILLER = LOG_BYTES / 16;
/** Bytes that RocksDB adds to a change in its log, about. */
const CHANGE_BYTES = 16;
/** A memtable may hold a part of a block, an eighth of it, more than its size before it counts as full. */
const FULL_FACTOR = 1.25;
/** Memtables that a family must have filled since the last filler to have none left from before it. */
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
  #bytesSinceTaken = 0;
  #fillers: Filler[] = [];

  constructor(sizes: Readonly<Record<ColumnFamily, number>>) {
    this.#sizes = sizes;
  }

  /** A change of so many bytes. */
  wrote(family: ColumnFamily, bytes: number): void {
    // However large it is, it fills one memtable.
    const filled = Math.min(bytes + CHANGE_BYTES, this.#sizes[family]);
    this.#written.set(family, (this.#written.get(family) ?? 0) + filled);
    this.#logBytes += bytes + CHANGE_BYTES;
    this.#bytesSinceTaken += bytes;
  }

  /**
   * Returns the fillers that have to be written next, for the log to go: a few after each write, so that none takes
   * long.
   */
  takeFillers(): readonly Filler[] {
    const taken = this.#fillers.splice(0, Math.max(1, Math.ceil(this.#bytesSinceTaken / BYTES_PER_FILLER)));
    this.#bytesSinceTaken = 0;
    if (this.#logBytes >= LOG_BYTES) this.#fillersAreDue();
    return taken;
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
