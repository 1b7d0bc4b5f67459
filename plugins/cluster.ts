import { Clock, definePlugin, Logger } from '../kernel/index.ts';
import { CanisterMoves } from '../subsystems/canisters/moves/index.ts';
import { Cluster, type OpenableCluster, ServiceStore } from '../subsystems/cluster/index.ts';
import type { ProcessGroupOptions } from '../subsystems/cluster/group/process-group.ts';
import { type GroupMember, LinkedCluster, type LinkedClusterOptions } from '../subsystems/cluster/linked-cluster.ts';
import { OneServer } from '../subsystems/cluster/one-server.ts';
import { SchedulerSetup } from '../subsystems/scheduler/index.ts';

/** Stops this process as an operator would. */
function stop(): void {
  process.kill(process.pid, 'SIGTERM');
}

interface ClusterConfig {
  /** Undefined: the server is a service by itself. */
  readonly link: LinkedClusterOptions | undefined;
  /** Undefined: it starts no other process. */
  readonly processes?: ProcessGroupOptions | undefined;
  /** Undefined: no other process of its node has started this one. */
  readonly member?: GroupMember | undefined;
}

export const clusterPlugin = definePlugin({
  name: 'cluster',
  provides: Cluster,
  requires: { store: ServiceStore, scheduler: SchedulerSetup, canisters: CanisterMoves, clock: Clock, log: Logger },
  neededBecause: 'it knows which server has an actor',
  create: (
    { scheduler, ...granted },
    { config: { link, processes, member } }: { readonly config: ClusterConfig },
  ): OpenableCluster =>
    link === undefined
      ? new OneServer(granted.store)
      : new LinkedCluster({ ...granted, exchange: scheduler.exchange }, { ...link, processes, member, stop }),
  open: async (cluster) => cluster.open(),
  start: (cluster) => cluster.start(),
  ready: (cluster) => cluster.ready(),
  drain: (cluster) => cluster.drain(),
  stop: async (cluster) => cluster.close(),
});
