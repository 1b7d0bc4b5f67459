import type { HistoryEntry } from '../change.ts';
import { readHistoryEntry, writeHistoryEntry } from './history-value.ts';
import { historyKey, historyOf, parseRecordKey } from './record-keys.ts';
import { type RecordStore, unitOf, readerOf } from './record-store.ts';

/** Records of histories: each canister's entries by their numbers, none of which is used twice. */
export class HistoryRecords {
  readonly #store: RecordStore;

  constructor(store: RecordStore) {
    this.#store = store;
  }

  get isDurable(): boolean {
    return this.#store.isKept;
  }

  put(owner: Uint8Array, number: number, entry: HistoryEntry): void {
    unitOf(this.#store)?.put('meta', historyKey(owner, number), writeHistoryEntry(entry));
  }

  delete(owner: Uint8Array, number: number): void {
    unitOf(this.#store)?.delete('meta', historyKey(owner, number));
  }

  /**
   * Returns the entries with numbers from `from` up to, but not including, `end`, in order. Rejects with ServerError
   * `state-corrupt`.
   */
  async read(owner: Uint8Array, from: number, end: number): Promise<HistoryEntry[]> {
    // Entries of this turn of the event loop are not in a readable unit yet.
    await this.#store.settled();
    const entries: HistoryEntry[] = [];
    for (const [key, value] of await this.#store.range('meta', historyOf(owner))) {
      const about = parseRecordKey(key);
      if (about?.kind !== 'history' || about.number < from || about.number >= end) continue;
      entries.push(readHistoryEntry(readerOf('meta', key, value)));
    }
    return entries;
  }
}
