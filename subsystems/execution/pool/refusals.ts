/** Main thread: reasons why an executor cannot do what is asked of it. */
import { ServerError } from '../../../kernel/index.ts';
import { THREAD_STOPPED_TEXT } from '../../ic/index.ts';

export function unfit(problem: string, isShort: boolean): ServerError {
  return isShort
    ? new ServerError('unavailable', 'memory-full', problem)
    : new ServerError('invalid', 'state-unfit', problem);
}

export function threadStopped(): ServerError {
  return new ServerError('unavailable', 'executor-stopped', THREAD_STOPPED_TEXT);
}

export function tooManyHeaps(refusal: string): ServerError {
  return new ServerError('unavailable', 'too-many-heaps', refusal);
}
