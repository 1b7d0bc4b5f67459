/** Main thread: plain state of one canister, touched by the files of this folder alone. */
import { type CanisterStatus, type CallKind, type Response, idFromText } from '../ic/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { CallContext, OpenCall } from './call-context.ts';
import type { Seat } from './live-set.ts';
import { Queue } from './queue.ts';

/** A call of a method that waits. */
export interface WaitingStart {
  readonly kind: 'start';
  readonly context: CallContext;
  readonly call: CallKind;
  readonly method: string;
  readonly argument: Uint8Array;
  /** Its place among what is kept for its canister; 0: it is not kept. */
  order: number;
}

/** A response that waits to be given to its callback. */
export interface WaitingResponse {
  readonly kind: 'response';
  readonly call: OpenCall;
  readonly response: Response;
  readonly refunded: bigint;
  /** As above. */
  order: number;
}

/** Something that waits for a canister. Entry points are looked up when it starts: the code may have changed by then. */
export type Waiting =
  | WaitingStart
  /** A call of a method from a client, when the canister wants to look at it first. */
  | {
      readonly kind: 'inspect';
      readonly context: CallContext;
      readonly method: string;
      readonly argument: Uint8Array;
    }
  | WaitingResponse
  /** A heartbeat or a global timer that is due. */
  | { readonly kind: 'system'; readonly context: CallContext; readonly exported: string }
  /** A suspended query that nobody goes on with. */
  | { readonly kind: 'dropFrame'; readonly frame: number; readonly life: object }
  /** Cycles that come back without a callback, for a canister that was asleep. */
  | { readonly kind: 'credit'; readonly credit: Credit };

/** Cycles that a canister has to get, and no callback brings. */
export interface Credit {
  readonly agenda: Agenda;
  readonly amount: bigint;
  /** Its key among what is kept; 0: none. */
  number: number;
  isStored: boolean;
  isPaid: boolean;
}

/** What a canister needs while it has anything to do. */
export class Work {
  /** Heartbeats and timers: ahead of everything else. */
  readonly system = new Queue<Waiting>();
  /** Updates and responses. */
  readonly input = new Queue<Waiting>();
  /** Queries: on committed state, so they may overtake what waits in `input`. */
  readonly queries = new Queue<Waiting>();
  /** Contexts of updates and system tasks that are not finished: what stopping waits for. */
  readonly contexts = new Set<CallContext>();
  /** Calls of these contexts that are open; filled only where state is kept. */
  readonly openCalls = new Set<OpenCall>();
  /** What executed when the executor died, and is to be executed again. */
  interrupted: (WaitingStart | WaitingResponse)[] = [];
  /** Changes of its code that are under way: nothing starts until all have ended. */
  changes = 0;
  /** Tasks at the executor, and cycles on their way there. */
  executing = 0;
  /** Who needs it to stay awake. */
  pins = 0;
  /** Who is about to delete it with its calls. */
  deletions = 0;
  /** Suspended composite queries in the executor. */
  frames = 0;
  /** Changes when the executor dies, and with it every suspended query. */
  life: object = {};
  /** Has a place among its lane's turns. */
  hasTurn = false;
  /** The heartbeat is queued or executing. */
  isBeating = false;
  /** When the timer was due whose hook is queued or executing, ms since 1970; undefined: none is, or it was set again since. */
  firingMs: number | undefined = undefined;
  isWaking = false;
  /** Its status has changed since its waking began. */
  isStatusNew = false;
  /** It could not be woken a moment ago. */
  isUnwakable = false;
  /** Executors in a row that have died while it woke. */
  lostWakes = 0;
  /** Others wait for its place: it starts nothing more before it has slept. */
  isGivingWay = false;
  /** Called when it has stopped, or will not: then with the reason. */
  stopWaiters: ((problem: string | undefined) => void)[] = [];
  /** Called when it is awake, or cannot be woken: then with the reason. */
  wakeWaiters: ((problem: Error | undefined) => void)[] = [];
  isQueryNext = false;

  get waiting(): number {
    return this.system.length + this.input.length + this.queries.length;
  }

  /** Its executor may drop it now. */
  get isQuiet(): boolean {
    return (
      this.executing === 0 &&
      this.changes === 0 &&
      this.pins === 0 &&
      this.frames === 0 &&
      this.interrupted.length === 0
    );
  }

