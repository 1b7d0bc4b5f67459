import { ServerError } from '../../kernel/index.ts';

/** Makes the errors of outcalls without an answer, by code. */
export const OUTCALL_FAILURES = {
  /** The request is correct, but this host does not send it. */
  'outcall-refused': (message: string) => new ServerError('forbidden', 'outcall-refused', message),
  /** No connection, no valid certificate, an answer that broke off or is not HTTP. */
  'outcall-failed': (message: string, cause?: unknown) =>
    new ServerError('unavailable', 'outcall-failed', message, { cause }),
  'outcall-timeout': (message: string) => new ServerError('unavailable', 'outcall-timeout', message),
  'outcall-too-large': (message: string) => new ServerError('tooLarge', 'outcall-too-large', message),
  'outcalls-busy': (message: string) => new ServerError('unavailable', 'outcalls-busy', message),
  'outcalls-stopping': (message: string) => new ServerError('unavailable', 'outcalls-stopping', message),
  'outcalls-off': (message: string) => new ServerError('forbidden', 'outcalls-off', message),
  /** No answer is recorded for the request. */
  'outcall-not-recorded': (message: string) => new ServerError('missing', 'outcall-not-recorded', message),
  /** The result could not be written to the recording. */
  'outcall-recording-failed': (message: string) => new ServerError('unavailable', 'outcall-recording-failed', message),
} as const;

export type OutcallFailure = keyof typeof OUTCALL_FAILURES;

/** Returns the reason of an aborted signal as an error. */
export function abortReason({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

export function isOutcallFailure(code: string): code is OutcallFailure {
  return Object.hasOwn(OUTCALL_FAILURES, code);
}

/** Makes the error of an answer that breaks the rules of HTTP. */
export function malformed(problem: string): ServerError {
  return OUTCALL_FAILURES['outcall-failed'](`the response is no valid HTTP/1.1: ${problem}`);
}
