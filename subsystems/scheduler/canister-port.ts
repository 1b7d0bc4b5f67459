/**
 * The parts of canisters that the scheduler uses: one who loads them into executors, and one who hears of them.
 * Whatever becomes of a canister's messages is told here, and nowhere else.
 *
 * Main thread. The order in which a listener hears of one turn's events is the order in which they happen.
 */
import type { CanisterStatus, MessageTrace, NotedMessage, OpenCallsEntry, Outcome, ToldStep } from '../ic/index.ts';

/** A canister as the scheduler has it. Live: the fields follow what happens. */
export interface AsScheduled {
  readonly status: CanisterStatus;
  /** The status as it has to be stored: a canister that is paused runs after a crash. */
  readonly storedStatus: CanisterStatus;
  /** When the global timer is due, ms since 1970; undefined: off. */
  readonly timerMs: number | undefined;
  /** The timer as it has to be stored: one whose hook has not ended yet is still due. */
  readonly storedTimerMs: number | undefined;
  /** Calls that its executor has to count as open when the canister is woken. */
  readonly openCounts: readonly OpenCallsEntry[];
  /** True if the canister is stored, and no executor has it yet, or any more. */
  readonly isAsleep: boolean;
  /** Messages, responses, heartbeats and timers that wait for the canister, without those that execute. */
  readonly queued: number;
}

/** Who puts canisters into executors, and takes them out. */
export interface Loader {
  /**
   * Makes an executor have the canister as it is stored, with its status, timer and open calls of the moment in which
   * the executor is told of it. Rejects with the ServerError that says why that cannot be: all that waits is then
   * answered with it, and the next message tries again. With kind `missing` nothing tries again: what other canisters
   * have sent it stays stored, and calls to it are rejected.
   */
  wake(handle: number, canister: AsScheduled): Promise<void>;
  /** Nothing of the canister executes or waits: its executor drops it. Resolves when it has. */
  sleep(handle: number): void | Promise<void>;
  /** Bytes of heap and stable memory, as last known; asked only if they are limited. */
  bytesOf(handle: number): number;
  /** Bytes of heap, as last known. */
  heapBytesOf(handle: number): number;
  /** Bytes of stable memory that were written, as the last read of the sleeping canister found; 0: not known. */
  storedStableBytesOf(handle: number): number;
}

/**
 * Tells how a step counts where no client's answer counts it: as a message, or as a part of one, of which only a trap
 * counts. `nothing`: the answer counts it, or it is no message.
 */
export type StepCount = 'message' | 'part' | 'nothing';

/** Who hears what becomes of canisters. Must not throw. */
export interface Listener {
  /**
   * A step of the canister has ended: told before anything follows from that, in the turn whose unit its changes belong
   * to. `message`: number of the message that printed the step's lines; 0: it has none, or there are no lines.
   */
  stepEnded(handle: number, step: ToldStep, count: StepCount, message: number): void;
  /**
   * A message has its answer, in the turn in which that is known: where a step was the answer, what the call changes is
   * in the unit that a client waits for. `noted`: as the message came with it, or, if `remembersCalls`, as it was noted
   * of a call of a canister.
   */
  answered(handle: number, noted: NotedMessage, outcome: Outcome): void;
  readonly remembersCalls: boolean;
  /** Returns the place of a call that a canister is about to send; `cause`: the one of the message that sends it. */
  traceOf(cause: MessageTrace | undefined): MessageTrace | undefined;
  /** Operations for storage that no step has brought, in pieces, for the unit of this turn. */
  changed(handle: number, changes: readonly Uint8Array[]): void;
  /** Cycles came outside of any step; with the balance since. */
  credited(handle: number, balance: bigint): void;
  /** The canister's executor has died, which the scheduler has seen to. */
  lost(handle: number): void;
  /**
   * The canister's status or timer is another now, and no step brings that about. Both are to be stored with this unit;
   * need not be told where nothing is kept.
   */
  recordChanged(handle: number): void;
  /** The low-memory hook has run, or the canister's code has none: to be stored with this unit. */
  lowMemoryRan(handle: number): void;
  /** The name that people call it by. */
  nameOf(handle: number): string;
}

function noLoader(): never {
  throw new Error('canisters sleep, and nobody can wake them');
}

/** Loader of a scheduler whose canisters never sleep. */
export const NO_LOADER: Loader = {
  wake: noLoader,
  sleep: noLoader,
  bytesOf: noLoader,
  heapBytesOf: noLoader,
  storedStableBytesOf: noLoader,
};

/** Listener of a scheduler whose canisters nobody has. */
export const NO_LISTENER: Listener = {
  stepEnded: () => undefined,
  answered: () => undefined,
  remembersCalls: false,
  traceOf: () => undefined,
  changed: () => undefined,
  credited: () => undefined,
  lost: () => undefined,
  recordChanged: () => undefined,
  lowMemoryRan: () => undefined,
  nameOf: (handle) => `actor ${handle}`,
};

/** Loader and listener, from when they are attached. */
export class CanisterPort {
  loader: Loader = NO_LOADER;
  listener: Listener = NO_LISTENER;
}
