import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import { Cluster, type OpenableCluster, ServiceStore } from '../subsystems/cluster/index.ts';
import { LinkedCluster, type LinkedClusterOptions } from '../subsystems/cluster/linked-cluster.ts';
import { OneServer } from '../subsystems/cluster/one-server.ts';
import { Metrics } from '../subsystems/metrics/index.ts';
import { SchedulerSetup } from '../subsystems/scheduler/index.ts';

interface ClusterConfig {
  /** Undefined: the server is a service by itself. */
  readonly link: LinkedClusterOptions | undefined;
}

export const clusterPlugin = definePlugin({
  name: 'cluster',
  provides: Cluster,
  requires: { store: ServiceStore, scheduler: SchedulerSetup, metrics: Metrics, clock: Clock, log: Logger },
  neededBecause: 'it knows which server has an actor',
  create: (granted, { config: { link } }: { readonly config: ClusterConfig }): OpenableCluster => {
    if (link === undefined) return new OneServer(granted.store);
    const cluster = new LinkedCluster({ ...granted, exchange: granted.scheduler.exchange }, link);
    for (const number of cluster.numbers) granted.metrics.show(number);
    return cluster;
  },
  start: (cluster) => cluster.start(),
  drain: async (cluster) => cluster.drain(),
  stop: async (cluster) => cluster.close(),
});
