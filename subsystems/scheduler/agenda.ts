import type { CallKind, ModuleInfo, Response } from '../execution/index.ts';
import type { CallContext, OpenCall } from './call-context.ts';
import { Queue } from './queue.ts';

export type CanisterStatus = 'running' | 'stopping' | 'stopped';

/** Something that waits for a canister. Entry points are looked up when it starts: the code may have changed by then. */
export type Waiting =
  /** A call of a method. */
  | {
      readonly kind: 'start';
      readonly context: CallContext;
      readonly call: CallKind;
      readonly method: string;
      readonly argument: Uint8Array;
    }
  /** The same from a client, when the canister wants to look at it first. */
  | {
      readonly kind: 'inspect';
      readonly context: CallContext;
      readonly method: string;
      readonly argument: Uint8Array;
    }
  /** A response for a callback. */
  | { readonly kind: 'response'; readonly call: OpenCall; readonly response: Response; readonly refunded: bigint }
  /** A heartbeat or a global timer that is due. */
  | { readonly kind: 'system'; readonly context: CallContext; readonly exported: string }
  /** A suspended query that nobody goes on with. */
  | { readonly kind: 'dropFrame'; readonly frame: number };

/** What one canister still has to do, in order; and where it stands. */
export class Agenda {
  readonly handle: number;
  readonly id: Uint8Array;
  module: ModuleInfo | undefined = undefined;
  status: CanisterStatus = 'running';
  /** Its executor has died: nothing runs any more. */
  isLost = false;
  /** It is deleted: nobody finds it any more, and what still waits for it is refused. */
  isWithdrawn = false;
  /** Changes of its code that are under way: nothing starts until all have ended. */
  changes = 0;
  /** What another canister must attach to a call. */
  minimumCycles = 0n;
  /** Heartbeats and timers: ahead of everything else. */
  readonly system = new Queue<Waiting>();
  /** Updates and responses. */
  readonly input = new Queue<Waiting>();
  /** Queries: on committed state, so they may overtake what waits in `input`. */
  readonly queries = new Queue<Waiting>();
  /** Contexts of updates and system tasks that are not finished: what stopping waits for. */
  readonly contexts = new Set<CallContext>();
  /** Tasks at the executor. */
  executing = 0;
  /** Has a place among its lane's turns. */
  hasTurn = false;
  /** The heartbeat is queued or executing. */
  isBeating = false;
  /** When the global timer is due, ms since 1970; Infinity: off. */
  timerMs = Number.POSITIVE_INFINITY;
  /** Called when it has stopped, or will not: then with the reason. */
  stopWaiters: ((problem: string | undefined) => void)[] = [];
  #isQueryNext = false;

  constructor(handle: number, id: Uint8Array) {
    this.handle = handle;
    this.id = id;
  }

  /** Number of an entry point, if the code has it. */
  entry(exported: string): number | undefined {
    return this.module?.entries.get(exported);
  }

  get isChanging(): boolean {
    return this.changes > 0;
  }

  get hasWork(): boolean {
    return !this.isChanging && (this.system.length > 0 || this.input.length > 0 || this.queries.length > 0);
  }

  /** Takes what comes next; undefined when nothing does, or when it has to wait for an execution of its own context. */
  take(): Waiting | undefined {
    if (this.isChanging) return undefined;
    if (this.system.length > 0) return this.system.shift();
    const queue = this.#nextQueue();
    const head = queue.peek();
    // The next execution of a context must know what the one before it did: whether it answered, what it accepted.
    if (head?.kind === 'response' && head.call.context.isExecuting) return undefined;
    return queue.shift();
  }

  /** Updates and queries alternate while both wait. */
  #nextQueue(): Queue<Waiting> {
    if (this.queries.length === 0) return this.input;
    if (this.input.length === 0) return this.queries;
    this.#isQueryNext = !this.#isQueryNext;
    return this.#isQueryNext ? this.queries : this.input;
  }
}
