import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** Pause between polls of the shown data. */
const POLL_MS = 2_000;
/** After failures the pauses grow up to this. */
const POLL_FAILED_MAX_MS = 15_000;

/** A server that has not answered within this time does not answer. */
const ANSWER_MAX_MS = 15_000;

/** A repeated request; its functions are those of the newest drawing. */
interface Polling<T> {
  readonly ask: (signal: AbortSignal) => Promise<T>;
  readonly answered: (answer: T) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * Asks at once, then 2 s after each answer; after failures less often. Asks nothing while the tab is hidden. A
 * different `key` restarts the polling, and a request for the old key is abandoned without a report.
 */
export function usePolling<T>(key: string, polling: Polling<T>): void {
  const latest = useRef(polling);
  latest.current = polling;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isRunning = false;
    let pauseMs = POLL_MS;
    const run = async (): Promise<void> => {
      if (isRunning || stop.signal.aborted || document.hidden) return;
      clearTimeout(timer);
      isRunning = true;
      // Functions of the drawing that asked: an answer belongs to the request at that time.
      const { ask, answered, failed } = latest.current;
      try {
        const answer = await inTime(ask, stop.signal);
        if (stop.signal.aborted) return;
        pauseMs = POLL_MS;
        answered(answer);
      } catch (error) {
        if (stop.signal.aborted) return;
        pauseMs = Math.min(pauseMs * 2, POLL_FAILED_MAX_MS);
        failed(error);
      }
      isRunning = false;
      timer = setTimeout(() => void run(), pauseMs);
    };
    const shown = (): void => void run();
    document.addEventListener('visibilitychange', shown);
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', shown);
    };
  }, [key]);
}

/** Gives up if the answer takes too long, or when `stop` is aborted. */
async function inTime<T>(ask: (signal: AbortSignal) => Promise<T>, stop: AbortSignal): Promise<T> {
  const giveUp = new AbortController();
  const stopped = (): void => giveUp.abort(stop.reason);
  stop.addEventListener('abort', stopped);
  const timer = setTimeout(
    () => giveUp.abort(new DOMException('the server does not answer', 'TimeoutError')),
    ANSWER_MAX_MS,
  );
  try {
    return await ask(giveUp.signal);
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', stopped);
  }
}

/** Returns a function that redraws the component: for values that change in place. */
export function useRedraw(): () => void {
  const [, setCount] = useState(0);
  return useCallback(() => setCount((count) => count + 1), []);
}

/** Returns the part of the address after `#`, and a function that sets it. */
export function useHash(): readonly [string, (hash: string) => void] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  const go = useCallback((next: string) => {
    location.hash = next;
  }, []);
  return [hash, go];
}
