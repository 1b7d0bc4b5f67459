/**
 * Sees to it that what the main thread knows of canisters survives: marks what has changed in a turn, and writes it
 * when the turn's unit is sealed. Without a state directory nothing is marked.
 */
import { eraseCanister, ID_BYTES, META, metaKey, type Storage, type WriteBatch } from '../storage/index.ts';
import type { CanisterIds } from '../ic/index.ts';
import { StoredModules } from './stored-modules.ts';
import { identityBytes, type StoredIdentity, type StoredNumbers, numbersBytes } from './stored-values.ts';

/** Ids of hosted canisters are all as long as this. */
const numbersKey = metaKey(META.numbers, new Uint8Array(ID_BYTES));

/** Facts of a canister that are stored, as of the moment in which they are asked for. */
export interface StorableCanister {
  readonly id: Uint8Array;
  /** The id as `idToText` has it. */
  readonly idText: string;
  readonly isRemoved: boolean;
  /** True if the canister is not there yet: its creation may still fail. */
  readonly isUnfinished: boolean;
  /** Why what is stored of it cannot be used: all of it stays as it is. */
  readonly damage: string | undefined;
  readonly identity: StoredIdentity;
  readonly numbers: StoredNumbers;
  readonly code: { readonly wasm: Uint8Array } | undefined;
  /**
   * Hash of the module that its stored identity names; undefined: none, or nothing is stored of it. The store's own.
   */
  storedModule: string | undefined;
}

export class CanisterStore {
  readonly #storage: Storage;
  readonly #ids: CanisterIds;
  readonly #numbers = new Set<StorableCanister>();
  readonly #identities = new Set<StorableCanister>();
  readonly #removed = new Set<StorableCanister>();
  readonly #left = new Set<StorableCanister>();
  readonly #modules: StoredModules;
  #idsStored = 0n;

  /** `moduleIsStored`: told when the state has a module from now on, and when it has it no more. */
  constructor(storage: Storage, ids: CanisterIds, moduleIsStored?: (hash: string, isStored: boolean) => void) {
    this.#storage = storage;
    this.#ids = ids;
    this.#modules = new StoredModules(moduleIsStored);
    if (storage.isKept) storage.onSeal((unit) => this.#write(unit));
  }

  get isDurable(): boolean {
    return this.#storage.isKept;
  }

  /** Operations that a step has told; the caller has no use for them any more. */
  append(operations: Uint8Array): void {
    this.#storage.unit.append(operations);
    this.#storage.markDirty();
  }

  numbersChanged(record: StorableCanister): void {
    if (!this.#keeps(record)) return;
    this.#numbers.add(record);
    this.#storage.markDirty();
  }

  /** A mere counter: it goes with the next unit, whenever that is. */
  counted(record: StorableCanister): void {
    if (this.isDurable && !record.isRemoved && record.damage === undefined) this.#numbers.add(record);
  }

  /** Name, settings, code: and the numbers with them. */
  identityChanged(record: StorableCanister): void {
    if (!this.#keeps(record)) return;
    this.#identities.add(record);
    this.numbersChanged(record);
  }

  #keeps({ isRemoved, isUnfinished, damage }: StorableCanister): boolean {
    return this.isDurable && !isRemoved && !isUnfinished && damage === undefined;
  }

  removed(record: StorableCanister): void {
    if (!this.isDurable) return;
    this.#numbers.delete(record);
    this.#identities.delete(record);
    this.#removed.add(record);
    this.#storage.markDirty();
  }

  /** The canister is another shard's, with all that is stored of it: nothing of it is written here any more. */
  left(record: StorableCanister): void {
    this.#numbers.delete(record);
    this.#identities.delete(record);
    this.#left.add(record);
    this.#storage.markDirty();
  }

  /** The identity of a canister that another process has stored names that module. */
  recovered(record: StorableCanister, moduleHash: string | undefined): void {
    record.storedModule = moduleHash;
    if (moduleHash !== undefined) this.#modules.recovered(moduleHash);
  }

  /** Keeps a module that a canister has which is about to come here, until what is returned is called. */
  expectModule(hash: string): () => void {
    const release = this.#modules.expect(hash);
    return () => {
      release();
      this.#storage.markDirty();
    };
  }

  /** A module that the state has already. */
  moduleIsStored(hash: string): void {
    this.#modules.isPresent(hash);
  }

  /**
   * Has modules deleted that no canister uses: earlier versions have left them. All identities have been recovered.
   * Only keys are asked for, and the server may take work meanwhile. Returns how many there were. Rejects with
   * ServerError `state-corrupt`.
   */
  async deleteLeftModules(isOver: () => boolean): Promise<number> {
    let count = 0;
    for await (const keys of this.#storage.keys('module')) {
      if (isOver()) break;
      const left = keys.filter((key) => this.#modules.found(Buffer.from(key).toString('hex'))).length;
      if (left > 0) this.#storage.markDirty();
      count += left;
    }
    return count;
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
    for (const record of this.#removed) {
      eraseCanister(unit, record.id);
      this.#nameModule(unit, record, undefined);
    }
    this.#removed.clear();
    for (const record of this.#left) this.#nameModule(unit, record, undefined);
    this.#left.clear();
    for (const record of this.#identities) {
      const { identity } = record;
      unit.put('meta', metaKey(META.identity, record.id), identityBytes(identity));
      this.#nameModule(unit, record, identity.moduleHash);
    }
    this.#identities.clear();
    this.#modules.deleteUnused(unit);
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

  #nameModule(unit: WriteBatch, record: StorableCanister, moduleHash: string | undefined): void {
    this.#modules.replace(unit, record.storedModule, moduleHash, record.code?.wasm);
    record.storedModule = moduleHash;
  }
}
