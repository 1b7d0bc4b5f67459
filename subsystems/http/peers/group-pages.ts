/** Pages of numbers of a node's other processes, which only their links reach. */
import type { Clock } from '../../../kernel/index.ts';
import type { Cluster } from '../../cluster/index.ts';
import { Part, wholeOf } from './gathering.ts';
import { CLIENT_HEADER, VERDICT_HEADER } from './verdict.ts';

const PATIENCE_MS = 2_000;

interface GroupPagesNeeds {
  readonly cluster: Pick<Cluster, 'peerOf' | 'owners' | 'group' | 'node'>;
  readonly clock: Pick<Clock, 'after'>;
}

/** Resolves with the pages of the node's other processes, by their shards; one that does not answer is left out. */
export async function groupPages({ cluster, clock }: GroupPagesNeeds): Promise<readonly [number, Uint8Array][]> {
  const patience = Promise.withResolvers<undefined>();
  using _waiting = clock.after(PATIENCE_MS, () => patience.resolve(undefined));
  const asked = cluster.owners.map(async (owner): Promise<[number, Uint8Array][]> => {
    if (owner === undefined || owner.group !== cluster.group || owner.node === cluster.node) return [];
    const part = new Part();
    const headers = [VERDICT_HEADER, 'whole', CLIENT_HEADER, ''];
    const peer = cluster.peerOf(owner.shard);
    if (peer === undefined) return [];
    peer.send({ method: 'GET', path: '/metrics', headers, body: null }, part);
    const page = await Promise.race([wholeOf(part).catch(() => undefined), patience.promise]);
    part.drop();
    return page === undefined || part.status !== 200 ? [] : [[owner.shard, page]];
  });
  return (await Promise.all(asked)).flat();
}
