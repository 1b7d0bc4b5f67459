/** The way of tasks to their canisters, for the parts of the scheduler that send tasks on it. Types alone. */
import type { CallContext, QueuedTask, ScheduledCanister } from './scheduled-canister.ts';

export interface Tasks {
  /** True from when the server stops: what is not kept is refused. */
  readonly isDraining: boolean;
  /** Something new waits for a canister. */
  enqueue(canister: ScheduledCanister, waiting: QueuedTask): void;
  /** A hook of the canister is due: a heartbeat, the global timer, or that of little memory. */
  enqueueHook(canister: ScheduledCanister, exported: string, context?: CallContext): void;
  /** Cycles come back to a canister without a callback. */
  credit(canister: ScheduledCanister, amount: bigint): void;
  /** Tells whether a task may wait; if not, the task has been seen to. */
  mayWait(canister: ScheduledCanister, waiting: QueuedTask): boolean;
  /** Takes back tasks that an executor was given and has not begun, in order: they wait again, or will never begin. */
  takeBack(canister: ScheduledCanister, tasks: readonly QueuedTask[]): void;
  /** Starts tasks that wait for the canister, if they may start. */
  schedule(canister: ScheduledCanister): void;
}

/** Facts of a canister that have changed, and what follows from that. */
export interface StateChanges {
  /** The status has changed, and is to be stored. */
  statusChanged(canister: ScheduledCanister): void;
  /** Notes that the stored facts of a canister, besides its memory, have changed. */
  recordChanged(canister: ScheduledCanister): void;
  /** Goes on with a canister that its executor has again. `isStatusNew`: the executor may not know its status. */
  awake(canister: ScheduledCanister, isStatusNew: boolean): void;
  /** The canister could not be woken. */
  wakeFailed(canister: ScheduledCanister, error: Error): void;
}
