/** The owners of a service's shards, as a process sees them that wants a shard, or has one and asks for the others. */
import { int4Array, textArray } from './arrays.ts';
import type { Connection, Row } from './connection.ts';
import { SQL } from './schema.ts';
import type { Shard } from './shards.ts';
import { type Seen, Watch, type WatchOptions } from './watch.ts';

/** Facts that are known of a shard's owner, or that it has none. */
export interface SeenShard extends Seen {
  readonly address: string | null;
  /** Undefined: it was not asked for, because there is one shard. */
  readonly epoch: number | undefined;
}

/** A shard, what has been seen of it so far, and what is there now; undefined: it has no row yet. */
export type Look = readonly [shard: Shard, watch: Watch, seen: SeenShard | undefined];

interface ShardWatchesOptions extends Omit<WatchOptions, 'title'> {
  readonly shards: readonly Shard[];
  /** Title of a shard in the log. */
  readonly titleOf: (shard: Shard) => string;
  /** For tests. */
  readonly watch?: Watch | undefined;
}

export class ShardWatches {
  readonly #watched: readonly (readonly [Shard, Watch])[];

  constructor(options: ShardWatchesOptions) {
    const { shards, titleOf, watch } = options;
    this.#watched = shards.map((shard) => [shard, watch ?? new Watch({ ...options, title: titleOf(shard) })]);
  }

  /** Looks at all shards once. */
  async look(connection: Pick<Connection, 'query'>): Promise<readonly Look[]> {
    const rows = await this.#rows(connection);
    return this.#watched.map(([shard, watch], at) => [shard, watch, seenIn(rows[at])]);
  }

  async #rows(connection: Pick<Connection, 'query'>): Promise<readonly (Row | undefined)[]> {
    const namespaces = this.#watched.map(([{ namespace }]) => namespace);
    const [service = ''] = namespaces;
    if (namespaces.length === 1) return (await connection.query(SQL.seeOwner, [service])).rows;
    const indexes = int4Array(this.#watched.map(([{ index }]) => index));
    return (await connection.query(SQL.seeOwners, [service, textArray(namespaces), indexes])).rows;
  }

  /** The shortest of all leases. */
  get leaseMs(): number {
    return Math.min(...this.#watched.map(([, { leaseMs }]) => leaseMs));
  }

  /** False if nobody has been seen to write since the database was away or refused something. */
  get takesWrites(): boolean {
    return this.#watched.some(([, { takesWrites }]) => takesWrites);
  }

  beginAnew(): void {
    for (const [, watch] of this.#watched) watch.beginAnew();
  }
}

function seenIn(row: Row | undefined): SeenShard | undefined {
  const [owner, holder, leaseMs, beat, address = null, epoch] = row ?? [];
  if (beat === undefined || beat === null) return undefined;
  return {
    owner: owner === null ? null : String(owner),
    holder: String(holder),
    leaseMs: Number(leaseMs),
    beat: String(beat),
    address: address === null ? null : String(address),
    epoch: epoch === undefined ? undefined : Number(epoch),
  };
}
