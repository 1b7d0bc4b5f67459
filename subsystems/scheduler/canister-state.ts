/**
 * Where a canister is: one state at a time, with the facts that only this state has, and which may follow which.
 * ARCHITECTURE.md ("Where an actor is") has the table with who brings each change about.
 *
 * Main thread; plain data. States without facts of their own are one object for all canisters: very many sleep.
 */
import { assert, ServerError } from '../../kernel/index.ts';

/** An executor has it. */
interface Live {
  readonly kind: 'live';
  /**
   * Others wait for its place: it starts nothing more before it has slept, except for the composite queries with
   * tickets up to this one, which had begun. Undefined: it keeps its place.
   */
  readonly givesWayAt: number | undefined;
}

/** No executor has it: it is stored, and is loaded when something waits for it. */
interface Evicted {
  readonly kind: 'evicted';
  /**
   * Ends the pause after a failure to load it, in which no heartbeat or timer wakes it; undefined: there is no pause.
   */
  readonly pause: Disposable | undefined;
}

/** Stored, and an executor is about to have it. */
interface Loading {
  readonly kind: 'loading';
  /** True if the status has changed since: the executor may have been told the one before. */
  isStatusNew: boolean;
  /** Executors in a row that have died while it woke. */
  readonly lostWakes: number;
}

/** Stored, and cannot be loaded by this host: what is stored for it stays as it is. */
interface Unloadable {
  readonly kind: 'unloadable';
  /** Told to whoever needs it awake. */
  readonly problem: Error;
}

/** The executor has died, and nothing of the canister is stored: nothing of it runs any more. */
interface Lost {
  readonly kind: 'lost';
}

/** Nobody finds it any more, and what still waits for it is refused. */
interface Deleted {
  readonly kind: 'deleted';
}

/** Another server of the service has it: here is a stand-in, whose calls are sent there. */
interface IsElsewhere {
  readonly kind: 'elsewhere';
}

export type CanisterState = Live | Evicted | Loading | Unloadable | Lost | Deleted | IsElsewhere;
export type StateKind = CanisterState['kind'];
export type StateOf<K extends StateKind> = Extract<CanisterState, { readonly kind: K }>;

/**
 * States that a canister may begin in: new, stored by another process, known from its calls alone, or another server's.
 */
export type FirstState = Live | Evicted | Unloadable | IsElsewhere;

export const LIVE: Live = Object.freeze({ kind: 'live', givesWayAt: undefined });
export const EVICTED: Evicted = Object.freeze({ kind: 'evicted', pause: undefined });
/** Another process has stored it, and this one has found before that it cannot be used. */
export const UNUSABLE: Unloadable = Object.freeze({
  kind: 'unloadable',
  problem: new ServerError('missing', 'actor-rejected', 'the stored state of the canister cannot be used'),
});
export const LOST: Lost = Object.freeze({ kind: 'lost' });
export const DELETED: Deleted = Object.freeze({ kind: 'deleted' });
export const ELSEWHERE: IsElsewhere = Object.freeze({ kind: 'elsewhere' });

const NEXT: Readonly<Record<StateKind, readonly StateKind[]>> = {
  live: ['evicted', 'lost', 'deleted'],
  evicted: ['loading', 'deleted'],
  loading: ['live', 'evicted', 'unloadable', 'deleted'],
  unloadable: ['deleted'],
  lost: ['deleted'],
  deleted: [],
  elsewhere: [],
};

/** Throws where the scheduler is mistaken about the state of a canister. */
export function assertTransition(handle: number, from: StateKind, to: StateKind): void {
  assert(NEXT[from].includes(to), `canister ${handle} cannot go from ${from} to ${to}`);
}
