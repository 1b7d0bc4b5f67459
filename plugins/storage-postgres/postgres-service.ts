/**
 * Facts that the servers of one service share: owners of its shards, and names of its actors. A server that is a
 * service by itself has none of this.
 *
 * Names are written under the fence of this server's shard, as units are; so a server that has lost its shard takes no
 * name, and drops none.
 */
import { ServerError } from '../api/plugin.ts';
import {
  type MovedActor,
  MovedActors,
  type MovedRows,
  type ServiceStore,
  type ShardOwner,
  type WaitingProcess,
  type WantedName,
} from '../api/storage.ts';
import { byteaArray, textArray } from './arrays.ts';
import type { Value } from './connection.ts';
import { type Database, NotOwner, type Session } from './database.ts';
import { corrupt } from './entries.ts';
import type { Lease } from './lease.ts';
import { moveActor, movesIn } from './move-actor.ts';
import type { PostgresPort } from './postgres-port.ts';
import { SQL } from './schema.ts';
import type { ShardOwners } from './shard-owners.ts';

interface PostgresServiceOptions {
  /** The service's name in the database. */
  readonly namespace: string;
  readonly lease: Lease;
  readonly database: Database;
  readonly owners: ShardOwners;
  readonly port: Pick<PostgresPort, 'settled'>;
}

export class PostgresService implements ServiceStore {
  readonly shards: number;
  readonly node: string;
  readonly moved = new MovedActors();
  readonly #options: PostgresServiceOptions;
  /** Number of the newest move that somebody was told of. */
  #newestMove = 0;

  constructor(options: PostgresServiceOptions) {
    this.#options = options;
    this.shards = options.lease.shards.length;
    this.node = options.lease.owner;
  }

  get shard(): number {
    return this.#options.lease.shard.index;
  }

  join(group: string): void {
    this.#options.lease.processes?.join(group);
  }

  get waiting(): readonly WaitingProcess[] {
    return this.#options.lease.processes?.waiting ?? [];
  }

