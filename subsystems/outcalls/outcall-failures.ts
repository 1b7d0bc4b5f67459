import { ServerError } from '../../kernel/index.ts';

/** Why an outcall has no answer, by the error's code. */
export const OUTCALL_FAILURES = {
  /** Nothing is wrong with the request but that this host does not send it. */
  'outcall-refused': (message: string) => new ServerError('forbidden', 'outcall-refused', message),
  /** No connection, no valid certificate, an answer that broke off or is not HTTP. */
  'outcall-failed': (message: string, cause?: unknown) =>
    new ServerError('unavailable', 'outcall-failed', message, { cause }),
  'outcall-timeout': (message: string) => new ServerError('unavailable', 'outcall-timeout', message),
  'outcall-too-large': (message: string) => new ServerError('tooLarge', 'outcall-too-large', message),
  'outcalls-busy': (message: string) => new ServerError('unavailable', 'outcalls-busy', message),
  'outcalls-stopping': (message: string) => new ServerError('unavailable', 'outcalls-stopping', message),
  'outcalls-off': (message: string) => new ServerError('forbidden', 'outcalls-off', message),
  /** No answer is recorded for it. */
  'outcall-not-recorded': (message: string) => new ServerError('missing', 'outcall-not-recorded', message),
  /** What came could not be written to the recording. */
  'outcall-recording-failed': (message: string) => new ServerError('unavailable', 'outcall-recording-failed', message),
} as const;

export type OutcallFailure = keyof typeof OUTCALL_FAILURES;

/** Why a signal was aborted, as an error. */
export function abortReason({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

export function isOutcallFailure(code: string): code is OutcallFailure {
  return Object.hasOwn(OUTCALL_FAILURES, code);
}
