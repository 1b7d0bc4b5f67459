/** Kinds of errors that clients tell apart; `subsystems/http/http-status.ts` turns a kind into a status. */
export type ErrorKind =
  | 'invalid'
  | 'rejected'
  | 'trapped'
  | 'unauthenticated'
  | 'outOfCycles'
  | 'forbidden'
  | 'missing'
  | 'tooLarge'
  | 'unprocessable'
  | 'noReply'
  | 'badWebsite'
  | 'unavailable';

/**
 * An operating error: something outside the program's control went wrong, and a caller may want to handle it. `code` is
 * stable and documented in `docs/errors.md`; the message names the thing, the number and the fix.
 */
export class ServerError extends Error {
  override readonly name: string = 'ServerError';
  readonly code: string;
  readonly kind: ErrorKind;

  constructor(kind: ErrorKind, code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
    this.code = code;
  }
}

/** Returns the message of anything that was thrown, even of an object without text. */
export function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'an object without a text was thrown';
  }
}
