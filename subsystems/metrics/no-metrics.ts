import { ServerError } from '../../kernel/index.ts';
import type { Metrics, Tally } from './index.ts';

/** With `--no-metrics`: nothing is shown, and what is counted goes nowhere. */
export class NoMetrics implements Metrics {
  readonly contentType = 'text/plain; charset=utf-8';

  requestsOf(): Tally {
    return { value: 0 };
  }

  page(): Promise<string> {
    return Promise.reject(new ServerError('missing', 'metrics-off', 'GET /metrics is turned off (--no-metrics)'));
  }
}
