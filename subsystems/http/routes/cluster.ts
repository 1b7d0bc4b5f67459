import type { Handlers, RouteHost } from '../route.ts';

/** `GET /x/cluster`: this server among the servers of its service, and who owns which shard. */
export function clusterHandlers({ cluster, jobs, responder }: RouteHost): Pick<Handlers, 'GET /x/cluster'> {
  return {
    'GET /x/cluster'(_request, response) {
      const startedMs = jobs.nowMs();
      const { shard, shards, node, owners } = cluster;
      const rows = Array.from({ length: shards }, (_none, at) => {
        const owner = owners[at];
        return {
          shard: at,
          node: owner?.node ?? null,
          holder: owner?.holder ?? null,
          address: owner?.address ?? null,
          epoch: owner?.epoch ?? null,
        };
      });
      responder.json(response, 200, { node, shard, shards: rows });
      jobs.done('cluster', undefined, '', startedMs);
    },
  };
}
