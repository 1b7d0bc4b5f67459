/**
 * Pauses of the main thread for V8's garbage collections, by kind. Each costs a callback; a busy server has some tens a
 * second.
 */
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { Histogram, type HistogramFigures } from '../figures/index.ts';

/** Bounds in seconds: from a collection of the young generation to a pause that clients notice. */
const BOUNDS: readonly number[] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];

const KIND_NAMES: ReadonlyMap<number, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
]);

export class Collections {
  readonly #byKind = new Map([...KIND_NAMES.values()].map((kind) => [kind, new Histogram(BOUNDS)]));
  readonly #observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      // Node's types lack `detail`.
      const { detail, duration } = entry as PerformanceEntry & { readonly detail: { readonly kind: number } };
      this.#byKind.get(KIND_NAMES.get(detail.kind) ?? '')?.observe(duration / 1000);
    }
  });

  /** Histograms by kind: `major`, `minor`, `incremental`, `weakcb`. */
  get seconds(): readonly (readonly [string, HistogramFigures])[] {
    return [...this.#byKind].map(([kind, histogram]) => [kind, histogram.figures]);
  }

  start(): void {
    this.#observer.observe({ entryTypes: ['gc'] });
  }

  stop(): void {
    this.#observer.disconnect();
  }
}
