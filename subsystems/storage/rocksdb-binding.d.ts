/**
 * The part of @nxtedition/rocksdb 12.2.12 that `rocksdb-tables.ts` uses: its native functions, without the JavaScript
 * classes around them, whose bookkeeping of iterators and deferred opening is of no use in a thread of its own.
 * Nothing here looks at a handle before it uses it: one of a closed database ends the process. Every function that
 * does not take a callback blocks. Errors carry `code` ('LEVEL_CORRUPTION', 'LEVEL_LOCKED', 'LEVEL_IO_ERROR') where
 * RocksDB has one.
 */
declare module '@nxtedition/rocksdb/binding.js' {
  type Handle = { readonly handle: unique symbol };
  /** An option that is missing has the binding's default; encodings have none and must be given. */
  interface FamilyOptions {
    readonly compression: boolean;
    readonly compaction: 'universal' | 'level';
    /** A memtable is a quarter of it, and there are up to six. */
    readonly memtableMemoryBudget: number;
    /** Bytes of the block cache; 0: none. */
    readonly cacheSize: number;
    readonly blockSize: number;
  }
  interface OpenOptions {
    readonly createIfMissing: boolean;
    readonly walCompression: boolean;
    readonly parallelism: number;
    readonly cacheSize: number;
    readonly columns: Readonly<Record<string, FamilyOptions>>;
  }
  interface RangeOptions {
    readonly column: Handle;
    readonly gte?: Uint8Array;
    readonly lt?: Uint8Array;
    readonly keyEncoding: 'buffer';
    readonly valueEncoding: 'buffer';
    /** `iterator_nextv_sync` stops after the row that passes it. */
    readonly highWaterMarkBytes: number;
  }
  interface Binding {
    db_init(location: string): Handle;
    db_open(
      db: Handle,
      options: OpenOptions,
      callback: (error: Error | null, columns: Readonly<Record<string, Handle>>) => void,
    ): void;
    db_close(db: Handle, callback: (error: Error | null) => void): void;
    /** Null for what was left out because the result would be too large. */
    db_get_many_sync(
      db: Handle,
      keys: readonly Uint8Array[],
      options: { readonly column: Handle; readonly valueEncoding: 'buffer' },
    ): readonly (Buffer | null | undefined)[];
    batch_init(): Handle;
    batch_put(batch: Handle, key: Uint8Array, value: Uint8Array, options: { readonly column?: Handle }): void;
    batch_del(batch: Handle, key: Uint8Array, options: { readonly column?: Handle }): void;
    batch_clear(batch: Handle): void;
    batch_write(db: Handle, batch: Handle, options: { readonly sync: boolean }): void;
    /** Pins the tables as they are. */
    iterator_init(db: Handle, options: RangeOptions): Handle;
    iterator_seek(iterator: Handle, key: Uint8Array): void;
    /** Keys and values in turn. */
    iterator_nextv_sync(
      iterator: Handle,
      count: number,
    ): { readonly rows: readonly Buffer[]; readonly finished: boolean };
    iterator_close(iterator: Handle): void;
  }
  const binding: Binding;
  export default binding;
  export type { Binding, FamilyOptions, Handle };
}
