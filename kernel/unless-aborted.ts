/** The signal of work that nobody ends early. */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;

/**
 * Resolves or rejects as `work` does, or rejects with the signal's reason as soon as the signal is aborted. The work
 * then goes on by itself, and nobody hears what comes of it.
 */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason as Error);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
