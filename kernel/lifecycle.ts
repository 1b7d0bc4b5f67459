/**
 * States of the server, and deadlines for work.
 *
 * States only go forward: registered → starting → ready → draining → stopped, or failed from any of them but the last.
 * A stop may come at any time, so `draining` can be entered before `ready`.
 */
import { assert } from './assert.ts';
import type { Clock } from './clock.ts';

export type LifecycleState = 'registered' | 'starting' | 'ready' | 'draining' | 'stopped' | 'failed';

const NEXT: Readonly<Record<LifecycleState, readonly LifecycleState[]>> = {
  registered: ['starting', 'draining'],
  starting: ['ready', 'draining', 'failed'],
  ready: ['draining', 'failed'],
  draining: ['stopped', 'failed'],
  stopped: [],
  failed: [],
};

/** Holds the state and rejects steps backwards. */
export class Lifecycle {
  #state: LifecycleState = 'registered';

  get state(): LifecycleState {
    return this.#state;
  }

  enter(next: LifecycleState): void {
    assert(NEXT[this.#state].includes(next), `the server cannot go from ${this.#state} to ${next}`);
    this.#state = next;
  }
}

/** Calls `report` after `firstMs`, then after twice that time, and so on at doubling gaps, until disposed of. */
export function reportAtGrowingGaps(clock: Pick<Clock, 'after'>, firstMs: number, report: () => void): Disposable {
  let gapMs = firstMs;
  const tick = (): void => {
    report();
    timer = clock.after(gapMs, tick);
    gapMs *= 2;
  };
  let timer = clock.after(gapMs, tick);
  return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
}

/** Error for work that did not end within its deadline and the grace period after it. */
export class OverrunError extends Error {
  override readonly name = 'OverrunError';
}

interface DeadlineOptions {
  readonly clock: Pick<Clock, 'after'>;
  /** Undefined: no deadline. */
  readonly deadlineMs: number | undefined;
  /** Milliseconds that the work has to react to the abort before it is abandoned. */
  readonly graceMs: number;
}

/**
 * Runs `work` with a signal that is aborted at the deadline. Rejects with an `OverrunError` if the work was not done by
 * then, even if it ended within the grace period; work that does not end in that period is abandoned.
 */
export async function runWithDeadline(
  work: (signal: AbortSignal) => Promise<void> | void,
  { clock, deadlineMs, graceMs }: DeadlineOptions,
): Promise<void> {
  const abort = new AbortController();
  const done = (async () => work(abort.signal))();
  if (deadlineMs === undefined) return done;

  const overrun = new OverrunError(`it took longer than ${deadlineMs} ms`);
  const deadline = clock.after(deadlineMs, () => abort.abort(overrun));
  const ended = done.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  await Promise.race([ended, aborted(abort.signal)]);
  deadline[Symbol.dispose]();
  if (!abort.signal.aborted) return done;

  const grace = Promise.withResolvers<undefined>();
  const graceTimer = clock.after(graceMs, () => grace.resolve(undefined));
  const failure = await Promise.race([ended, grace.promise]);
  graceTimer[Symbol.dispose]();
  // The error of the work after the abort becomes the cause, unless it merely repeats the abort's own reason.
  if (failure === undefined || failure.error === overrun) throw overrun;
  throw new OverrunError(overrun.message, { cause: failure.error });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

const SILENCE_PARTS = 10;

function silenceText(ms: number): string {
  return `nothing was heard of it for ${ms} ms: call readiness.waiting('…') while it works, and give up on what does not answer`;
}

/** Watches work that may take long as long as it reports its progress now and then. */
export class SilenceWatch implements Disposable {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #silenceMaxMs: number | undefined;
  readonly #over = Promise.withResolvers<never>();
  #timer: Disposable | undefined;

  /** `silenceMaxMs` undefined: no limit. */
  constructor(clock: Pick<Clock, 'after'>, silenceMaxMs: number | undefined) {
    this.#clock = clock;
    this.#silenceMaxMs = silenceMaxMs;
    this.#over.promise.catch(() => undefined);
  }

  heard(): void {
    this.#wait(SILENCE_PARTS);
  }

  /**
   * Waits in parts: a process that was stopped meanwhile (SIGSTOP, a paused machine) loses only one part, however long
   * the pause was.
   */
  #wait(parts: number): void {
    const ms = this.#silenceMaxMs;
    if (ms === undefined) return;
    this.#timer?.[Symbol.dispose]();
    if (parts > 0) this.#timer = this.#clock.after(ms / SILENCE_PARTS, () => this.#wait(parts - 1));
    else this.#over.reject(new OverrunError(silenceText(ms)));
  }

  /**
   * Settles as the work does, or rejects with an `OverrunError` if the work is silent for too long; the work is then
   * abandoned.
   */
  unlessSilent<T>(work: Promise<T> | T): Promise<T> {
    return Promise.race([work, this.#over.promise]);
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
  }
}
