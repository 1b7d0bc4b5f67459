import type { Step } from './step.ts';

const SYS_TRANSIENT = 2;

/** The step of a task that was never begun. */
export function unavailableStep(message: string): Step {
  return {
    fault: { kind: 'unavailable', code: SYS_TRANSIENT, message },
    answer: undefined,
    calls: [],
    cyclesAccepted: 0n,
    timerNs: undefined,
    isAccepted: false,
    frame: 0,
    instructions: 0,
    charge: 0,
  };
}
