import { ServerError } from '../../kernel/index.ts';
import { CommitFigures } from './commit-figures.ts';
import type { PackedRecords, StorageFigures, StoredCanister } from './index.ts';
import type { OpenableStorage } from './openable-storage.ts';
import type { Entry } from './tables.ts';
import { WriteBatch } from './write-batch.ts';

/** A storage without a state directory: everything lives in memory, and is gone with the process. */
export class NoStorage implements OpenableStorage {
  readonly supports = { heldUnits: false, readAhead: false };
  readonly isKept = false;
  readonly unit = new WriteBatch();
  readonly current = 0;
  readonly durable = 0;
  readonly newest = 0;

  open(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  expectUnit(): void {}
  markDirty(): void {}
  holdUnit(): () => void {
    return () => undefined;
  }
  readAhead(): void {}
  onSeal(): void {}

  whenDurable(_unit: number, callback: () => void): void {
    callback();
  }

  settled(): Promise<void> {
    return Promise.resolve();
  }

  range(): Promise<readonly Entry[]> {
    return Promise.resolve([]);
  }

  async *keys(): AsyncIterable<readonly Uint8Array[]> {}

  get(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  values(): Promise<PackedRecords> {
    return Promise.resolve({ bytes: new Uint8Array(0), ends: new Uint32Array(0) });
  }

  canister(): Promise<StoredCanister> {
    return Promise.reject(nothingKept());
  }

  figures(): Promise<StorageFigures> {
    return Promise.resolve({ stateBytes: 0, logBytes: 0, ...new CommitFigures().figures });
  }

  // eslint-disable-next-line require-yield
  async *backup(): AsyncIterable<Uint8Array> {
    await Promise.reject(nothingKept());
  }
}

function nothingKept(): ServerError {
  return new ServerError('invalid', 'state-not-kept', 'this server keeps no state: start it with --state DIR');
}
