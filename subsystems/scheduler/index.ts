import { defineCapability } from '../../kernel/index.ts';
import type { CallKind, CodeChange, ModuleInfo, Outcome, Response, Step } from '../execution/index.ts';

/** A message from a client. */
export interface IngressMessage {
  readonly handle: number;
  readonly kind: CallKind;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly argument: Uint8Array;
}

/** A canister's call to the management canister. */
export interface SystemCall {
  readonly sender: Uint8Array;
  readonly method: string;
  readonly argument: Uint8Array;
  readonly cycles: bigint;
  /** From a composite query. */
  readonly isQuery: boolean;
}

/** The management canister, as the scheduler reaches it. Never rejects for a mistake of the sender's. */
export interface SystemCanister {
  call(call: SystemCall): Promise<{ readonly response: Response; readonly refunded: bigint }>;
}

export type CanisterStatus = 'running' | 'stopping' | 'stopped';

/**
 * Decides which message runs next, and keeps everything that outlives an execution: queues, call contexts, callbacks,
 * timers, states. Canisters are named by their handles.
 */
export interface Scheduler {
  /** A canister that exists from now on, without code. */
  admit(handle: number, id: Uint8Array): void;
  /**
   * Queues a message; resolves with its outcome, never rejects for a guest's fault.
   * Outcome `unavailable` (code 2) when the canister's queue is full, its thread has died, or the server stops.
   */
  deliver(message: IngressMessage): Promise<Outcome>;
  /** Changes a canister's code, after what is executing. A step without fault: it is done. */
  change(handle: number, module: ModuleInfo, change: CodeChange): Promise<Step>;
  /** Drops a canister's code and state: its open calls are rejected (code 4), their callbacks never run. */
  uninstall(handle: number): void;
  /** Nothing of the canister starts until what is returned is called: its code and state are about to be others. */
  hold(handle: number): () => void;
  /** Tells of code that came with a restored state; the global timer stays as it is unless one is given (ms since 1970). */
  restored(handle: number, module: ModuleInfo | undefined, timerMs?: number): void;
  statusOf(handle: number): CanisterStatus;
  /** When the global timer is due, ms since 1970; undefined: off. */
  timerOf(handle: number): number | undefined;
  start(handle: number): void;
  /** Resolves when no call of the canister is open any more. Rejects with ServerError `unavailable` after five minutes, or when it is started again. */
  stop(handle: number): Promise<void>;
  /** Forgets a stopped canister: calls to it are answered `not found`. */
  withdraw(handle: number): void;
  /** Calls of other canisters that attach less are rejected, and refunded. */
  setMinimumCycles(handle: number, cycles: bigint): void;
  /** Little of the canister's heap is left: its hook is due. False: not now, for the canister does not run, or its code is being changed. */
  lowMemory(handle: number): boolean;
  /** The canister's executor has died. */
  lost(handle: number): void;
  attach(systemCanister: SystemCanister): void;
  /** Begins with heartbeats and timers. */
  beginTicking(): void;
  /** Takes no more messages, answers the queued ones `unavailable`, and resolves when the executing ones have ended, however long they take. */
  drain(): Promise<void>;
}
export const Scheduler = defineCapability<Scheduler>('scheduler');
