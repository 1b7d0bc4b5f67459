import { NOTHING_RAN, type Step } from './step.ts';

const SYS_TRANSIENT = 2;

/** The step of a task that was never begun. */
export function unavailableStep(message: string): Step {
  return { ...NOTHING_RAN, fault: { kind: 'unavailable', code: SYS_TRANSIENT, message } };
}
