/** Numbers of a service on several servers, for the page of metrics. */
import type { ShownNumber } from '../metrics/index.ts';
import type { Cluster } from './index.ts';

type CountedCluster = Pick<Cluster, 'shards' | 'owners' | 'waiting' | 'group' | 'processes'>;

/** Returns the numbers. `refused` counts connections that did not prove to have the key. */
export function clusterNumbers(cluster: CountedCluster, refused: () => number): readonly ShownNumber[] {
  const owned = (): number => cluster.owners.filter((owner) => owner !== undefined).length;
  const mine = (): number => cluster.owners.filter((owner) => owner?.group === cluster.group).length;
  const gauge = (name: `svc_${string}`, help: string, read: () => number): ShownNumber => {
    return { name, type: 'gauge', help, read };
  };
  const counter = (name: `svc_${string}`, help: string, read: () => number): ShownNumber => {
    return { name, type: 'counter', help, read };
  };
  const own = [
    gauge('svc_cluster_shards', 'Shards of the service.', () => cluster.shards),
    gauge(
      'svc_cluster_shards_without_owner',
      'Shards that no server owns, as this server knows.',
      () => cluster.shards - owned(),
    ),
    counter(
      'svc_cluster_links_refused_total',
      'Connections of others that were refused: they did not prove to have the key.',
      refused,
    ),
  ];
  if (cluster.processes === undefined) return own;
  return [
    ...own,
    gauge('svc_cluster_node_shards', 'Shards that the processes of this node own.', mine),
    gauge('svc_cluster_nodes', 'Nodes that own a shard or wait for one.', () => nodesOf(cluster).size),
    gauge('svc_cluster_spares', 'Processes of this node that wait for a shard.', () => cluster.processes?.spares ?? 0),
    counter(
      'svc_cluster_process_failures_total',
      'Shard processes of this node that have ended without being told to.',
      () => cluster.processes?.failures ?? 0,
    ),
    counter(
      'svc_cluster_shards_handed_over_total',
      'Shards that this node has handed over because another one had less.',
      () => cluster.processes?.handedOver ?? 0,
    ),
  ];
}

function nodesOf({ owners, waiting }: CountedCluster): ReadonlySet<string> {
  return new Set([...owners.flatMap((owner) => owner?.group ?? []), ...waiting.map(({ group }) => group)]);
}
