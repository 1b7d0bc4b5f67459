import { Clock, definePlugin } from '../kernel/index.ts';
import { Canisters } from '../subsystems/canisters/index.ts';
import { Execution } from '../subsystems/execution/index.ts';
import { Management } from '../subsystems/management/index.ts';
import { Metrics } from '../subsystems/metrics/index.ts';
import { NoMetrics } from '../subsystems/metrics/no-metrics.ts';
import { PrometheusMetrics } from '../subsystems/metrics/prometheus-metrics.ts';
import { Scheduler } from '../subsystems/scheduler/index.ts';
import { Storage } from '../subsystems/storage/index.ts';

export const metricsPlugin = definePlugin({
  name: 'metrics',
  provides: Metrics,
  requires: {
    canisters: Canisters,
    scheduler: Scheduler,
    execution: Execution,
    storage: Storage,
    management: Management,
    clock: Clock,
  },
  create: (granted) => new PrometheusMetrics(granted),
  disabled: () => new NoMetrics(),
  start: async (metrics) => metrics.start(),
  stop: async (metrics) => metrics.stop(),
});
