/**
 * Where a canister is: one state at a time, and which may follow which. ARCHITECTURE.md ("Where an actor is") has the
 * table with who brings each change about.
 *
 * Main thread; plain data.
 */
import { assert } from '../../kernel/index.ts';

export type CanisterState =
  /** An executor has it. */
  | 'live'
  /** No executor has it: it is stored, and is loaded when something waits for it. */
  | 'evicted'
  /** Stored, and an executor is about to have it. */
  | 'loading'
  /** Stored, and cannot be loaded by this host: what is stored for it stays as it is. */
  | 'unloadable'
  /** The executor has died, and nothing of the canister is stored: nothing of it runs any more. */
  | 'lost'
  /** Nobody finds it any more, and what still waits for it is refused. */
  | 'deleted';

/** States that a canister may begin in: new, stored by another process, or known from its calls alone. */
export type FirstState = 'live' | 'evicted' | 'unloadable';

const NEXT: Readonly<Record<CanisterState, readonly CanisterState[]>> = {
  live: ['evicted', 'lost', 'deleted'],
  evicted: ['loading', 'deleted'],
  loading: ['live', 'evicted', 'unloadable', 'deleted'],
  unloadable: ['deleted'],
  lost: ['deleted'],
  deleted: [],
};

/** Throws where the scheduler is mistaken about the state of a canister. */
export function assertTransition(handle: number, from: CanisterState, to: CanisterState): void {
  assert(NEXT[from].includes(to), `canister ${handle} cannot go from ${from} to ${to}`);
}
