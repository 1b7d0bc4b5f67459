import { NO_NUMBERS, NOTHING_RAN, type Step, type ToldStep } from '../../../../subsystems/ic/index.ts';

/** A step that has changed, printed and measured nothing. */
export function toldStep(step: Step = NOTHING_RAN, more: Partial<ToldStep> = {}): ToldStep {
  const sizes = {
    ...NO_NUMBERS,
    heapBytes: 0,
    stableBytes: 0,
    balance: undefined,
    instantMs: 0,
    loggedInstructions: 0,
  };
  return { isReturned: false, step, changes: [], lines: [], ...sizes, ...more };
}
