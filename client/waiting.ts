/** Waiting between two tries. */

const FIRST_MS = 250;
const LONGEST_MS = 10_000;
/** Longest wait that a server may ask for. */
const ASKED_MAX_MS = 60_000;

/**
 * Returns the milliseconds to wait before a further try: doubled with each failure up to ten seconds, a half of it by
 * chance, so that many clients do not come back together.
 *
 * @param failures How many tries have failed in a row; 1 or more.
 * @param retryAfter The header, in seconds or as a date, or null.
 */
export function waitMs(failures: number, retryAfter: string | null = null): number {
  const span = Math.min(FIRST_MS * 2 ** (failures - 1), LONGEST_MS);
  const own = span / 2 + (Math.random() * span) / 2;
  if (retryAfter === null) return own;
  const seconds = Number(retryAfter);
  const asked = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000;
  // Neither a number nor a date: no wish.
  return asked > 0 ? Math.min(asked, ASKED_MAX_MS) + own / 4 : own;
}

/** Resolves after some milliseconds, or when the signal is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
