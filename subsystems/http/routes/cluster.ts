import { ServerError } from '../../../kernel/index.ts';
import type { Handlers, RouteHost } from '../route.ts';

const DRAIN_SECONDS = 10;
const SECONDS = /^(?:0|[1-9][0-9]{0,3})$/;
const SECONDS_MAX = 3600;

/**
 * `GET /x/cluster`: this server among the servers of its service, and who owns which shard. `POST /x/cluster/drain`:
 * balancers are told to go elsewhere, and some seconds later the server stops.
 */
export function clusterHandlers({
  cluster,
  jobs,
  responder,
}: RouteHost): Pick<Handlers, 'GET /x/cluster' | 'POST /x/cluster/drain'> {
  return {
    'GET /x/cluster'(_request, response) {
      const startedMs = jobs.nowMs();
      const { shard, shards, node, owners } = cluster;
      const rows = Array.from({ length: shards }, (_none, at) => {
        const { node: id = null, holder = null, address = null, epoch = null } = owners[at] ?? {};
        return { shard: at, node: id, holder, address, epoch };
      });
      responder.json(response, 200, { node, shard, isLeaving: cluster.isLeaving, shards: rows });
      jobs.done('cluster', undefined, '', startedMs);
    },
    'POST /x/cluster/drain'(_request, response, _parameters, query) {
      const startedMs = jobs.nowMs();
      const text = query.get('seconds') ?? String(DRAIN_SECONDS);
      if (!SECONDS.test(text) || Number(text) > SECONDS_MAX) {
        const expected = `a number from 0 to ${SECONDS_MAX}`;
        throw new ServerError('invalid', 'bad-parameter', `query parameter seconds: expected ${expected}`);
      }
      cluster.leave(Number(text));
      responder.text(response, 200, 'draining');
      jobs.done('drain', undefined, '', startedMs);
    },
  };
}
