/** Mistakes in how an executor gives back recalled tasks, for a simulation that has to find them. */
import { NOTHING_RAN, TAKEN_BACK, type Task } from '../../subsystems/ic/index.ts';
import type { Done, RandomThreadsOptions } from './random-threads.ts';

type Plant = NonNullable<RandomThreadsOptions['plant']>;

/** An executed task is given back as well, and so executed twice. */
export const TWICE: Plant = (task, ended, isRecalled) => (step, argument) => {
  const isExecuted = task.kind === 'update' && step.fault === undefined && isRecalled();
  return ended(isExecuted ? TAKEN_BACK : step, argument);
};

/** A returned task is reported as executed. */
export const LOST: Plant = (task, ended) => (step, argument) =>
  ended(step === TAKEN_BACK && task.kind === 'update' ? NOTHING_RAN : step, argument);

/** A large argument does not come back. */
export const EMPTIED: Plant = (_task, ended) => (step) => ended(step);

/** A task behind a message whose calls are being sent does not wait for them. */
export const OVERTAKING: Plant = (_task, ended) => (step, argument) => void ended(step, argument);

/** Returns a plant by which the second of two consecutive tasks comes back first. */
export function swapped(): Plant {
  let first: (() => void) | undefined;
  return (task: Task, ended: Done): Done =>
    (step, argument) => {
      const end = (): void => void ended(step, argument);
      const before = first;
      first = undefined;
      if (step === TAKEN_BACK && task.kind === 'update' && before === undefined) {
        first = end;
        // The last task has none behind it.
        setImmediate(() => {
          if (first === end) {
            first = undefined;
            end();
          }
        });
        return;
      }
      end();
      before?.();
    };
}
