import type { Clock } from './clock.ts';

/** The part of `process` that delivers signals. */
export interface SignalSource {
  on(signal: StopSignal, listener: (signal: string) => void): unknown;
  off(signal: StopSignal, listener: (signal: string) => void): unknown;
}

type StopSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

export interface SignalOptions {
  readonly source: SignalSource;
  readonly clock: Pick<Clock, 'nowMs' | 'every'>;
  /** The end of the terminal (SIGHUP) is a reason to stop; else nobody listens for it here. */
  readonly stopsOnHangup: boolean;
  /** The first signal: stop in order. */
  readonly stop: (signal: string) => void;
  /** A later one: leave at once. */
  readonly force: (signal: string) => void;
  /** Given: the end of the process that has started this one counts as SIGTERM. */
  readonly parent?: {
    /** Its number, as of the beginning. */
    readonly pid: number;
    /** The number of the present one: another, once that process is gone. */
    readonly current: () => number;
  };
}

/**
 * A terminal sends Ctrl-C to the whole process group and npm passes it on once more, so the same key press arrives
 * twice within milliseconds. Only a signal later than this means that somebody has lost patience.
 */
const REPEAT_IGNORED_MS = 1_000;

/** How often it is looked whether the parent is still there: nothing tells of it. */
const PARENT_LOOK_MS = 250;

/** Listens for SIGTERM, SIGINT and, where that is wanted, SIGHUP until disposed of. */
export function handleSignals({ source, clock, stopsOnHangup, stop, force, parent }: SignalOptions): Disposable {
  const signals: readonly StopSignal[] = stopsOnHangup ? ['SIGTERM', 'SIGINT', 'SIGHUP'] : ['SIGTERM', 'SIGINT'];
  let firstMs: number | undefined;
  const listener = (signal: string): void => {
    const nowMs = clock.nowMs();
    if (firstMs === undefined) {
      firstMs = nowMs;
      stop(signal);
    } else if (nowMs - firstMs >= REPEAT_IGNORED_MS && signal !== 'SIGHUP') {
      // A terminal that is closed after Ctrl-C shows no impatience.
      stopListening();
      force(signal);
    }
  };
  for (const signal of signals) source.on(signal, listener);
  const looking =
    parent === undefined
      ? undefined
      : clock.every(PARENT_LOOK_MS, () => {
          // Whoever was told to stop already has patience.
          if (firstMs === undefined && parent.current() !== parent.pid) listener('SIGTERM');
        });
  /** Node waits for its threads when it exits, and one may hang in the system: the next signal then has the system's own effect. */
  function stopListening(): void {
    looking?.[Symbol.dispose]();
    for (const signal of signals) source.off(signal, listener);
  }
  return { [Symbol.dispose]: stopListening };
}
