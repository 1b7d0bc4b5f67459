import { ServerError } from '../../kernel/index.ts';
import type { Entry } from '../storage/index.ts';
import { CHUNK_BYTES_MAX, ChunkStore } from './chunk-store.ts';
import { Histories } from './history.ts';
import type { HostedCanister } from './backend.ts';
import { ChunkRecords, readChunkLength } from './records/chunk-records.ts';
import { HistoryRecords } from './records/history-records.ts';
import { readHistoryEntry } from './records/history-value.ts';
import {
  canisterOf,
  chunkContentsOf,
  HISTORY_PREFIX,
  historyOf,
  parseRecordKey,
  RECORDS_PREFIX,
  recordsOf,
  settingsKey,
  snapshotContentsOf,
} from './records/record-keys.ts';
import { corrupt, readerOf, type RecordStore, unitOf } from './records/record-store.ts';
import { readSettingsValue, writeSettings } from './records/settings-value.ts';
import { readSnapshotCounter, SnapshotRecords } from './records/snapshot-records.ts';
import { readSnapshotValue } from './records/snapshot-value.ts';
import { DEFAULT_SETTINGS, type OwnSettings } from './settings.ts';
import { SnapshotStore } from './snapshot-store.ts';
import { StoredBytes } from './stored-bytes.ts';

/** Records of one canister that the management canister itself keeps, besides the history. */
export class CanisterRecordExtras {
  readonly chunkStore: ChunkStore;
  readonly snapshots: SnapshotStore;
  readonly #id: Uint8Array;
  readonly #store: RecordStore;
  readonly #stored: StoredBytes;
  #settings: OwnSettings = DEFAULT_SETTINGS;
  /** Number of changes that use the object. */
  #uses = 0;

  constructor({ id }: HostedCanister, store: RecordStore, stored: StoredBytes) {
    this.#id = id;
    this.#store = store;
    this.#stored = stored;
    this.chunkStore = new ChunkStore(stored, new ChunkRecords(store, id));
    this.snapshots = new SnapshotStore(id, stored, new SnapshotRecords(store, id));
  }

  get settings(): OwnSettings {
    return this.#settings;
  }

  changeSettings(change: Partial<OwnSettings>): void {
    if (Object.keys(change).length === 0) return;
    this.#settings = { ...this.#settings, ...change };
    unitOf(this.#store)?.put('meta', settingsKey(this.#id), writeSettings(this.#settings));
  }

  /** Does something that needs this object until it has ended. */
  async use<T>(change: () => Promise<T>): Promise<T> {
    this.#uses++;
    try {
      return await change();
    } finally {
      this.#uses--;
    }
  }

  /** True if the object equals a new one and no change uses it. */
  get isNeedless(): boolean {
    const { chunkStore, snapshots } = this;
    return this.#uses === 0 && this.#settings === DEFAULT_SETTINGS && chunkStore.isEmpty && snapshots.isUnused;
  }

  /** Takes over a record of this canister from storage. Throws ServerError `state-corrupt`. */
  restore([key, bytes]: Entry): void {
    const about = parseRecordKey(key);
    const value = readerOf('meta', key, bytes);
    switch (about?.kind) {
      case 'settings':
        this.#settings = readSettingsValue(value);
        return;
      case 'chunk': {
        const length = readChunkLength(value, CHUNK_BYTES_MAX);
        this.#stored.restore(length);
        this.chunkStore.restore(about.hash, length);
        return;
      }
      case 'snapshotCounter':
        this.snapshots.restoreCounter(readSnapshotCounter(value));
        return;
      case 'snapshot': {
        const snapshot = readSnapshotValue(value);
        this.#stored.restore(snapshot?.description.bytes ?? 0);
        this.snapshots.restore(about.number, snapshot);
        return;
      }
      case 'history':
      case undefined:
        throw value.malformed('there is no such key');
    }
  }

  /** Releases the bytes that the canister has of the host's. */
  release(): void {
    this.#stored.give(this.chunkStore.bytes + this.snapshots.bytes);
  }
}

export class CanisterRecords {
  readonly stored: StoredBytes;
  readonly histories: Histories;
  readonly #store: RecordStore;
  /** Objects of canisters that have something to remember. */
  readonly #records = new Map<HostedCanister, CanisterRecordExtras>();

