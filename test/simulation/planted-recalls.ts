/** Mistakes in how an executor gives back recalled tasks, for a simulation that has to find them. */
import { NOTHING_RAN, returnedTask, TAKEN_BACK, type Task } from '../../subsystems/ic/index.ts';
import { toldStep } from '../support/told-step.ts';
import type { Done, RandomThreadsOptions } from './random-threads.ts';

type Plant = NonNullable<RandomThreadsOptions['plant']>;

/** An executed task is given back as well, and so executed twice. */
export const TWICE: Plant = (task, done, isRecalled) => (ended) => {
  const isExecuted = task.kind === 'update' && ended.step.fault === undefined && isRecalled();
  return done(isExecuted ? returnedTask(TAKEN_BACK) : ended);
};

/** A returned task is reported as executed. */
export const LOST: Plant = (task, done) => (ended) =>
  done(ended.step === TAKEN_BACK && task.kind === 'update' ? toldStep(NOTHING_RAN) : ended);

/** A large argument does not come back. */
export const EMPTIED: Plant = (_task, done) => (ended) => done(ended.isReturned ? returnedTask(ended.step) : ended);

/** A task behind a message whose calls are being sent does not wait for them. */
export const OVERTAKING: Plant = (_task, done) => (ended) => void done(ended);

/** Returns a plant by which the second of two consecutive tasks comes back first. */
export function swapped(): Plant {
  let first: (() => void) | undefined;
  return (task: Task, done: Done): Done =>
    (ended) => {
      const end = (): void => void done(ended);
      const before = first;
      first = undefined;
      if (ended.step === TAKEN_BACK && task.kind === 'update' && before === undefined) {
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
