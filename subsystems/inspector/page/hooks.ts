import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** How often what is on the screen is asked for anew. */
export const POLL_MS = 2_000;
/** After failures the pauses grow up to this. */
const POLL_FAILED_MAX_MS = 15_000;

/**
 * Runs `poll` at once, then every 2 s after the last one has ended; after failures less often. Nothing runs while the
 * tab is hidden. Another `key` begins anew; undefined: not at all.
 */
export function usePolling(key: string | undefined, poll: (signal: AbortSignal) => Promise<void>): void {
  const latest = useRef(poll);
  latest.current = poll;
  useEffect(() => {
    if (key === undefined) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isRunning = false;
    let pauseMs = POLL_MS;
    const run = async (): Promise<void> => {
      if (isRunning || stop.signal.aborted || document.hidden) return;
      clearTimeout(timer);
      isRunning = true;
      try {
        await latest.current(stop.signal);
        pauseMs = POLL_MS;
      } catch {
        // Whoever polls shows what failed; here it only becomes rarer.
        pauseMs = Math.min(pauseMs * 2, POLL_FAILED_MAX_MS);
      }
      isRunning = false;
      if (!stop.signal.aborted) timer = setTimeout(() => void run(), pauseMs);
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

/** Draws the component again: for values that change in place. */
export function useRedraw(): () => void {
  const [, setCount] = useState(0);
  return useCallback(() => setCount((count) => count + 1), []);
}

/** The part of the address behind `#`, and a function that sets it. */
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
