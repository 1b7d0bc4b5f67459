/** A face for who puts the past of actors into use. */
import { defineCapability } from '../../../kernel/index.ts';
import type { ModuleInfo } from '../../execution/index.ts';
import type { Outcome } from '../../ic/index.ts';
import type { PastState, Place } from '../../timeline/index.ts';
import type { Canister } from '../index.ts';

/** An actor as it was, with the interface of then. */
export interface PastActor extends Pick<Canister, 'name' | 'candid' | 'candidProblem'> {
  readonly module: ModuleInfo;
  readonly place: Place;
  /**
   * Asks a query method; update methods and composite queries are ServerError `past-query`. The actor's own time is
   * that of now.
   */
  query(method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome>;
}

/** Numbers of an actor that was restored. */
export interface RestoredNumbers {
  readonly version: number;
  readonly balance: bigint;
}

export interface ForkOptions {
  readonly caller: Uint8Array;
  /** Undefined: the host's starting balance. */
  readonly cycles: bigint | undefined;
  /** Called in the turn in which the fork has its state. */
  readonly forked: (id: Uint8Array, now: RestoredNumbers) => void;
}

/** The past of actors, put into use. */
export interface PastActors {
  /**
   * Replaces code, memories, certified data and timer by those of then, in one change between two messages; cycles,
   * settings, names and keys stay. `restored` is awaited before anything else of the actor runs. Rejects with
   * ServerError `past-open-calls` if calls were open then, or are now; with `waits` the actor is paused until they have
   * ended.
   */
  restore(
    canister: Canister,
    past: PastState,
    options: { readonly waits: boolean; readonly restored: (now: RestoredNumbers) => Promise<void> },
  ): Promise<void>;
  /** Makes an actor of that name with the state of then: stopped, without timer, with the parent's controllers. */
  fork(parent: Canister, name: string, past: PastState, options: ForkOptions): Promise<Canister>;
  /**
   * Has `work` ask the actor as it was. `key` names the moment; `load` is asked for its state unless a copy is still
   * there. Rejects with ServerError `past-busy` if too many ask.
   */
  ask<T>(
    canister: Canister,
    key: string,
    load: () => Promise<PastState>,
    work: (actor: PastActor) => Promise<T>,
  ): Promise<T>;
}
export const PastActors = defineCapability<PastActors>('past-actors');
