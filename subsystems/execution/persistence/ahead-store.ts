/** Executor thread: memory that a change of code stores ahead (store-ahead.ts), and the function that takes it. */
import type { Instance } from '../engine/instance.ts';
import type { StableMemory } from '../memory/stable-memory.ts';

/**
 * Has operations stored. Resolves to true when they are durable, to false if the message that has made them is
 * recalled.
 */
export type StoreAhead = (changes: readonly Uint8Array[]) => Promise<boolean>;

/** Without `store`, messages cannot be suspended here: one that has much to store begins again where they can. */
export interface AheadStore {
  readonly store?: StoreAhead | undefined;
}

/** Memory that a canister is about to have; committed. */
export interface ComingMemory {
  readonly instance: Instance | undefined;
  readonly stable: StableMemory;
  /** False: the stored stable memory is up to date, except for what the change has written. */
  readonly isStableNew: boolean;
}
