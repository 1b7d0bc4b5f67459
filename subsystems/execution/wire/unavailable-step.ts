/** Both sides: a constant form of step. Touches nothing. */
import { REJECT_CODE, NOTHING_RAN, type Step } from '../../ic/index.ts';

/** Returns the step of a task that was never begun. */
export function unavailableStep(message: string): Step {
  return { ...NOTHING_RAN, fault: { kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message } };
}
