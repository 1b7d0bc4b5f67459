import { definePlugin, face, Logger } from '../kernel/index.ts';
import { UnitSource } from '../subsystems/archive/index.ts';
import { ServiceStore } from '../subsystems/cluster/index.ts';
import { Storage } from '../subsystems/storage/index.ts';
import { FollowingStorage } from '../subsystems/storage/following-storage.ts';
import { NoStorage } from '../subsystems/storage/no-storage.ts';
import { NoUnits } from '../subsystems/storage/no-units.ts';
import { NoService } from '../subsystems/storage/no-service.ts';
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
  /** The archive that takes its units; without a directory there is none. */
  readonly archive: { readonly directory: string | undefined };
  /** True if the timeline takes its units. */
  readonly isTimed?: boolean;
  /** The archive that the directory follows; undefined: it is served. */
  readonly follow?: string | undefined;
}

/**
 * Storage with what others take of it. Undefined: nothing can be archived; the server that has it is a service by
 * itself.
 */
type ArchivedStorage = OpenableStorage &
  Pick<Partial<FollowingStorage>, 'follow'> & { readonly units?: UnitSource; readonly service?: ServiceStore };

export const storagePlugin = definePlugin({
  name: 'storage',
  provides: Storage,
  alsoProvides: [
    face(UnitSource, ({ units = new NoUnits() }: ArchivedStorage) => units),
    face(
      ServiceStore,
      ({ service = new NoService() }: ArchivedStorage) => service,
      () => new NoService(),
    ),
  ],
  requires: { log: Logger },
  create: (
    { log },
    { config: { directory, tables, isSynced, archive, isTimed = false, follow } }: { readonly config: StorageConfig },
  ): ArchivedStorage => {
    if (directory === undefined) return new NoStorage();
    if (follow !== undefined) return new FollowingStorage({ archive: follow, directory, log });
    const onFailure = (error: Error): void => {
      // Thrown outside of all calls: no caller can handle the error, and nothing may be answered any more.
      setImmediate(() => {
        throw error;
      });
    };
    const onWarning = (message: string): void => log.warn(message);
    const onNote = (message: string): void => log.info(message);
    const takers = [
      ...(archive.directory === undefined ? [] : (['archive'] as const)),
      ...(isTimed ? (['timeline'] as const) : []),
    ];
    const storage = new ThreadedStorage({ directory, tables, isSynced, takers, onFailure, onWarning, onNote });
    // The storage thread starts while the other plugins are created and the listener is bound; the state is opened
    // behind that.
    storage.prepare();
    return storage;
  },
  disabled: () => new NoStorage(),
  async start(storage, { readiness, signal }) {
    if (storage.follow !== undefined) return storage.follow({ signal, waiting: (note) => readiness.waiting(note) });
    if (storage.isKept) readiness.waiting('opening the state directory');
    await storage.open();
    return undefined;
  },
  stop: (storage) => storage.close(),
});
