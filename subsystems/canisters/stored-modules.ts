/**
 * Which modules the state has, and how many canisters use each. A module goes with its last use, in the unit that ends
 * that use.
 *
 * A use is a stored identity that names the module. Nothing else in the state needs it: a canister's log ends where its
 * code changes, in the same unit (`newCode` of execution), so no message is run again by a module that the canister has
 * no more; snapshots and chunk stores have bytes of their own. Uses are counted when a unit is sealed, and what has
 * none at its end is deleted then: a module may lose its last use and get another one within the unit. So whatever a
 * crash leaves, each canister has its module, and no other module is there.
 *
 * Main thread; adds operations to the unit that is being sealed.
 */
import type { WriteBatch } from '../storage/index.ts';

export class StoredModules {
  /** Number of stored identities that name a module, by its hash. */
  readonly #uses = new Map<string, number>();
  /** Hashes of modules whose bytes the state has for certain. */
  readonly #present = new Set<string>();
  /** Hashes of modules that may have no use at the end of this unit. */
  readonly #left = new Set<string>();
  readonly #told: (hash: string, isStored: boolean) => void;

  /** `told`: a module has its first use, or is deleted. */
  constructor(told: (hash: string, isStored: boolean) => void = () => undefined) {
    this.#told = told;
  }

  /** An identity names that module, in what another process has stored. */
  recovered(hash: string): void {
    const uses = this.#uses.get(hash) ?? 0;
    this.#uses.set(hash, uses + 1);
    if (uses === 0) this.#told(hash, true);
  }

  /** A canister with that module is about to come: it is not deleted until what is returned is called. */
  expect(hash: string): () => void {
    this.recovered(hash);
    return () => this.#release(hash);
  }

  /** The state has its bytes, as another process has stored them. */
  isPresent(hash: string): void {
    this.#present.add(hash);
  }

  /** A module is in the state; true: no canister uses it, and it goes with the next unit. */
  found(hash: string): boolean {
    if (this.#uses.has(hash)) return false;
    this.#left.add(hash);
    return true;
  }

  /**
   * An identity that named the module `before` names `after`; undefined: none. `wasm`: the bytes of that, as far as
   * they are known.
   */
  replace(unit: WriteBatch, before: string | undefined, after: string | undefined, wasm: Uint8Array | undefined): void {
    if (before !== after) {
      if (after !== undefined) this.recovered(after);
      if (before !== undefined) this.#release(before);
    }
    if (after === undefined || wasm === undefined || this.#present.has(after)) return;
    this.#present.add(after);
    unit.put('module', keyOf(after), wasm);
  }

  #release(hash: string): void {
    const uses = (this.#uses.get(hash) ?? 0) - 1;
    if (uses > 0) {
      this.#uses.set(hash, uses);
      return;
    }
    this.#uses.delete(hash);
    this.#left.add(hash);
  }

  /** The unit has all that changes in it. */
  deleteUnused(unit: WriteBatch): void {
    for (const hash of this.#left) {
      if (this.#uses.has(hash)) continue;
      this.#present.delete(hash);
      unit.delete('module', keyOf(hash));
      this.#told(hash, false);
    }
    this.#left.clear();
  }
}

function keyOf(hash: string): Uint8Array {
  return Buffer.from(hash, 'hex');
}
