/** Mistakes in how an executor gives back what is recalled: for a simulation that has to find them. */
import { NOTHING_RAN, TAKEN_BACK, type Task } from '../../subsystems/ic/index.ts';
import type { Done, RandomThreadsOptions } from './random-threads.ts';

type Plant = NonNullable<RandomThreadsOptions['plant']>;

/** One that has been executed is given back as well, and so executed twice. */
export const TWICE: Plant = (task, ended, isRecalled) => (step, argument) => {
  const isExecuted = task.kind === 'update' && step.fault === undefined && isRecalled();
  return ended(isExecuted ? TAKEN_BACK : step, argument);
};

/** One that is given back is told as if it had been executed. */
export const LOST: Plant = (task, ended) => (step, argument) =>
  ended(step === TAKEN_BACK && task.kind === 'update' ? NOTHING_RAN : step, argument);

/** A large argument does not come back. */
export const EMPTIED: Plant = (_task, ended) => (step) => ended(step);

/** What comes behind a message whose calls are being sent does not wait for that. */
export const OVERTAKING: Plant = (_task, ended) => (step, argument) => void ended(step, argument);

/** Plants that the second of two tasks that follow each other comes back first. */
export function swapped(): Plant {
  let first: (() => void) | undefined;
  return (task: Task, ended: Done): Done =>
    (step, argument) => {
      const end = (): void => void ended(step, argument);
      const before = first;
      first = undefined;
      if (step === TAKEN_BACK && task.kind === 'update' && before === undefined) {
        first = end;
        // The last of them has none behind it.
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
