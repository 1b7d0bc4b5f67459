import type { Clock } from './clock.ts';

/** The part of `process` that delivers signals. */
export interface SignalSource {
  on(signal: StopSignal, listener: (signal: string) => void): unknown;
  off(signal: StopSignal, listener: (signal: string) => void): unknown;
}

type StopSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

export interface SignalOptions {
  readonly source: SignalSource;
  readonly clock: Pick<Clock, 'nowMs' | 'every' | 'after'>;
  /** True if the end of the terminal (SIGHUP) stops the server; false: the signal is not handled here. */
  readonly stopsOnHangup: boolean;
  /** Reads files again at SIGHUP, which then never stops the server, whatever `stopsOnHangup` says. */
  readonly reread?: () => void;
  /** Stops in order; called at the first signal. */
  readonly stop: (signal: string) => void;
  /** Leaves at once; called at a later signal. */
  readonly force: (signal: string) => void;
  /** True if the parent passes SIGINT on once more, as npm does to its scripts. */
  readonly isPassedOn?: boolean;
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

interface HandledSignals extends Disposable {
  /**
   * Resolves when no signal that is passed on once more can come; within a second of the first one. Without a listener
   * it would end the process, whose exit code would be that of a crash.
   */
  settled(): Promise<void>;
}

/** Listens for SIGTERM, SIGINT and, where that is wanted, SIGHUP until disposed of. */
export function handleSignals({
  source,
  clock,
  stopsOnHangup,
  reread,
  stop,
  force,
  isPassedOn = false,
  parent,
}: SignalOptions): HandledSignals {
  const isHangupStop = stopsOnHangup && reread === undefined;
  const signals: readonly StopSignal[] = isHangupStop ? ['SIGTERM', 'SIGINT', 'SIGHUP'] : ['SIGTERM', 'SIGINT'];
  let firstMs: number | undefined;
  let awaited = false;
  const repeated = Promise.withResolvers<void>();
  const listener = (signal: string): void => {
    const nowMs = clock.nowMs();
    if (firstMs === undefined) {
      firstMs = nowMs;
      awaited = isPassedOn && signal === 'SIGINT';
      stop(signal);
    } else if (nowMs - firstMs < REPEAT_IGNORED_MS) {
      repeated.resolve();
    } else if (signal !== 'SIGHUP') {
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
  async function settled(): Promise<void> {
    const leftMs = firstMs === undefined || !awaited ? 0 : firstMs + REPEAT_IGNORED_MS - clock.nowMs();
    if (leftMs <= 0) return;
    using _bound = clock.after(leftMs, () => repeated.resolve());
    await repeated.promise;
  }
  return { settled, [Symbol.dispose]: stopListening };
}
