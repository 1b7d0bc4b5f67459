import { type ErrorKind, ServerError } from '../../kernel/index.ts';

/** An error's parts: an error object would lose its class on its way between threads. */
export type JobFailure =
  | { readonly kind: ErrorKind; readonly code: string; readonly message: string }
  | { readonly bug: string };

export function failureOf(error: unknown): JobFailure {
  if (error instanceof ServerError) return { kind: error.kind, code: error.code, message: error.message };
  return { bug: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/** Returns the error that `failureOf` took apart in the other thread, whose name is `thread`. */
export function errorOf(thread: string, failure: JobFailure): Error {
  if ('bug' in failure) return new Error(`bug in the ${thread} thread: ${failure.bug}`);
  return new ServerError(failure.kind, failure.code, failure.message);
}
