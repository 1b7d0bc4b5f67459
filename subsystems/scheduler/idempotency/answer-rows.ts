/**
 * Where rows of answers are kept: with the state, in the unit of the turn that gave the answers; or in memory.
 * Main thread.
 */
import { answersKey, answersOf, META, metaKey, type PackedRecords, type Storage } from '../../storage/index.ts';
import type { KeyOwner } from './canister-keys.ts';
import { NO_BYTES } from '../../bytes/index.ts';

export type RowStorage = Pick<Storage, 'isKept' | 'unit' | 'markDirty' | 'onSeal' | 'get' | 'values' | 'range'>;

/** A row is closed when it has so many bytes: a repeat reads all of it. */
export const ROW_BYTES = 16 * 1024;

export interface AnswerRows {
  /** Rows end with the turn. */
  readonly endWithTurn: boolean;
  /** Takes a copy. */
  put(canister: KeyOwner, number: number, row: Uint8Array): void;
  /** Undefined: there is none. Rejects with ServerError `state-corrupt`. */
  get(canister: KeyOwner, number: number): Promise<Uint8Array | undefined>;
  delete(canister: KeyOwner, number: number): void;
  /** The canister is gone, and all of its rows. */
  forget(canister: KeyOwner): void;
}

/** Deleting a canister deletes its rows with everything else of it (canisters/canister-store.ts). */
export class StoredRows implements AnswerRows {
  readonly endWithTurn = true;
  readonly #storage: RowStorage;
  /** Canisters that are marked as having rows. */
  readonly #marked = new Set<KeyOwner>();

  constructor(storage: RowStorage) {
    this.#storage = storage;
  }

  put(canister: KeyOwner, number: number, row: Uint8Array): void {
    const { unit } = this.#storage;
    if (!this.#marked.has(canister)) {
      this.#marked.add(canister);
      unit.put('meta', metaKey(META.answers, canister.id), NO_BYTES);
    }
    unit.put('blob', answersKey(canister.id, number), row);
  }

  get(canister: KeyOwner, number: number): Promise<Uint8Array | undefined> {
    return this.#storage.get('blob', answersKey(canister.id, number));
  }

  delete(canister: KeyOwner, number: number): void {
    this.#storage.unit.delete('blob', answersKey(canister.id, number));
    this.#storage.markDirty();
  }

  forget(canister: KeyOwner): void {
    this.#marked.delete(canister);
  }

  /** Ids of canisters that have rows. */
  async owners(): Promise<readonly Uint8Array[]> {
    const marks = await this.#storage.range('meta', metaKey(META.answers));
    return marks.map(([key]) => key.slice(1));
  }

  /** All rows of one, in order. */
  rowsOf(canister: KeyOwner): Promise<PackedRecords> {
    this.#marked.add(canister);
    return this.#storage.values('blob', answersOf(canister.id));
  }
}

/** Gone with the process, as the state is. */
export class MemoryRows implements AnswerRows {
  readonly endWithTurn = false;
  readonly #rows = new Map<KeyOwner, Map<number, Uint8Array>>();

  put(canister: KeyOwner, number: number, row: Uint8Array): void {
    let rows = this.#rows.get(canister);
    if (rows === undefined) this.#rows.set(canister, (rows = new Map<number, Uint8Array>()));
    rows.set(number, row.slice());
  }

  get(canister: KeyOwner, number: number): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#rows.get(canister)?.get(number));
  }

  delete(canister: KeyOwner, number: number): void {
    this.#rows.get(canister)?.delete(number);
  }

  forget(canister: KeyOwner): void {
    this.#rows.delete(canister);
  }
}
