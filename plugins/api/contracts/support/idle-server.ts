/** Figures that the server's own metrics read, of a server in which nothing happens. */
import { Histogram } from '../../../../subsystems/figures/index.ts';
import type { PrometheusMetricsNeeds } from '../../../../subsystems/metrics/prometheus-metrics.ts';

const seconds = new Histogram([1]).figures;

export const idleServer: Omit<PrometheusMetricsNeeds, 'clock'> = {
  canisters: { wakeSeconds: seconds, replaySeconds: 0, list: () => [] },
  scheduler: {
    live: { liveCount: 0, evictions: 0, wakeUps: 0 },
    queuedMax: 10_000,
    idempotency: { keys: 0, bytes: 0, repeats: 0 },
  },
  execution: {
    memory: { bytesMax: 1 << 30, bytesHigh: 1 << 29, bytesUsed: 0, refusals: 0 },
    memoryByKind: () => ({ heaps: 0, stable: 0, journals: 0, queries: 0, spare: 0, garbage: 0, waking: 0 }),
    executorFigures: () => ({ executors: [], replaced: 0, ringBytes: 0 }),
  },
  storage: {
    isKept: false,
    newest: 0,
    durable: 0,
    figures: () => Promise.reject(new Error('nothing is kept')),
  },
  management: {
    outcalls: {
      ends: { answered: 0, refused: 0, busy: 0, failed: 0, timeout: 0, too_large: 0, transform: 0 },
      active: 0,
      waiting: 0,
      requestBytes: 0,
      responseBytes: 0,
      seconds,
    },
  },
};
