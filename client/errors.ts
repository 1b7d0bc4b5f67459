/** Errors of calls and of live queries, one class for each thing that a program may want to do about them. */

/** Where an error happened, and the numbers that came with it. */
interface ErrorFacts {
  /** Reject code (1 to 6) of an actor, else the HTTP status; 0 where no answer came. */
  readonly code: number;
  /** HTTP status; 0 where no answer came. */
  readonly status: number;
  readonly actor: string;
  readonly method: string;
  readonly cause?: unknown;
}

/** Base class of all errors of this module; itself: the server failed (500), or answered with a status of its own. */
export class SvcError extends Error {
  override readonly name: string = 'SvcError';
  readonly code: number;
  readonly status: number;
  readonly actor: string;
  readonly method: string;

  constructor(message: string, { code, status, actor, method, cause }: ErrorFacts) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = status;
    this.actor = actor;
    this.method = method;
  }
}

/** The call was rejected, by the actor or for it: reject code 1, 2, 3, 4 or 6. */
export class RejectError extends SvcError {
  override readonly name = 'RejectError';
}

/** The actor failed: it trapped, reached a limit, did not reply, or is stopped (code 5). */
export class TrapError extends SvcError {
  override readonly name = 'TrapError';
}

/** The arguments do not fit the method, or the method does not fit the endpoint; the message names the place. */
export class BadArgumentError extends SvcError {
  override readonly name = 'BadArgumentError';
}

/** There is no such actor, method or route. */
export class NotFoundError extends SvcError {
  override readonly name = 'NotFoundError';
}

/** The token is missing or wrong (401), or the server refuses the page (403). */
export class UnauthorizedError extends SvcError {
  override readonly name = 'UnauthorizedError';
}

/** The actor is out of cycles (402). */
export class OutOfCyclesError extends SvcError {
  override readonly name = 'OutOfCyclesError';
}

/** The server, or a proxy before it, cannot answer now: 408, 429, 502, 503, 504. */
export class UnavailableError extends SvcError {
  override readonly name = 'UnavailableError';
}

/** The signal was aborted, or the deadline has passed. An update may have been executed all the same. */
export class AbortedError extends SvcError {
  override readonly name = 'AbortedError';
}

/** No answer came, or not all of it: the connection failed. */
export class NetworkError extends SvcError {
  override readonly name = 'NetworkError';
}

/** The answer is none that this server gives: no JSON, of another form, too large, or a redirection. */
export class AnswerError extends SvcError {
  override readonly name = 'AnswerError';
}

/** An actor's method. */
export interface Place {
  readonly actor: string;
  readonly method: string;
}

/** An error as it travels between tabs: what `refusalOf` makes an error of again. */
export interface Refusal {
  readonly status: number;
  readonly code: number;
  readonly message: string;
}

const UNAVAILABLE = new Set([408, 429, 502, 503, 504]);
/** Characters of an answer that is no JSON which a message shows. */
const SHOWN_CHARACTERS = 300;

/** Returns the refusal that an answer of the server says. */
export function readRefusal(status: number, body: string): Refusal {
  let told: { readonly code?: unknown; readonly message?: unknown } | null | undefined;
  try {
    told = JSON.parse(body) as typeof told;
  } catch {
    // Plain text: of the server before routing, or of a proxy.
  }
  if (typeof told?.code === 'number' && typeof told.message === 'string')
    return { status, code: told.code, message: told.message };
  const shown = body.length > SHOWN_CHARACTERS ? `${body.slice(0, SHOWN_CHARACTERS)}…` : body;
  return { status, code: status, message: shown.trim() === '' ? `the server answered ${status}` : shown.trim() };
}

/** Returns the error of the class that status and code name. Status 0: no answer came. */
export function errorOf({ status, code, message }: Refusal, place: Place): SvcError {
  const facts = { code, status, ...place };
  if (status === 0) return new NetworkError(message, facts);
  if (UNAVAILABLE.has(status)) return new UnavailableError(message, facts);
  if (status === 401 || status === 403) return new UnauthorizedError(message, facts);
  if (status === 402) return new OutOfCyclesError(message, facts);
  if (status === 404) return new NotFoundError(message, facts);
  if (code === 5) return new TrapError(message, facts);
  if (code > 0 && code <= 6) return new RejectError(message, facts);
  if (status === 200 || (status >= 300 && status < 400)) return new AnswerError(message, facts);
  if (status < 500) return new BadArgumentError(message, facts);
  return new SvcError(message, facts);
}

/** Returns the refusal that makes this error again. */
export function refusalOf({ status, code, message }: SvcError): Refusal {
  return { status, code, message };
}

/** Returns an error's message, with the cause of `fetch` where Node puts the reason there. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message !== ''
    ? `${error.message}: ${error.cause.message}`
    : error.message;
}
