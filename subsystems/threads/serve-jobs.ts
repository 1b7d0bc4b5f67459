/** A worker thread's side of a `JobThread`. */
import { parentPort } from 'node:worker_threads';
import { type ErrorKind, ServerError } from '../../kernel/index.ts';

/** Outcome of a job: its result, or an error's parts (an error object would lose its class on the way). */
export type JobOutcome<Done> =
  | { readonly done: Done }
  | { readonly kind: ErrorKind; readonly code: string; readonly message: string }
  | { readonly bug: string };

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
    if (error instanceof ServerError) return { kind: error.kind, code: error.code, message: error.message };
    return { bug: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
