import { definePlugin, Logger } from '../kernel/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { NoStorage } from '../subsystems/storage/no-storage.ts';
import type { TablesKind } from '../subsystems/storage/open-tables.ts';
import type { OpenableStorage } from '../subsystems/storage/openable-storage.ts';
import { ThreadedStorage } from '../subsystems/storage/threaded-storage.ts';

/** Where the state is kept. */
interface StorageConfig {
  /** Absolute; undefined: in memory. */
  readonly directory: string | undefined;
  /** Store of the tables; undefined: the one that the directory has, or that the platform takes. */
  readonly tables: TablesKind | undefined;
  readonly isSynced: boolean;
}

export const storagePlugin = definePlugin({
  name: 'storage',
  provides: Storage,
  requires: { log: Logger },
  create: (
    { log },
    { config: { directory, tables, isSynced } }: { readonly config: StorageConfig },
  ): OpenableStorage => {
    if (directory === undefined) return new NoStorage();
    const onFailure = (error: Error): void => {
      // Thrown outside of all calls: no caller can handle the error, and nothing may be answered any more.
      setImmediate(() => {
        throw error;
      });
    };
    const onWarning = (message: string): void => log.warn(message);
    const onNote = (message: string): void => log.info(message);
    const storage = new ThreadedStorage({ directory, tables, isSynced, onFailure, onWarning, onNote });
    // The storage thread starts while the other plugins are created and the listener is bound; the state is opened
    // behind that.
    storage.prepare();
    return storage;
  },
  disabled: () => new NoStorage(),
  async start(storage, { readiness }) {
    if (storage.isKept) readiness.waiting('opening the state directory');
    await storage.open();
  },
  stop: (storage) => storage.close(),
});
