/**
 * Tasks that wait for a canister and those that it has begun, with who keeps it from starting or from sleeping, and
 * who waits for it. Tasks, contexts and calls refer to canisters (scheduled-canister.ts): here they are types to be
 * filled in.
 *
 * Main thread; plain data, and made only while there is something to do: nearly all canisters sleep.
 */
import type { Recall } from '../execution/index.ts';
import { type Member, MemberList } from './member-list.ts';
import { Queue } from './queue.ts';

/** A task that is stored as well: it has a place among the canister's stored tasks. */
interface Stored {
  order: number;
}

/** State that a canister needs while it has anything to do: its tasks, the contexts and calls that they belong to. */
export class Work<Task extends object, Context extends Member<Context>, Call extends Member<Call>> {
  /** Heartbeats and timers: ahead of everything else. */
  readonly system = new Queue<Task>();
  /** Updates and responses. */
  readonly input = new Queue<Task>();
  /** Queries: on committed state, so they may overtake what waits in `input`. */
  readonly queries = new Queue<Task>();
  /** Contexts of updates and system tasks that are not finished: what stopping waits for. */
  readonly contexts = new MemberList<Context>();
  /** Calls of these contexts that are open; filled only where state is kept. */
  readonly openCalls = new MemberList<Call>();
  /** Tasks that executed when the executor died, and are to be executed again. */
  interrupted: Extract<Task, Stored>[] = [];
  /** Calls of clients that have not begun, while it is paused: they wait for its new code. */
  readonly held = new Queue<Task>();
  /** Changes of its code that are under way: nothing starts until all have ended. */
  changes = 0;
  /** Tasks and changes of code at the executor, and cycles on their way there. */
  executing = 0;
  /** The part of `executing` that is being taken back: nothing starts until nothing of that part executes any more. */
  recall: Recall = 'nothing';
  /** Tasks that have come back, in order; then they go ahead of what waits. */
  takenBack: Task[] = [];
  /** Who needs it to stay awake. */
  pins = 0;
  /** Who is about to delete it with its calls. */
  deletions = 0;
  /** True while it is locked and about to go to another shard: nothing wakes it. */
  isLeaving = false;
  /** Suspended composite queries in the executor. */
  frames = 0;
  /** Changes when the executor dies, and with it every suspended query. */
  life: object = {};
  /** Has a place among its queue's turns. */
  hasTurn = false;
  /** The heartbeat is queued or executing. */
  isBeating = false;
  /**
   * When the timer was due whose hook is queued or executing, ms since 1970; undefined: none is, or it was set again
   * since.
   */
  firingMs: number | undefined = undefined;
  /** The context of the low-memory hook that is queued or executing; undefined: none is, or it is not due any more. */
  lowMemory: Context | undefined = undefined;
  /** Called when it has stopped, or will not: then with the reason. */
  stopWaiters: ((problem: string | undefined) => void)[] = [];
  /** Called when nothing of it executes any more. */
  restWaiters: (() => void)[] = [];
  /** Called when it is awake, or cannot be woken: then with the reason. */
  wakeWaiters: ((problem: Error | undefined) => void)[] = [];
  isQueryNext = false;

  /** The hook in that context runs no more; true: it was due. */
  lowMemoryEnded(context: Context): boolean {
    if (this.lowMemory !== context) return false;
    this.lowMemory = undefined;
    return true;
  }

  get waiting(): number {
    return this.system.length + this.input.length + this.queries.length;
  }

  /** True if the executor may drop the canister now. */
  get isQuiet(): boolean {
    return (
      this.executing === 0 &&
      this.changes === 0 &&
      this.pins === 0 &&
      this.frames === 0 &&
      this.interrupted.length === 0
    );
  }

  /** Nothing is to be done, nobody waits, and no turn or hook is under way: another object would do as well. */
  get isEmpty(): boolean {
    return (
      this.isQuiet &&
      this.waiting === 0 &&
      this.held.length === 0 &&
      this.contexts.size === 0 &&
      this.openCalls.size === 0 &&
      this.stopWaiters.length === 0 &&
      this.wakeWaiters.length === 0 &&
      this.deletions === 0 &&
      this.firingMs === undefined &&
      this.lowMemory === undefined &&
      !this.isBeating &&
      !this.hasTurn
    );
  }
}
