/**
 * The end of a step, told once: what came of it, and all that its executor says of the canister beside that. The
 * scheduler hears it first, and hands it on before it does anything else. Plain data.
 */
import type { MessageNumbers } from './canister-facts.ts';
import type { OutputLine, Step } from './step.ts';

/** A step as its executor has told it, with the canister's numbers afterwards. */
export interface ToldStep extends MessageNumbers {
  readonly isReturned: false;
  readonly step: Step;
  /** Operations for storage, in pieces, for the unit of this turn. The bytes are the reader's. */
  readonly changes: readonly Uint8Array[];
  /** Debug prints, or the text of a trap, in order. */
  readonly lines: readonly OutputLine[];
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** The balance afterwards, when something besides the step's charge changed it; undefined otherwise. */
  readonly balance: bigint | undefined;
  /** When the message began, ms since 1970: time never goes back for the canister. */
  readonly instantMs: number;
  /** Instructions that running the canister's log again takes; 0: it has no log. */
  readonly loggedInstructions: number;
}

/** A task that was not executed: its executor has given it back, or has died. */
export interface ReturnedTask {
  readonly isReturned: true;
  /** TAKEN_BACK, or a step with the fault `unavailable`. */
  readonly step: Step;
  /** The task's argument, if that had been handed over and was given back. */
  readonly argument: Uint8Array | undefined;
}

export type EndedStep = ToldStep | ReturnedTask;

export function returnedTask(step: Step, argument?: Uint8Array): ReturnedTask {
  return { isReturned: true, step, argument };
}
