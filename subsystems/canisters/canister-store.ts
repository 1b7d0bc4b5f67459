/**
 * Sees to it that what the main thread knows of canisters survives: marks what has changed in a turn, and writes it when
 * the turn's unit is sealed. Without a state directory nothing is marked.
 */
import {
  answersOf,
  ID_BYTES,
  letGo,
  memoryId,
  META,
  metaKey,
  type Storage,
  type WriteBatch,
} from '../storage/index.ts';
import type { CanisterIds } from '../ic/index.ts';
import { identityBytes, type StoredIdentity, type StoredNumbers, numbersBytes } from './stored-values.ts';

/** Ids of hosted canisters are all as long as this. */
const numbersKey = metaKey(META.numbers, new Uint8Array(ID_BYTES));

/** What is stored of a canister, as of the moment when it is asked for. */
export interface StorableCanister {
  readonly id: Uint8Array;
  /** The id as `idToText` has it. */
  readonly idText: string;
  readonly isRemoved: boolean;
  /** It is not there yet: its creation may still fail. */
  readonly isUnfinished: boolean;
  readonly identity: StoredIdentity;
  readonly numbers: StoredNumbers;
  readonly code: { readonly module: { readonly hash: string }; readonly wasm: Uint8Array } | undefined;
}

export class CanisterStore {
  readonly #storage: Storage;
  readonly #ids: CanisterIds;
  readonly #numbers = new Set<StorableCanister>();
  readonly #identities = new Set<StorableCanister>();
  readonly #removed = new Set<StorableCanister>();
  /** Hashes of modules that are stored. */
  readonly #modules = new Set<string>();
  #idsStored = 0n;

  constructor(storage: Storage, ids: CanisterIds) {
    this.#storage = storage;
    this.#ids = ids;
    if (storage.isKept) storage.onSeal((unit) => this.#write(unit));
  }

  get isKept(): boolean {
    return this.#storage.isKept;
  }

  /** Operations that a step has told; the caller has no use for them any more. */
  append(operations: Uint8Array): void {
    this.#storage.unit.append(operations);
    letGo(operations);
    this.#storage.markDirty();
  }

  numbersChanged(record: StorableCanister): void {
    if (!this.#keeps(record)) return;
    this.#numbers.add(record);
    this.#storage.markDirty();
  }

  /** A mere counter: it goes with the next unit, whenever that is. */
  counted(record: StorableCanister): void {
    if (this.isKept && !record.isRemoved) this.#numbers.add(record);
  }

  /** Name, settings, code: and the numbers with them. */
  identityChanged(record: StorableCanister): void {
    if (!this.#keeps(record)) return;
    this.#identities.add(record);
    this.numbersChanged(record);
  }

  #keeps({ isRemoved, isUnfinished }: StorableCanister): boolean {
    return this.isKept && !isRemoved && !isUnfinished;
  }

  removed(record: StorableCanister): void {
    if (!this.isKept) return;
    this.#numbers.delete(record);
    this.#identities.delete(record);
    this.#removed.add(record);
    this.#storage.markDirty();
  }

  /** A module that the state directory has already. */
  moduleIsStored(hash: string): void {
    this.#modules.add(hash);
  }

  settled(): Promise<void> {
    return this.#storage.settled();
  }

  /** Calls back when everything that is known now is durable. */
  afterwards(callback: () => void): void {
    this.#storage.whenDurable(this.#storage.newest, callback);
  }

  #write(unit: WriteBatch): void {
    if (this.#ids.count !== this.#idsStored) {
      this.#idsStored = this.#ids.count;
      unit.put('meta', metaKey(META.ids), this.#ids.save());
    }
    for (const record of this.#removed) eraseCanister(unit, record.id);
    this.#removed.clear();
    for (const record of this.#identities) {
      this.#storeModule(unit, record);
      unit.put('meta', metaKey(META.identity, record.id), identityBytes(record.identity));
    }
    this.#identities.clear();
    for (const record of this.#numbers) {
      unit.put('meta', this.#numbersKey(record), numbersBytes(record.numbers));
    }
    this.#numbers.clear();
  }

  /** Valid until the next call: a unit copies it. */
  #numbersKey({ idText }: StorableCanister): Uint8Array {
    for (let at = 0; at < idText.length; at++) numbersKey[1 + at] = idText.charCodeAt(at);
    return numbersKey;
  }

  #storeModule(unit: WriteBatch, { code }: StorableCanister): void {
    if (code === undefined || this.#modules.has(code.module.hash)) return;
    this.#modules.add(code.module.hash);
    unit.put('module', Buffer.from(code.module.hash, 'hex'), code.wasm);
  }
}

/** Rows of `meta` that there are once for each. */
const OWN_ROWS = [
  META.identity,
  META.numbers,
  META.globals,
  META.certifiedData,
  META.checkpoint,
  META.copy,
  META.answers,
] as const;

/** Everything that canisters, execution and scheduler keep of one. */
export function eraseCanister(unit: WriteBatch, id: Uint8Array): void {
  for (const letter of OWN_ROWS) {
    unit.delete('meta', metaKey(letter, id));
  }
  unit.clear('log', id);
  unit.clear('blob', answersOf(id));
  for (const family of ['heap', 'stable'] as const) {
    for (const copy of [0, 1]) unit.clear(family, memoryId(id, copy));
  }
}
