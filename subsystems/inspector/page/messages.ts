import { ApiError, UnreachableError } from './api-errors.ts';

/** Returns the error as a sentence, in the server's own words if there are any. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.status === 404 ? error.message : `${error.status}: ${error.message}`;
  if (error instanceof UnreachableError) return 'the server cannot be reached';
  if (error instanceof Error && error.name === 'TimeoutError') return 'the server does not answer';
  return error instanceof Error ? error.message : String(error);
}
