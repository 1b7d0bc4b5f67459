/** Main thread; plain data. */
import type { RunKind } from './methods.ts';

/** The way in which a client named a canister: by its name, or by its id in one of its forms. */
export type AddressedBy = 'name' | 'id';

/**
 * Place of a message in the tree of all messages that one message caused, by numbers that a process gives: 1, 2, ….
 * A message has a greater number than its cause.
 */
export interface MessageTrace {
  readonly number: number;
  /** Number of the message whose execution sent this one; 0: a client sent it, or a timer or heartbeat did. */
  readonly cause: number;
  /** Number of the message at the top of the tree; the message's own if it has no cause. */
  readonly root: number;
}

/** A message as it came: for the counts and the history of its canister, when its answer is known. */
export interface NotedMessage {
  /** `call`: of another canister, or of the canister itself. */
  readonly kind: RunKind | 'call';
  readonly method: string;
  readonly caller: Uint8Array;
  /** At least its first NOTED_ARGUMENT_BYTES_MAX bytes, where it is remembered. */
  readonly argument: Uint8Array;
  readonly argumentBytes: number;
  /** Ms since 1970. */
  readonly startedMs: number;
  /** Given for messages of clients; `name` otherwise. */
  readonly addressedBy?: AddressedBy;
  /** Undefined where nobody has given the message a number. */
  readonly trace?: MessageTrace | undefined;
}