  /** Nothing here is worth keeping. */
  get isNeedless(): boolean {
    return (
      this.isQuiet &&
      this.waiting === 0 &&
      this.contexts.size === 0 &&
      this.openCalls.size === 0 &&
      this.stopWaiters.length === 0 &&
      this.wakeWaiters.length === 0 &&
      this.deletions === 0 &&
      this.firingMs === undefined &&
      !this.isBeating &&
      !this.isWaking &&
      !this.isUnwakable &&
      !this.hasTurn
    );
  }
}

/** What one canister still has to do, in order; and where it stands. Many sleep: what only the busy ones need is apart. */
export class Agenda {
  readonly handle: number;
  readonly idText: string;
  module: ModuleInfo | undefined = undefined;
  status: CanisterStatus = 'running';
  /** Its executor has died, and nothing is kept: nothing runs any more. */
  isLost = false;
  /** It is deleted: nobody finds it any more, and what still waits for it is refused. */
  isWithdrawn = false;
  /** No executor has it; it is woken when something waits for it. */
  isAsleep = false;
  /** It could not be loaded: what is kept for it stays as it is. */
  isAbsent = false;
  /** What another canister must attach to a call. */
  minimumCycles = 0n;
  /** When the global timer is due, ms since 1970; undefined: off. */
  timerMs: number | undefined = undefined;
  /** The unit with its newest change. */
  lastUnit = 0;
  /** Its place among those that are awake; undefined while it sleeps. */
  seat: Seat | undefined = undefined;
  #work: Work | undefined = undefined;

  constructor(handle: number, idText: string) {
    this.handle = handle;
    this.idText = idText;
  }

  get id(): Uint8Array {
    return idFromText(this.idText);
  }

  /** Made when first asked for. */
  get work(): Work {
    return (this.#work ??= new Work());
  }

  /** What there is of it. */
  get workIfAny(): Work | undefined {
    return this.#work;
  }

  /** Gives back what a sleeping canister does not need. */
  shrink(): void {
    if (this.#work?.isNeedless === true) this.#work = undefined;
  }

  /** Number of an entry point, if the code has it. */
  entry(exported: string): number | undefined {
    return this.module?.entries.get(exported);
  }

  get isChanging(): boolean {
    return this.#work !== undefined && this.#work.changes > 0;
  }

  /** Something could start now. */
  get hasWork(): boolean {
    const work = this.#work;
    return work !== undefined && work.waiting > 0 && this.#canStart(work);
  }

  /** Nothing would be missed if it slept. */
  get isIdle(): boolean {
    const work = this.#work;
    return work === undefined || (work.waiting === 0 && work.isQuiet);
  }

  /** Takes what comes next; undefined when nothing does, or when it has to wait for an execution of its own context. */
  take(): Waiting | undefined {
    const work = this.#work;
    if (work === undefined || !this.#canStart(work)) return undefined;
    if (work.system.length > 0) return work.system.shift();
    const queue = nextQueue(work);
    const head = queue.peek();
    // The next execution of a context must know what the one before it did: whether it answered, what it accepted.
    if (head?.kind === 'response' && head.call.context.isExecuting) return undefined;
    return queue.shift();
  }

  #canStart(work: Work): boolean {
    return !this.isAsleep && work.changes === 0 && work.interrupted.length === 0 && !work.isGivingWay;
  }
}

/** Updates and queries alternate while both wait. */
function nextQueue(work: Work): Queue<Waiting> {
  if (work.queries.length === 0) return work.input;
  if (work.input.length === 0) return work.queries;
  work.isQueryNext = !work.isQueryNext;
  return work.isQueryNext ? work.queries : work.input;
}

/**
 * A composite query of another canister waits for this, and keeps its place among the live ones meanwhile. Responses, too: a
 * query one of whose callbacks has trapped keeps none, and ends only when the rest of its calls have been answered.
 */
export function isUrgent(waiting: Waiting): boolean {
  const context =
    waiting.kind === 'start' ? waiting.context : waiting.kind === 'response' ? waiting.call.context : undefined;
  return (context?.evaluation?.depth ?? 0) > 0;
}

export function queueOf(work: Work, waiting: Waiting): Queue<Waiting> {
  switch (waiting.kind) {
    case 'system':
      return work.system;
    case 'start':
      return waiting.call === 'query' ? work.queries : work.input;
    case 'response':
      return waiting.call.context.evaluation === undefined ? work.input : work.queries;
    case 'dropFrame':
    case 'credit':
      return work.queries;
    case 'inspect':
      return work.input;
  }
}
