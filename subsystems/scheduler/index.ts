import { defineCapability } from '../../kernel/index.ts';
import type { CanisterMessage, Outcome } from '../execution/index.ts';

/** Decides which message runs next: order within a canister, turns between canisters, bounded queues, drain. */
export interface Scheduler {
  /**
   * Queues a message; resolves with its outcome, never rejects for a guest's fault.
   * Outcome `unavailable` (code 2) when the canister's queue is full, or the server stops.
   */
  deliver(message: CanisterMessage): Promise<Outcome>;
  /** Takes no more messages, answers the queued ones `unavailable`, and resolves when the executing ones have ended, however long they take. */
  drain(): Promise<void>;
}
export const Scheduler = defineCapability<Scheduler>('scheduler');
