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
import { SnapshotShelf } from './snapshot-shelf.ts';
import { StoredBytes } from './stored-bytes.ts';

/** What the management canister itself keeps of one canister, besides its history. */
export class CanisterRecordExtras {
  readonly chunkStore: ChunkStore;
  readonly snapshots: SnapshotShelf;
  readonly #id: Uint8Array;
  readonly #store: RecordStore;
  readonly #stored: StoredBytes;
  #settings: OwnSettings = DEFAULT_SETTINGS;
  #last: Promise<unknown> = Promise.resolve();
  /** That are under way, or wait. */
  #changes = 0;

  constructor({ id }: HostedCanister, store: RecordStore, stored: StoredBytes) {
    this.#id = id;
    this.#store = store;
    this.#stored = stored;
    this.chunkStore = new ChunkStore(stored, new ChunkRecords(store, id));
    this.snapshots = new SnapshotShelf(id, stored, new SnapshotRecords(store, id));
  }

  get settings(): OwnSettings {
    return this.#settings;
  }

  changeSettings(change: Partial<OwnSettings>): void {
    if (Object.keys(change).length === 0) return;
    this.#settings = { ...this.#settings, ...change };
    unitOf(this.#store)?.put('meta', settingsKey(this.#id), writeSettings(this.#settings));
  }

  /** Runs one change of the canister after the other: an upgrade must not find the module of another one half done. */
  exclusive<T>(change: () => Promise<T>): Promise<T> {
    this.#changes++;
    const result = this.#last.then(change).finally(() => this.#changes--);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** It is as one that is made anew would be, and nobody is at work with it. */
  get isNeedless(): boolean {
    const { chunkStore, snapshots } = this;
    return this.#changes === 0 && this.#settings === DEFAULT_SETTINGS && chunkStore.isEmpty && snapshots.isUnused;
  }

  /** Takes over what was stored under a key of this canister. Throws ServerError `state-corrupt`. */
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

  /** Gives back the room that it has of the host's. */
  release(): void {
    this.#stored.give(this.chunkStore.bytes + this.snapshots.bytes);
  }
}

export class CanisterRecords {
  readonly stored: StoredBytes;
  readonly histories: Histories;
  readonly #store: RecordStore;
  /** Of those of whom there is anything to remember. */
  readonly #records = new Map<HostedCanister, CanisterRecordExtras>();

  constructor(store: RecordStore, storedBytesMax: number) {
    this.#store = store;
    this.stored = new StoredBytes(storedBytesMax);
    this.histories = new Histories(new HistoryRecords(store));
  }

  /** To be used at once, or within `exclusive`: what has nothing to remember by then is dropped, and made anew when asked for. */
  of(canister: HostedCanister): CanisterRecordExtras {
    let record = this.#records.get(canister);
    if (record === undefined) {
      record = new CanisterRecordExtras(canister, this.#store, this.stored);
      this.#records.set(canister, record);
      queueMicrotask(() => this.#dropNeedless(canister));
    }
    return record;
  }

  /** Runs one change of a canister after the other. */
  async exclusive<T>(canister: HostedCanister, change: (record: CanisterRecordExtras) => Promise<T>): Promise<T> {
    const record = this.of(canister);
    try {
      return await record.exclusive(() => change(record));
    } finally {
      this.#dropNeedless(canister);
    }
  }

  #dropNeedless(canister: HostedCanister): void {
    if (this.#records.get(canister)?.isNeedless === true) this.#records.delete(canister);
  }

  /** As `ManagementHooks.restore` has it. Contents of chunks and snapshots are read when they are asked for. */
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
    // Not forgotten: what is there may be repaired.
    for (const canister of damaged.keys()) this.#drop(canister);
    return damaged;
  }

  #restoreEntry(canister: HostedCanister, entry: Entry): void {
    const [key, bytes] = entry;
    const about = parseRecordKey(key);
    if (about?.kind !== 'history') {
      this.of(canister).restore(entry);
      return;
    }
    const value = readerOf('meta', key, bytes);
    // Read and not kept: it must be known now whether it is damaged.
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
