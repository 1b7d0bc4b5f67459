import type { Clock } from '../../../../kernel/index.ts';

interface Timer {
  dueMs: number;
  /** Undefined: the timer fires once. */
  readonly everyMs: number | undefined;
  readonly work: () => void;
}

/**
 * A clock that moves, with all its timers, only when told to. Due timers are called in the order of their moments,
 * those of one moment in the order in which they were made. All of them see the time to which the clock was moved, as
 * after a pause of the event loop, and timers that they make begin at that time. An interval is called once for each of
 * its moments.
 */
export class FakeClock implements Clock {
  #nowMs: number;
  /** Timers in the order in which they were made. */
  readonly #timers = new Set<Timer>();

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  /** Number of waiting timers. */
  get pending(): number {
    return this.#timers.size;
  }

  after(ms: number, work: () => void): Disposable {
    return this.#add(ms, undefined, work);
  }

  every(ms: number, work: () => void): Disposable {
    return this.#add(ms, ms, work);
  }

  advance(byMs: number): void {
    this.#nowMs += byMs;
    for (let timer = this.#next(); timer !== undefined; timer = this.#next()) {
      if (timer.everyMs === undefined) this.#timers.delete(timer);
      else timer.dueMs += timer.everyMs;
      timer.work();
    }
  }

  /** Sets the clock to another time, perhaps an earlier one, and calls no timer. */
  set(nowMs: number): void {
    for (const timer of this.#timers) timer.dueMs += nowMs - this.#nowMs;
    this.#nowMs = nowMs;
  }

  /** Drops all timers, as the end of a process does. */
  dropTimers(): void {
    this.#timers.clear();
  }

  #add(ms: number, everyMs: number | undefined, work: () => void): Disposable {
    const timer: Timer = { dueMs: this.#nowMs + ms, everyMs, work };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  /** Returns the first of the due timers. */
  #next(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs <= this.#nowMs && (first === undefined || timer.dueMs < first.dueMs)) first = timer;
    }
    return first;
  }
}
