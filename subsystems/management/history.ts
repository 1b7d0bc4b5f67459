/** Histories of canisters, as `canister_info` shows them. */
import type { HistoryEntry } from './change.ts';
import type { HostedCanister } from './backend.ts';
import type { HistoryRecords } from './records/history-records.ts';

/** The specification's minimum; older entries are dropped. */
const ENTRIES_MAX = 20;
/** Bytes of a principal with its overhead, for `canister_history_size`. */
const ENTRY_BYTES = 96;
const PRINCIPAL_BYTES = 32;

/** The number of a canister's changes, and the last ones among them. */
interface HistoryExcerpt {
  /** Number of all changes, including those that are no longer kept. */
  readonly total: number;
  /** Entries, oldest first. */
  readonly entries: readonly HistoryEntry[];
}

/**
 * The canisters' last changes. With a state directory they are only on disk: there are many canisters, and histories
 * are rarely read.
 */
export class Histories {
  readonly #records: HistoryRecords;
  /** Entries in memory, used without a state directory. */
  readonly #entries = new Map<HostedCanister, readonly HistoryEntry[]>();

  constructor(records: HistoryRecords) {
    this.#records = records;
  }

  add(canister: HostedCanister, entry: HistoryEntry): void {
    const number = canister.historyEntries++;
    if (!this.#records.isDurable) {
      this.#entries.set(canister, [...this.#inMemory(canister), entry].slice(-ENTRIES_MAX));
      return;
    }
    this.#records.put(canister.id, number, entry);
    if (number >= ENTRIES_MAX) this.#records.delete(canister.id, number - ENTRIES_MAX);
  }

  /**
   * Counts an entry that was there at the start; to be called in order. Returns false if its number does not follow the
   * last one's.
   */
  restore(canister: HostedCanister, number: number): boolean {
    const total = canister.historyEntries;
    if (total !== 0 && number !== total) return false;
    canister.historyEntries = number + 1;
    return true;
  }

  /** Returns the last `count` entries that are kept, by default all. Rejects with ServerError `state-corrupt`. */
  async read(canister: HostedCanister, count = ENTRIES_MAX): Promise<HistoryExcerpt> {
    const total = canister.historyEntries;
    if (count === 0) return { total, entries: [] };
    const entries = this.#records.isDurable
      ? // Changes made during the read are not among the entries that were asked for.
        await this.#records.read(canister.id, Math.max(0, total - ENTRIES_MAX), total)
      : this.#inMemory(canister);
    return { total, entries: entries.slice(-count) };
  }

  #inMemory(canister: HostedCanister): readonly HistoryEntry[] {
    return this.#entries.get(canister) ?? [];
  }

  /** Forgets the history in memory only. */
  forget(canister: HostedCanister): void {
    canister.historyEntries = 0;
    this.#entries.delete(canister);
  }
}

/** Returns the approximate bytes of the history, for `canister_history_size`. */
export function bytesOfHistory({ entries }: HistoryExcerpt): number {
  return entries.reduce(
    (sum, { details }) =>
      sum + ENTRY_BYTES + ('controllers' in details ? details.controllers.length * PRINCIPAL_BYTES : 0),
    0,
  );
}