  constructor(store: RecordStore, storedBytesMax: number) {
    this.#store = store;
    this.stored = new StoredBytes(storedBytesMax);
    this.histories = new Histories(new HistoryRecords(store));
  }

  /**
   * Returns the canister's object, to be used at once or within `use`: an object with nothing to remember is
   * dropped later, and made anew when needed.
   */
  of(canister: HostedCanister): CanisterRecordExtras {
    let record = this.#records.get(canister);
    if (record === undefined) {
      record = new CanisterRecordExtras(canister, this.#store, this.stored);
      this.#records.set(canister, record);
      queueMicrotask(() => this.#dropNeedless(canister));
    }
    return record;
  }

  /** Does something with the canister's object, which is not dropped meanwhile. */
  async use<T>(canister: HostedCanister, change: (record: CanisterRecordExtras) => Promise<T>): Promise<T> {
    const record = this.of(canister);
    try {
      return await record.use(() => change(record));
    } finally {
      this.#dropNeedless(canister);
    }
  }

  #dropNeedless(canister: HostedCanister): void {
    if (this.#records.get(canister)?.isNeedless === true) this.#records.delete(canister);
  }

  /** Implements `ManagementHooks.restore`. Contents of chunks and snapshots are read when they are needed. */
  async restore(find: (id: Uint8Array) => HostedCanister | undefined): Promise<Map<HostedCanister, ServerError>> {
    const damaged = new Map<HostedCanister, ServerError>();
    for (const prefix of [RECORDS_PREFIX, HISTORY_PREFIX]) {
      for (const entry of await this.#store.range('meta', prefix)) {
        const id = canisterOf(entry[0]);
        if (id === undefined) throw corrupt('meta', entry[0], 'there is no such key');
        const canister = find(id);
        if (canister === undefined || damaged.has(canister)) continue;
        try {
          this.#restoreEntry(canister, entry);
        } catch (error) {
          if (!(error instanceof ServerError)) throw error;
          damaged.set(canister, error);
        }
      }
    }
    // Drops only the objects in memory: the damaged records may be repaired.
    for (const canister of damaged.keys()) this.#drop(canister);
    return damaged;
  }

  /** The same for one canister. Resolves with what is damaged. */
  async restoreOne(canister: HostedCanister): Promise<ServerError | undefined> {
    try {
      for (const prefix of [recordsOf(canister.id), historyOf(canister.id)])
        for (const entry of await this.#store.range('meta', prefix)) this.#restoreEntry(canister, entry);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.#drop(canister);
      return error;
    }
    return undefined;
  }

  /** Drops what is in memory of a canister that another server has. */
  left(canister: HostedCanister): void {
    this.#drop(canister);
  }

  #restoreEntry(canister: HostedCanister, entry: Entry): void {
    const [key, bytes] = entry;
    const about = parseRecordKey(key);
    if (about?.kind !== 'history') {
      this.of(canister).restore(entry);
      return;
    }
    const value = readerOf('meta', key, bytes);
    // Read only to find damage now; the entry is not kept in memory.
    readHistoryEntry(value);
    if (!this.histories.restore(canister, Number(about.number))) throw value.malformed('one is missing before it');
  }

  forget(canister: HostedCanister): void {
    this.#drop(canister);
    const { id } = canister;
    const unit = unitOf(this.#store);
    unit?.clear('meta', recordsOf(id));
    unit?.clear('meta', historyOf(id));
    unit?.clear('blob', chunkContentsOf(id));
    unit?.clear('blob', snapshotContentsOf(id));
  }

  #drop(canister: HostedCanister): void {
    this.#records.get(canister)?.release();
    this.#records.delete(canister);
    this.histories.forget(canister);
  }
}
