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
  /** True if the end of the terminal (SIGHUP) stops the server; false: the signal is not handled here. */
  readonly stopsOnHangup: boolean;
  /** Reads files again at SIGHUP, which then never stops the server, whatever `stopsOnHangup` says. */
  readonly reread?: () => void;
  /** Stops in order; called at the first signal. */
  readonly stop: (signal: string) => void;
  /** Leaves at once; called at a later signal. */
  readonly force: (signal: string) => void;
  /** If given, the end of the parent process counts as SIGTERM. */
  readonly parent?: {
    /** The parent's process id at the beginning. */
    readonly pid: number;
    /** Returns the current parent's process id: it differs once the first parent is gone. */
    readonly current: () => number;
  };
}

/**
 * A terminal sends Ctrl-C to the whole process group and npm passes it on once more, so one key press arrives twice
 * within milliseconds. Only a signal later than this means that the user has lost patience.
 */
const REPEAT_IGNORED_MS = 1_000;

/** Interval between checks for the parent: the system sends no notice of its end. */
const PARENT_LOOK_MS = 250;

/** Listens for SIGTERM, SIGINT and, where that is wanted, SIGHUP until disposed of. */
export function handleSignals({
  source,
  clock,
  stopsOnHangup,
  reread,
  stop,
  force,
  parent,
}: SignalOptions): Disposable {
  const isHangupStop = stopsOnHangup && reread === undefined;
  const signals: readonly StopSignal[] = isHangupStop ? ['SIGTERM', 'SIGINT', 'SIGHUP'] : ['SIGTERM', 'SIGINT'];
  let firstMs: number | undefined;
  const listener = (signal: string): void => {
    const nowMs = clock.nowMs();
    if (firstMs === undefined) {
      firstMs = nowMs;
      stop(signal);
    } else if (nowMs - firstMs >= REPEAT_IGNORED_MS && signal !== 'SIGHUP') {
      // A terminal that is closed after Ctrl-C is no sign of impatience.
      stopListening();
      force(signal);
    }
  };
  for (const signal of signals) source.on(signal, listener);
  if (reread !== undefined) source.on('SIGHUP', reread);
  const looking =
    parent === undefined
      ? undefined
      : clock.every(PARENT_LOOK_MS, () => {
          // A server that is already stopping needs no second signal.
          if (firstMs === undefined && parent.current() !== parent.pid) listener('SIGTERM');
        });
  /**
   * Restores the signals' default effect: Node waits for its threads when it exits, and one may hang in the system; the
   * next signal then ends the process.
   */
  function stopListening(): void {
    looking?.[Symbol.dispose]();
    for (const signal of signals) source.off(signal, listener);
    if (reread !== undefined) source.off('SIGHUP', reread);
  }
  return { [Symbol.dispose]: stopListening };
}
