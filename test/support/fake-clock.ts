import type { Clock } from '../../kernel/index.ts';

interface Timer {
  dueMs: number;
  /** Undefined: it fires once. */
  readonly everyMs: number | undefined;
  readonly work: () => void;
}

/**
 * A clock that moves only when told to, and with it every timer. Who is due is called in the order of the moments at which
 * they were, those of one moment in the order they were made; all of them see the time to which the clock was moved, as
 * after a pause of the event loop, and what they ask for begins then. An interval is called once for each of its moments.
 */
export class FakeClock implements Clock {
  #nowMs: number;
  /** In the order they were made. */
  readonly #timers = new Set<Timer>();

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  /** How many timers wait. */
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

  /** The clock says another time, earlier perhaps, and nobody is called. */
  set(nowMs: number): void {
    for (const timer of this.#timers) timer.dueMs += nowMs - this.#nowMs;
    this.#nowMs = nowMs;
  }

  /** As when a process ends: nobody is called any more. */
  dropTimers(): void {
    this.#timers.clear();
  }

  #add(ms: number, everyMs: number | undefined, work: () => void): Disposable {
    const timer: Timer = { dueMs: this.#nowMs + ms, everyMs, work };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  /** The first of those that are due. */
  #next(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs <= this.#nowMs && (first === undefined || timer.dueMs < first.dueMs)) first = timer;
    }
    return first;
  }
}
