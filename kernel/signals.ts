import type { Clock } from './clock.ts';

/** The part of `process` that delivers signals. */
export interface SignalSource {
  on(signal: 'SIGTERM' | 'SIGINT', listener: (signal: string) => void): unknown;
  off(signal: 'SIGTERM' | 'SIGINT', listener: (signal: string) => void): unknown;
}

export interface SignalOptions {
  readonly source: SignalSource;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** The first signal: stop in order. */
  readonly stop: (signal: string) => void;
  /** A later one: leave at once. */
  readonly force: (signal: string) => void;
}

/**
 * A terminal sends Ctrl-C to the whole process group and npm passes it on once more, so the same key press arrives
 * twice within milliseconds. Only a signal later than this means that somebody has lost patience.
 */
const REPEAT_IGNORED_MS = 1_000;

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** Listens for SIGTERM and SIGINT until disposed of. */
export function handleSignals({ source, clock, stop, force }: SignalOptions): Disposable {
  let firstMs: number | undefined;
  const listener = (signal: string): void => {
    const nowMs = clock.nowMs();
    if (firstMs === undefined) {
      firstMs = nowMs;
      stop(signal);
    } else if (nowMs - firstMs >= REPEAT_IGNORED_MS) {
      force(signal);
    }
  };
  for (const signal of SIGNALS) source.on(signal, listener);
  return {
    [Symbol.dispose]() {
      for (const signal of SIGNALS) source.off(signal, listener);
    },
  };
}
