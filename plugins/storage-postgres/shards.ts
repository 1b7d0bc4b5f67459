/**
 * Shards of one service. Each has rows of its own, under a namespace of its own, with an owner, a fence, a log and
 * entries; so a shard is to its owner what a namespace is to a server that is a service by itself. Shard 0 has the
 * namespace's own name, and with it the rows of a server that has no other shard.
 */
import { ServerError } from '../api/plugin.ts';
import type { Connection } from './connection.ts';
import { SQL } from './schema.ts';

export interface Shard {
  /** From 0 on. */
  readonly index: number;
  /** The namespace of its rows. */
  readonly namespace: string;
  /** Text for messages: `the namespace 'svc'`, `shard 2 of 3 of the namespace 'svc'`. */
  readonly title: string;
}

/** End of the namespaces of all shards but the first. */
const LATER_SHARD = /\/shard-\d+$/;

/** Throws ServerError `namespace-bad` for a namespace that may be a shard's of another. */
export function shardsOf(namespace: string, count: number): readonly [Shard, ...Shard[]] {
  if (LATER_SHARD.test(namespace)) {
    throw new ServerError(
      'invalid',
      'namespace-bad',
      `storage.namespace=${namespace} is what a shard of another namespace is called: name one that does not end with /shard- and a number`,
    );
  }
  const titled = (index: number): string =>
    count === 1 ? `the namespace '${namespace}'` : `shard ${index} of ${count} of the namespace '${namespace}'`;
  const later = Array.from({ length: count - 1 }, (_, at) => ({
    index: at + 1,
    namespace: `${namespace}/shard-${at + 1}`,
    title: titled(at + 1),
  }));
  return [{ index: 0, namespace, title: titled(0) }, ...later];
}

/** Makes the number of shards known at a service's first start. Rejects with ServerError `shards-differ` later. */
export async function fixShards(
  connection: Pick<Connection, 'query'>,
  namespace: string,
  count: number,
): Promise<void> {
  const fixed = async (): Promise<number | undefined> => {
    const { rows } = await connection.query(SQL.seeService, [namespace]);
    return rows[0] === undefined ? undefined : Number(rows[0][0]);
  };
  let found = await fixed();
  if (found === undefined) {
    await connection.query(SQL.makeService, [namespace, count]);
    found = await fixed();
  }
  if (found === undefined || found === count) return;
  throw new ServerError(
    'invalid',
    'shards-differ',
    `the namespace '${namespace}' has ${found} shard(s) since it was made, and storage.shards says ${count}: ` +
      `start with storage.shards=${found}, or name another namespace`,
  );
}
