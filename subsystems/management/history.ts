/** What happened to a canister, as `canister_info` tells it. */
import type { HistoryRecords } from './records/history-records.ts';

export type ChangeOrigin =
  | { readonly kind: 'user'; readonly id: Uint8Array }
  | { readonly kind: 'canister'; readonly id: Uint8Array; readonly version: bigint | undefined };

export type ChangeDetails =
  | {
      readonly kind: 'creation';
      readonly controllers: readonly Uint8Array[];
      /** SHA-256, when there are variables. */
      readonly environmentHash: Uint8Array | undefined;
    }
  | { readonly kind: 'codeUninstall' }
  | {
      readonly kind: 'codeDeployment';
      readonly mode: 'install' | 'reinstall' | 'upgrade';
      readonly moduleHash: Uint8Array;
    }
  | {
      readonly kind: 'loadSnapshot';
      /** When it is another canister's snapshot. */
      readonly from: Uint8Array | undefined;
      readonly snapshotId: Uint8Array;
      readonly version: bigint;
      readonly takenAtNs: bigint;
      readonly isUploaded: boolean;
    }
  | { readonly kind: 'controllersChange'; readonly controllers: readonly Uint8Array[] };

export interface Change {
  readonly origin: ChangeOrigin;
  readonly details: ChangeDetails;
}

export interface HistoryEntry extends Change {
  readonly timeNs: bigint;
  /** The canister's version after the change. */
  readonly version: number;
}

/** The spec's minimum; what is older goes. */
const ENTRIES_MAX = 20;
/** A principal with what lies around it, for `canister_history_size`. */
const ENTRY_BYTES = 96;
const PRINCIPAL_BYTES = 32;

/** A canister's last changes. */
export class History {
  readonly #records: HistoryRecords;
  readonly #entries: HistoryEntry[] = [];
  #total = 0;

  constructor(records: HistoryRecords) {
    this.#records = records;
  }

  /** All changes ever, also those that are no longer kept. */
  get total(): number {
    return this.#total;
  }

  add(entry: HistoryEntry): void {
    const number = this.#total++;
    this.#entries.push(entry);
    this.#records.put(number, entry);
    if (this.#entries.length <= ENTRIES_MAX) return;
    this.#entries.shift();
    this.#records.delete(number - ENTRIES_MAX);
  }

  /** One that was there at the start; in order. False when its number is not the one after the last one's. */
  restore(number: number, entry: HistoryEntry): boolean {
    if (this.#entries.length > 0 && number !== this.#total) return false;
    this.#total = number + 1;
    this.#entries.push(entry);
    return true;
  }

  /** At most the last `count`, oldest first. */
  last(count: number): readonly HistoryEntry[] {
    return count === 0 ? [] : this.#entries.slice(-count);
  }

  get bytes(): number {
    return this.#entries.reduce(
      (sum, { details }) =>
        sum + ENTRY_BYTES + ('controllers' in details ? details.controllers.length * PRINCIPAL_BYTES : 0),
      0,
    );
  }
}
