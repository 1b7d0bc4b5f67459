import { ServerError } from '../../kernel/index.ts';
import type { Metrics, RequestTally } from './index.ts';

/** Replaces the metrics with `--no-metrics`: nothing is shown, and counts are dropped. */
export class NoMetrics implements Metrics {
  readonly contentType = 'text/plain; charset=utf-8';

  requestsOf(): RequestTally {
    return { value: 0, answered: () => undefined, streamed: () => undefined };
  }

  show(): void {}

  page(): Promise<readonly Uint8Array[]> {
    return Promise.reject(new ServerError('missing', 'metrics-off', 'GET /metrics is turned off (--no-metrics)'));
  }
}
