import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** Pause before a stream that has ended, or failed, is asked for again; after failures the pauses grow. */
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 15_000;

/** A server that says nothing for this time does not answer. */
const SILENCE_MAX_MS = 15_000;

/** A followed stream; its functions are those of the drawing that has asked for it. */
interface Following<T> {
  readonly follow: (signal: AbortSignal) => AsyncIterable<T>;
  readonly told: (item: T) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * Follows a stream while the tab is visible, and asks for it again whenever it ends. With a different `key` another
 * stream is followed, and the one of the old key is abandoned without a report.
 */
export function useFollowing<T>(key: string, following: Following<T>): void {
  const latest = useRef(following);
  latest.current = following;
  useEffect(() => {
    const functions = latest.current;
    let stop: AbortController | undefined;
    const shown = (): void => {
      if (!document.hidden && stop === undefined) void followOn(functions, (stop = new AbortController()).signal);
      else if (document.hidden) {
        stop?.abort();
        stop = undefined;
      }
    };
    document.addEventListener('visibilitychange', shown);
    shown();
    return () => {
      stop?.abort();
      document.removeEventListener('visibilitychange', shown);
    };
  }, [key]);
}

async function followOn<T>({ follow, told, failed }: Following<T>, stop: AbortSignal): Promise<void> {
  for (let pauseMs = PAUSE_MS; !stop.aborted;) {
    try {
      for await (const item of neverSilent(follow, stop)) {
        if (stop.aborted) return;
        pauseMs = PAUSE_MS;
        told(item);
      }
    } catch (error) {
      if (stop.aborted) return;
      pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
      failed(error);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Gives a stream up if nothing comes for too long, or when `stop` is aborted. */
async function* neverSilent<T>(
  follow: (signal: AbortSignal) => AsyncIterable<T>,
  stop: AbortSignal,
): AsyncGenerator<T, undefined> {
  const giveUp = new AbortController();
  const stopped = (): void => giveUp.abort(stop.reason);
  stop.addEventListener('abort', stopped);
  const noAnswer = (): void => giveUp.abort(new DOMException('the server does not answer', 'TimeoutError'));
  let timer = setTimeout(noAnswer, SILENCE_MAX_MS);
  try {
    for await (const item of follow(giveUp.signal)) {
      clearTimeout(timer);
      timer = setTimeout(noAnswer, SILENCE_MAX_MS);
      yield item;
    }
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
