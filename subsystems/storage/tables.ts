/**
 * Ordered tables of bytes: the operations that a store must offer to hold this host's state. Synchronous, because it
 * lives in the storage thread, which does nothing else. `plugins/api/contracts/tables.ts` is what every
 * implementation has to pass.
 */

/** Kinds of keys; each is ordered by itself. */
export const FAMILIES = ['meta', 'heap', 'stable', 'log', 'queue', 'module', 'blob'] as const;
export type Family = (typeof FAMILIES)[number];

/** A key with its value; without one, the key is deleted. */
export interface Change {
  readonly family: Family;
  readonly key: Uint8Array;
  readonly value: Uint8Array | undefined;
}

export type Entry = readonly [key: Uint8Array, value: Uint8Array];

/** Read operations, on the tables as they are or on a snapshot. Buffers that come out belong to the caller. */
export interface TableReader {
  get(family: Family, key: Uint8Array): Uint8Array | undefined;
  /** Returns values in the order of `keys`. */
  getMany(family: Family, keys: readonly Uint8Array[]): (Uint8Array | undefined)[];
  /** Entries with `from` ≤ key < `to` (undefined: to the family's end), in the order of the keys' bytes. */
  range(family: Family, from: Uint8Array, to: Uint8Array | undefined): Iterable<Entry>;
}

/** All errors are ServerErrors: `state-corrupt` names family and key, `state-unwritable` says what the system said. */
export interface Tables extends TableReader {
  /**
   * Makes all changes or none, in their order. If `isSynced`, they are on disk before this returns, and so is what
   * was written before.
   */
  write(changes: readonly Change[], options: { readonly isSynced: boolean }): void;
  /**
   * Returns the tables as they are now, whatever is written afterwards. The snapshot may be disposed of more than
   * once; then it refuses to be read.
   */
  snapshot(): TableReader & Disposable;
  /** About what they take on disk. */
  readonly bytes: number;
  /**
   * Closes the tables. May be called more than once, also while snapshots exist. Every later operation throws an
   * error that says so.
   */
  close(): Promise<void>;
}

/**
 * Begins to write out to the disk what the tables were given and have not synced, beside the thread's own work.
 * Resolves when that is done; rejects with a ServerError `state-unwritable`.
 */
export type WriteOut = () => Promise<void>;
