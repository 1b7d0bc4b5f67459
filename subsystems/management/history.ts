/** What happened to a canister, as `canister_info` tells it. */
import type { HistoryEntry } from './change.ts';
import type { HostedCanister } from './backend.ts';
import type { HistoryRecords } from './records/history-records.ts';

/** The spec's minimum; what is older goes. */
const ENTRIES_MAX = 20;
/** A principal with what lies around it, for `canister_history_size`. */
const ENTRY_BYTES = 96;
const PRINCIPAL_BYTES = 32;

/** How often a canister has been changed, and the last of those changes. */
export interface HistoryExcerpt {
  /** All changes ever, also those that are no longer kept. */
  readonly total: number;
  /** Oldest first. */
  readonly entries: readonly HistoryEntry[];
}

/**
 * The canisters' last changes. Where state is kept they are on disk alone: there are many canisters, and few are ever
 * asked for their past.
 */
export class Histories {
  readonly #records: HistoryRecords;
  /** Where no state is kept. */
  readonly #entries = new Map<HostedCanister, readonly HistoryEntry[]>();

  constructor(records: HistoryRecords) {
    this.#records = records;
  }

  add(canister: HostedCanister, entry: HistoryEntry): void {
    const number = canister.historyEntries++;
    if (!this.#records.isKept) {
      this.#entries.set(canister, [...this.#inMemory(canister), entry].slice(-ENTRIES_MAX));
      return;
    }
    this.#records.put(canister.id, number, entry);
    if (number >= ENTRIES_MAX) this.#records.delete(canister.id, number - ENTRIES_MAX);
  }

  /** One that was there at the start; in order. False when its number is not the one after the last one's. */
  restore(canister: HostedCanister, number: number): boolean {
    const total = canister.historyEntries;
    if (total !== 0 && number !== total) return false;
    canister.historyEntries = number + 1;
    return true;
  }

  /** The last `count` entries that are kept, by default all. Rejects with ServerError `state-corrupt`. */
  async read(canister: HostedCanister, count = ENTRIES_MAX): Promise<HistoryExcerpt> {
    const total = canister.historyEntries;
    if (count === 0) return { total, entries: [] };
    const entries = this.#records.isKept
      ? // What is entered while they are read is not among those that were asked for.
        await this.#records.read(canister.id, Math.max(0, total - ENTRIES_MAX), total)
      : this.#inMemory(canister);
    return { total, entries: entries.slice(-count) };
  }

  #inMemory(canister: HostedCanister): readonly HistoryEntry[] {
    return this.#entries.get(canister) ?? [];
  }

  /** In memory alone. */
  forget(canister: HostedCanister): void {
    canister.historyEntries = 0;
    this.#entries.delete(canister);
  }
}

/** About what they take, for `canister_history_size`. */
export function bytesOfHistory({ entries }: HistoryExcerpt): number {
  return entries.reduce(
    (sum, { details }) =>
      sum + ENTRY_BYTES + ('controllers' in details ? details.controllers.length * PRINCIPAL_BYTES : 0),
    0,
  );
}
