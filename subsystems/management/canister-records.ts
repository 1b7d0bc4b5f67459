import { ChunkStore } from './chunk-store.ts';
import { History } from './history.ts';
import type { HostedCanister } from './host.ts';
import { DEFAULT_SETTINGS, type OwnSettings } from './settings.ts';
import { SnapshotShelf } from './snapshot-shelf.ts';
import { StoredBytes } from './stored-bytes.ts';

/** What the management canister itself keeps of one canister. */
export class CanisterRecordExtras {
  readonly history = new History();
  readonly chunkStore: ChunkStore;
  readonly snapshots: SnapshotShelf;
  settings: OwnSettings = DEFAULT_SETTINGS;
  #last: Promise<unknown> = Promise.resolve();

  constructor(canister: HostedCanister, stored: StoredBytes) {
    this.chunkStore = new ChunkStore(stored);
    this.snapshots = new SnapshotShelf(canister.id, stored);
  }

  /** Runs one change of the canister after the other: an upgrade must not find the module of another one half done. */
  exclusive<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#last.then(change);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

export class CanisterRecords {
  readonly stored: StoredBytes;
  readonly #records = new Map<HostedCanister, CanisterRecordExtras>();

  constructor(storedBytesMax: number) {
    this.stored = new StoredBytes(storedBytesMax);
  }

  of(canister: HostedCanister): CanisterRecordExtras {
    let record = this.#records.get(canister);
    if (record === undefined) {
      record = new CanisterRecordExtras(canister, this.stored);
      this.#records.set(canister, record);
    }
    return record;
  }

  forget(canister: HostedCanister): void {
    const record = this.#records.get(canister);
    if (record === undefined) return;
    this.#records.delete(canister);
    record.chunkStore.clear();
    record.snapshots.clear();
  }
}
