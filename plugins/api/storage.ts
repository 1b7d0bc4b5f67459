/**
 * `svc/plugin/storage`: what a storage from outside is built of. The commit queue collects and orders units in the main
 * thread, as for the built-in storage; a plugin writes the port behind it, which commits them, and answers what is read.
 *
 *     main thread: CommitQueue ─units, requests─► StoragePort (yours) ─► your store
 *                              ◄─durable, answers─
 *
 * Whoever keeps ordered tables of bytes gives `Tables` and lets `StateStore` and `CommitServer` do the rest, in a thread.
 */
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
  type StorageAnswers,
  type StorageRequest,
  type ToStorage,
} from '../../subsystems/storage/storage-wire.ts';
export { CommitFigures } from '../../subsystems/storage/commit-figures.ts';
export { BackupReader } from '../../subsystems/storage/backup.ts';
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
export { applyWriteBatch, WriteBatch } from '../../subsystems/storage/write-batch.ts';
export { logKey, memoryId, META, metaKey, type MetaLetter } from '../../subsystems/storage/keyspace.ts';
export { buffersOf, CHUNK_PAGES, PageCollector, type StoredPages } from '../../subsystems/storage/stored-pages.ts';
export { PAGE_BYTES, readPageEntries } from '../../subsystems/bytes/index.ts';
export { MemoryTables } from '../../subsystems/storage/memory-tables.ts';
