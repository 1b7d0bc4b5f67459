/**
 * The transaction that moves an actor to another shard (ADR 130). All that is stored of the actor is in the tables, and
 * its owner writes nothing of it meanwhile. Nothing is moved unless both fences hold: that of this process's session,
 * and that of the process which has said that it is ready.
 *
 * A connection that breaks leaves open whether it was committed. Then the next session, whose fence waits for whatever
 * is under way, looks first.
 */
import { ServerError } from '../api/plugin.ts';
import { type MovedActor, type MovedRows, prefixEnd } from '../api/storage.ts';
import type { Outcome, Value } from './connection.ts';
import { bufferOf, NotOwner, type Session } from './database.ts';
import { corrupt } from './entries.ts';
import { familyNumber, SQL } from './schema.ts';
import type { Shard } from './shards.ts';

interface ActorMove {
  /** The service's namespace. */
  readonly service: string;
  readonly from: Shard;
  readonly to: Shard;
  /** The process that has to own the shard. */
  readonly node: string;
  readonly rows: MovedRows;
}

/** Resolves with the number of the move. Rejects with ServerError `owner-changed` when it has another owner. */
export async function moveActor(session: Session, move: ActorMove): Promise<number> {
  const { entries } = session;
  const { service, from, to, node, rows } = move;
  const [before] = movesIn(await entries.query(SQL.movedOne, [service, bufferOf(rows.id)]));
  if (before?.shard === to.index) return before.version;
  return await entries.transaction(async () => {
    const own = await entries.query(SQL.own, [from.namespace, session.fence]);
    if (own.rows.length === 0) throw new NotOwner();
    const other = await entries.query(SQL.ownedBy, [to.namespace, node]);
    if (other.rows.length === 0) throw ownerChanged(to);
    const module = rows.moduleHash;
    if (module !== undefined)
      await entries.query(SQL.copyEntry, [from.namespace, to.namespace, familyNumber('module'), bufferOf(module)]);
    for (const { family, prefix } of rows.prefixes) await entries.query(SQL.giveEntries, given(move, family, prefix));
    const [moved] = (await entries.query(SQL.noteMove, [service, bufferOf(rows.id), to.index])).rows;
    if (moved === undefined) throw corrupt(`svc_service has no row of namespace '${service}'`);
    return Number(moved[0]);
  });
}

function given({ from, to }: ActorMove, family: MovedRows['prefixes'][number]['family'], prefix: Uint8Array): Value[] {
  const end = prefixEnd(prefix);
  if (end === undefined) throw new Error('a prefix of an actor has an end');
  return [from.namespace, to.namespace, familyNumber(family), bufferOf(prefix), bufferOf(end)];
}

export function movesIn({ rows }: Outcome): readonly MovedActor[] {
  return rows.map(([id, shard, version]) => {
    if (!(id instanceof Buffer)) throw corrupt('a row of svc_moved has no id');
    return { id: new Uint8Array(id), shard: Number(shard), version: Number(version) };
  });
}

function ownerChanged({ title }: Shard): ServerError {
  return new ServerError(
    'unavailable',
    'owner-changed',
    `${title} has another owner than the one that was ready for the actor; nothing was moved: try again`,
  );
}
