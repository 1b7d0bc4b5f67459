/** Storages on PostgreSQL as a server has them, and their messages. */
import type { TestContext } from 'node:test';
import { type ServerError, systemClock } from '../../kernel/index.ts';
import type { BackupFile } from '../../subsystems/storage/index.ts';
import type { Change } from '../../subsystems/storage/tables.ts';
import { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';

export const LEASE_MS = 500;
/** With this limit, all changes stay in layers. */
export const NEVER_FOLDED: number = 2 ** 30;

export interface MadeStorage {
  readonly storage: PostgresStorage;
  /** Errors that would end the process. */
  readonly failures: ServerError[];
  readonly logged: string[];
  /** Notes of the storage about what it waits for. */
  readonly notes: string[];
  readonly context: Parameters<PostgresStorage['own']>[0];
}

export interface StorageOptions {
  readonly url: string;
  readonly namespace: string;
  readonly shards?: number;
  /** Default: nearly every unit goes on to the tables at once. */
  readonly foldBytes?: number;
  readonly leaseMs?: number;
  readonly waitingBytesMax?: number;
  readonly signal?: AbortSignal;
}

/** Makes a storage that does not own the namespace yet. It is abandoned at the test's end. */
export function makeStorage(t: TestContext, options: StorageOptions): MadeStorage {
  const { signal = new AbortController().signal } = options;
  const failures: ServerError[] = [];
  const logged: string[] = [];
  const notes: string[] = [];
  const note = (message: string): void => void logged.push(message);
  const storage = new PostgresStorage({
    foldBytes: 1,
    leaseMs: LEASE_MS,
    ...options,
    clock: systemClock,
    log: { info: note, warn: note },
    onFailure: (error) => void failures.push(error),
  });
  t.after(() => storage.abandon());
  return { storage, failures, logged, notes, context: { readiness: { waiting: (text) => notes.push(text) }, signal } };
}

export async function openStorage(t: TestContext, options: StorageOptions): Promise<MadeStorage> {
  const made = makeStorage(t, options);
  await made.storage.own(made.context);
  await made.storage.open();
  return made;
}

export const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

/** Puts a value under a key of the family `blob`. */
export function put(storage: PostgresStorage, key: string, value: string | Uint8Array = key): void {
  storage.unit.put('blob', bytesOf(key), typeof value === 'string' ? bytesOf(value) : value);
  storage.markDirty();
}

/** Brings all changes into the tables. */
export async function fold(storage: PostgresStorage): Promise<void> {
  for await (const _piece of storage.backup());
}

/** Returns the number of entries of the family `blob` that the storage lists for keys with that prefix. */
export async function countOf(storage: PostgresStorage, prefix = ''): Promise<number> {
  return (await storage.range('blob', bytesOf(prefix))).length;
}

/** Returns a backup of these changes, which come `apartMs` milliseconds after each other. */
export function backupOf(changes: readonly Change[], apartMs = 0): BackupFile {
  return {
    path: 'a backup',
    entries: changes.length,
    bytes: 0,
    async *changes() {
      for (const change of changes) {
        yield [change];
        await new Promise((resolve) => setTimeout(resolve, apartMs));
      }
    },
  };
}
