import type { ErrorKind } from '../../kernel/index.ts';

/** The one place where a kind of error becomes a status; clients rely on them (docs/http.md). */
export const HTTP_STATUS = {
  invalid: 400,
  rejected: 400,
  trapped: 400,
  unauthenticated: 401,
  outOfCycles: 402,
  forbidden: 403,
  missing: 404,
  tooLarge: 413,
  unprocessable: 422,
  noReply: 500,
  badWebsite: 502,
  unavailable: 503,
} as const satisfies Record<ErrorKind, number>;

/** Kinds whose `code` in an error body is a reject code (1–6); for all others it is the HTTP status. */
const REJECTING_KINDS: ReadonlySet<ErrorKind> = new Set(['rejected', 'trapped', 'noReply']);

/** The `code` of an error body: the reject code where the actor or the system rejected, else the status. */
export function errorCodeOf(kind: ErrorKind, rejectCode: number): number {
  return REJECTING_KINDS.has(kind) ? rejectCode : HTTP_STATUS[kind];
}
