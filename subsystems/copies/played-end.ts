import { outcomeKindOf, type Step } from '../ic/index.ts';

/** End of an execution on a copy. `missing`: the code has no such method. */
type PlayedOutcome = 'done' | 'reply' | 'reject' | 'trap' | 'limit' | 'out_of_cycles' | 'missing';

export interface PlayedEnd {
  readonly outcome: PlayedOutcome;
  /** Bytes of a reply. */
  readonly reply: Uint8Array | undefined;
  /** Text of a reject or a fault. */
  readonly message: string | undefined;
  /** As `StepFault` has it. */
  readonly stack?: string | undefined;
  readonly instructions: number;
}

const FAULTS = { trap: 'trap', limit: 'limit', outOfCycles: 'out_of_cycles', unavailable: 'trap' } as const;

/** Returns the end of an execution as reports have it. */
export function endOf({ fault, answer, instructions }: Step): PlayedEnd {
  if (fault !== undefined) {
    const { message, stack } = fault;
    return { outcome: FAULTS[outcomeKindOf(fault.kind)], reply: undefined, message, stack, instructions };
  }
  if (answer?.kind === 'reply') return { outcome: 'reply', reply: answer.data, message: undefined, instructions };
  if (answer !== undefined) return { outcome: 'reject', reply: undefined, message: answer.message, instructions };
  return { outcome: 'done', reply: undefined, message: undefined, instructions };
}
