/** Executor thread: what a change of code stores ahead (store-ahead.ts), and who takes it. */
import type { Instance } from '../engine/instance.ts';
import type { StableMemory } from '../memory/stable-memory.ts';

/** Has operations stored, and resolves when they are durable; to false if the message that has made them is recalled. */
export type StoreAhead = (changes: readonly Uint8Array[]) => Promise<boolean>;

/** Without `store` messages cannot be suspended here: one that has much to store begins again where they can. */
export interface AheadStore {
  readonly store?: StoreAhead | undefined;
}

/** What a canister is about to have; committed. */
export interface ComingMemory {
  readonly instance: Instance | undefined;
  readonly stable: StableMemory;
  /** False: the stored stable memory would do but for what the change has written. */
  readonly isStableNew: boolean;
}
