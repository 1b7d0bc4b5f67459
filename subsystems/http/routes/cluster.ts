import { ServerError } from '../../../kernel/index.ts';
import type { Handlers, RouteHost, ShownCluster } from '../route.ts';
import { operatedHandler } from './operated.ts';

const DRAIN_SECONDS = 10;
const SECONDS = /^(?:0|[1-9][0-9]{0,3})$/;
const SECONDS_MAX = 3600;

/**
 * `GET /x/cluster`: this server among the servers of its service, who owns which shard, and what moves. `POST
 * /x/cluster/drain`: balancers are told to go elsewhere, and some seconds later the server stops. `POST
 * /x/cluster/move/<ACTOR>`: the actor goes to another shard.
 */
export function clusterHandlers(
  host: RouteHost,
): Pick<Handlers, 'GET /x/cluster' | 'POST /x/cluster/drain' | 'POST /x/cluster/move/:actor'> {
  const { cluster, jobs, responder } = host;
  return {
    'POST /x/cluster/move/:actor': operatedHandler(host, 'move', async ({ canister, body }) => {
      await cluster.move(canister, shardIn(body));
      return 'moved';
    }),
    'GET /x/cluster'(_request, response) {
      const startedMs = jobs.nowMs();
      responder.json(response, 200, describe(cluster));
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

/** Returns the nodes of the service with their processes, and its shards with their owners, as this server sees. */
function describe({
  shard,
  shards,
  node,
  group,
  owners,
  waiting,
  isLeaving,
  processes,
  moving,
}: ShownCluster): unknown {
  const rows = Array.from({ length: shards }, (_none, at) => {
    const { node: id = null, group: its = null, holder = null, address = null } = owners[at] ?? {};
    const { epoch = null, silentMs = null } = owners[at] ?? {};
    return { shard: at, node: id, group: its, holder, address, epoch, silentMs };
  });
  const all = [
    ...owners.flatMap((owner) => {
      return owner === undefined
        ? []
        : { of: owner.group, process: owner.node, holder: owner.holder, shard: owner.shard };
    }),
    ...waiting.map((each) => ({ of: each.group, process: each.process, holder: each.holder, shard: null })),
  ];
  const nodes = [...Map.groupBy(all, ({ of }) => of)]
    .toSorted(([a], [b]) => Number(a > b) - Number(a < b))
    .map(([of, its]) => ({ group: of, processes: its.map(({ of: _of, ...rest }) => rest) }));
  return { node, group, shard, isLeaving, own: processes ?? null, nodes, shards: rows, moving };
}

/** Returns the shard of a body. Throws ServerError `bad-move`. */
function shardIn(body: Uint8Array): number {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    value = undefined;
  }
  const shard = typeof value === 'object' && value !== null && 'shard' in value ? value.shard : undefined;
  if (typeof shard === 'number' && Number.isSafeInteger(shard)) return shard;
  throw new ServerError('invalid', 'bad-move', 'the body does not name a shard: send {"shard": 1}, with its number');
}