  async dismiss(process: string, shard: number | undefined): Promise<void> {
    const { lease, namespace: service } = this.#options;
    const namespace = shard === undefined ? undefined : lease.shards[shard]?.namespace;
    await this.#ask(async ({ entries }) => {
      await entries.query(SQL.leaveProcess, [service, process]);
      if (namespace !== undefined) await entries.query(SQL.dismissOwner, [namespace, process]);
    });
  }

  async announce(address: string): Promise<void> {
    const { namespace } = this.#options;
    await this.#ask(async ({ entries }) => {
      await entries.query(SQL.announce, [namespace, this.shard, this.node, address]);
    });
  }

  owners(): Promise<readonly (ShardOwner | undefined)[]> {
    return this.#options.owners.now();
  }

  takeName(name: string, id: Uint8Array): Promise<Uint8Array> {
    const { namespace, database } = this.#options;
    return this.#ask(async (session) => {
      for (;;) {
        const values = [namespace, name, Buffer.from(id)];
        await database.write(session, session.entries, SQL.takeName, values);
        const taken = await idOf(session, namespace, name);
        // Another one had it, and has given it free meanwhile.
        if (taken !== undefined) return taken;
      }
    });
  }

  async dropName(name: string, id: Uint8Array): Promise<void> {
    const { namespace, database } = this.#options;
    await this.#ask(async (session) => {
      await database.write(session, session.entries, SQL.dropName, [namespace, name, Buffer.from(id)]);
    });
  }

  findName(name: string): Promise<Uint8Array | undefined> {
    return this.#ask((session) => idOf(session, this.#options.namespace, name));
  }

  namesOf(shard: number): Promise<ReadonlyMap<string, Uint8Array>> {
    return this.#ask((session) => idsOf(session, SQL.namesOf, [this.#options.namespace, shard]));
  }

  reserveNames(
    names: readonly WantedName[],
    idFor: (shard: number, number: bigint) => Uint8Array,
  ): Promise<ReadonlyMap<string, Uint8Array>> {
    const { namespace } = this.#options;
    const all = textArray(names.map(({ name }) => name));
    return this.#ask(async (session) => {
      const { entries } = session;
      const found = await idsOf(session, SQL.findNames, [namespace, all]);
      const missing = names.filter(({ name }) => !found.has(name));
      if (missing.length === 0) return found;
      // Numbers of names that another server reserves at the same time are used for nothing.
      const counted = await entries.query(SQL.countReserved, [namespace, missing.length]);
      const [reserved] = counted.rows[0] ?? [];
      if (typeof reserved !== 'string') throw corrupt(`svc_service has no row of namespace '${namespace}'`);
      const first = BigInt(reserved) - BigInt(missing.length);
      const ids = missing.map(({ shard }, at) => idFor(shard, first + BigInt(at)));
      const rows = [textArray(missing.map(({ name }) => name)), byteaArray(ids)];
      await entries.query(SQL.reserveNames, [namespace, ...rows]);
      return await idsOf(session, SQL.findNames, [namespace, all]);
    });
  }

  /** Hears of all moves so far: this process owns its shard, so none of its actors leaves any more. */
  async hearMoves(): Promise<void> {
    for (const move of await this.newMoves()) this.moved.moved(move);
  }

  async newMoves(): Promise<readonly MovedActor[]> {
    const values = [this.#options.namespace, this.#newestMove];
    const moves = await this.#ask(async ({ entries }) => movesIn(await entries.query(SQL.movedSince, values)));
    this.#newestMove = Math.max(this.#newestMove, moves.at(-1)?.version ?? 0);
    return moves;
  }

  async settleTables(): Promise<void> {
    await this.#options.port.settled(() => Promise.resolve());
  }

  async move(rows: MovedRows, { shard, node }: Pick<ShardOwner, 'shard' | 'node'>): Promise<MovedActor> {
    const { namespace, lease, port } = this.#options;
    const to = lease.shards[shard];
    if (to === undefined) throw new Error(`there is no shard ${shard}`);
    const move = { service: namespace, from: lease.shard, to, node, rows };
    const version = await port.settled(() => this.#ask((session) => moveActor(session, move)));
    return { id: rows.id, shard, version };
  }

  secret(name: string, fresh: Uint8Array): Promise<Uint8Array> {
    const { namespace } = this.#options;
    return this.#ask(async ({ entries }) => {
      await entries.query(SQL.keepSecret, [namespace, name, Buffer.from(fresh)]);
      const { rows } = await entries.query(SQL.findSecret, [namespace, name]);
      const kept = rows[0]?.[0];
      if (kept instanceof Buffer) return new Uint8Array(kept);
      throw corrupt(`svc_secrets has no ${name} of namespace '${namespace}'`);
    });
  }

  /** Asks the database until it has answered. Rejects with a ServerError while this server owns no shard. */
  async #ask<T>(question: (session: Session) => Promise<T>): Promise<T> {
    const { lease, database } = this.#options;
    // Clients ask a standby, too.
    if (!lease.isTaken) throw new ServerError('unavailable', 'storage-failed', 'this server owns no shard yet');
    try {
      return await database.persist(question);
    } catch (error) {
      if (!(error instanceof NotOwner)) throw error;
      void lease.lost();
      throw new ServerError('unavailable', 'namespace-lost', `${lease.shard.title} is another server's now`);
    }
  }
}

async function idOf({ entries }: Session, namespace: string, name: string): Promise<Uint8Array | undefined> {
  const { rows } = await entries.query(SQL.findName, [namespace, name]);
  const id = rows[0]?.[0];
  return id instanceof Buffer ? new Uint8Array(id) : undefined;
}

async function idsOf(
  { entries }: Session,
  statement: typeof SQL.findNames | typeof SQL.namesOf,
  values: Value[],
): Promise<ReadonlyMap<string, Uint8Array>> {
  const { rows } = await entries.query(statement, values);
  return new Map(rows.map(([name, id]) => [String(name), id instanceof Buffer ? new Uint8Array(id) : NO_ID]));
}

const NO_ID = new Uint8Array(0);
