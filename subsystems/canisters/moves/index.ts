import { defineCapability } from '../../../kernel/index.ts';
import type { MovedActor } from '../../cluster/index.ts';
import type { MovedRows } from '../../storage/index.ts';
import type { Canister } from '../index.ts';

/** Actors that go to another shard of the service, and that come from one. */
export interface CanisterMoves {
  has(id: Uint8Array): boolean;
  /**
   * Stores what a live actor has changed, while its messages go on: little is left to store when it departs. Rejects
   * with the ServerError why it cannot be stored.
   */
  storeAhead(canister: Canister): Promise<void>;
  /**
   * Brings an actor to rest, once `isQuiet` says that no request for it is under way, stores all of it, and has
   * `transfer` give its rows to the other shard; it is gone from here then. Where that rejects it stays and goes on.
   * Rejects with ServerError `actor-busy`, too, and with what `transfer` rejects with.
   */
  depart(
    canister: Canister,
    isQuiet: () => boolean,
    transfer: (rows: MovedRows) => Promise<MovedActor>,
  ): Promise<MovedActor>;
  /**
   * Makes ready for an actor that is about to come: calls to it wait, until what this resolves with is called.
   * Undefined: something of calls of that actor is not over here.
   */
  prepare(id: Uint8Array, moduleHash: Uint8Array | undefined): Promise<(() => void) | undefined>;
  /** Loads an actor whose rows are this shard's since that move. Rejects with ServerError `state-corrupt`. */
  arrive(moved: MovedActor): Promise<void>;
}
export const CanisterMoves = defineCapability<CanisterMoves>('canister-moves');
