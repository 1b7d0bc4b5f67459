/** A worker thread's side of a `JobThread`. */
import { parentPort } from 'node:worker_threads';
import { failureOf, type JobFailure } from './job-failure.ts';

/** Outcome of a job: its result, or its error. */
export type JobOutcome<Done> = { readonly done: Done } | JobFailure;

/**
 * Does each job with `work`, which takes what the `JobThread` is given. The buffer of bytes that it returns is handed
 * over, not copied.
 */
export function serveJobs(work: (request: never) => unknown): void {
  parentPort?.on('message', (request: unknown) => {
    const outcome = outcomeOf(work, request);
    const bytes = 'done' in outcome && outcome.done instanceof Uint8Array ? outcome.done.buffer : undefined;
    parentPort?.postMessage(outcome, bytes instanceof ArrayBuffer ? [bytes] : []);
  });
}

function outcomeOf(work: (request: never) => unknown, request: unknown): JobOutcome<unknown> {
  try {
    return { done: work(request as never) };
  } catch (error) {
    return failureOf(error);
  }
}
