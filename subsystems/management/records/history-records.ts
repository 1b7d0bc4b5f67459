import type { HistoryEntry } from '../history.ts';
import { writeHistoryEntry } from './history-value.ts';
import { historyKey } from './record-keys.ts';
import { type RecordStore, unitOf } from './record-store.ts';

/** Where one canister's history is kept: entries by their numbers, of which none is used twice. */
export class HistoryRecords {
  readonly #store: RecordStore;
  readonly #owner: Uint8Array;

  constructor(store: RecordStore, owner: Uint8Array) {
    this.#store = store;
    this.#owner = owner;
  }

  put(number: number, entry: HistoryEntry): void {
    unitOf(this.#store)?.put('meta', historyKey(this.#owner, number), writeHistoryEntry(entry));
  }

  delete(number: number): void {
    unitOf(this.#store)?.delete('meta', historyKey(this.#owner, number));
  }
}
