/**
 * `svc/plugin/storage`: the parts for a storage from outside, in one of two ways.
 *
 * A store with ordered tables of bytes in this process (SQLite, LMDB) implements `Tables`, and `TablesStorage` does the
 * rest.
 *
 * A store that answers asynchronously (a database behind a socket, a thread) is a `StoragePort`: the commit queue
 * collects and orders units in the main thread, as for the built-in storage; the port commits them, and answers reads.
 *
 *     main thread: CommitQueue ─units, requests─► StoragePort (yours) ─► your store
 *                              ◄─durable, answers─
 */
export { TablesStorage, type TablesStorageOptions } from '../../subsystems/storage/tables-storage.ts';
export {
  CommitQueue,
  type CommitQueueOptions,
  type StoragePort,
  type StorageReceiver,
} from '../../subsystems/storage/commit-queue.ts';
export {
  carried,
  type CarriedError,
  type FromStorage,
  type KeyPage,
  type StorageAnswers,
  type StorageRequest,
  type ToStorage,
} from '../../subsystems/storage/storage-wire.ts';
export {
  type MovedActor,
  MovedActors,
  ServiceStore,
  SHARDS_MAX,
  type ShardOwner,
  type WaitingProcess,
  type WantedName,
} from '../../subsystems/cluster/index.ts';
export { CommitFigures } from '../../subsystems/storage/commit-figures.ts';
export { BackupReader } from '../../subsystems/storage/backup.ts';
export { answerOf, type ReadRequest } from '../../subsystems/storage/request-server.ts';
export { LAST_UNIT_KEY, lastUnitChange, lastUnitOf } from '../../subsystems/storage/last-unit.ts';
export { Overlay } from '../../subsystems/storage/overlay.ts';
export { RecordPacker } from '../../subsystems/storage/record-packer.ts';
export type { OpenableStorage } from '../../subsystems/storage/openable-storage.ts';
export {
  FAMILIES,
  type Change,
  type Entry,
  type Family,
  type TableReader,
  type Tables,
} from '../../subsystems/storage/tables.ts';
export { applyWriteBatch, WriteBatch, type WriteBatchVisitor } from '../../subsystems/storage/write-batch.ts';
export { pageKey, prefixEnd } from '../../subsystems/storage/overlay-layer.ts';
export { logKey, memoryId, META, metaKey, type MetaLetter, type MovedRows } from '../../subsystems/storage/keyspace.ts';
export { buffersOf, CHUNK_PAGES, PageCollector, type StoredPages } from '../../subsystems/storage/stored-pages.ts';
export { PAGE_BYTES, readPageEntries } from '../../subsystems/bytes/index.ts';
export { MemoryTables } from '../../subsystems/storage/memory-tables.ts';
