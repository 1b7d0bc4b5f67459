/**
 * The tables, and every statement that is sent. A namespace is one server's state; many may share a database.
 *
 *     svc_schema    the version of all this
 *     svc_owner     the owner of a namespace, as processes that want it see it: `beat` grows while the owner lives
 *     svc_fence     the number that every write of the owner must carry, and names in the row that it locks
 *     svc_log       committed and not in svc_entries yet: the operations of units `unit` to `last`, in pieces
 *     svc_entries   the tables of `svc/plugin/storage`: what is under a key of a family, in pieces
 *     svc_service   the number of shards of a namespace (shards.ts), how many ids were reserved for names, and
 *                   how many moves there were
 *     svc_nodes     the owner of each shard, with its address, where there are several
 *     svc_processes processes that own or want a shard, and the group of each, where there are several shards
 *     svc_names     names of all shards' actors, where there are several; not taken: reserved for the manifest's
 *     svc_secrets   secrets that all servers of a service share, where there are several
 *     svc_moved     actors that are not in the shard that their id tells, or have been, with the number of the move
 *
 * Each write is one statement that locks the row of svc_fence (shared: the owner's own do not wait for each other) and
 * does nothing unless the number in it is the writer's. Whoever takes the namespace over writes to that row, and so
 * waits for the writes that have begun, and ends those that come later.
 */
import { FAMILIES, type Family } from '../api/storage.ts';
import { ServerError } from '../api/plugin.ts';
import type { Connection, Statement } from './connection.ts';
import { codeOf } from './database-errors.ts';

/**
 * Statements that lead from version 1 to the next, and so on (ADR 86). A step is one transaction, so it is there wholly
 * or not at all. A change of the state's format that rows of the database have is a step here, too.
 */
type SchemaStep = readonly string[];
const SCHEMA_STEPS: readonly SchemaStep[] = [
  [
    `CREATE TABLE IF NOT EXISTS svc_service (
       namespace text NOT NULL PRIMARY KEY,
       shards integer NOT NULL,
       reserved bigint NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS svc_nodes (
       namespace text NOT NULL,
       shard integer NOT NULL,
       node text NOT NULL,
       holder text NOT NULL,
       address text,
       epoch bigint NOT NULL,
       PRIMARY KEY (namespace, shard))`,
    `CREATE TABLE IF NOT EXISTS svc_names (
       namespace text NOT NULL,
       name text NOT NULL,
       id bytea NOT NULL,
       is_taken boolean NOT NULL,
       PRIMARY KEY (namespace, name))`,
    `CREATE TABLE IF NOT EXISTS svc_secrets (
       namespace text NOT NULL,
       name text NOT NULL,
       secret bytea NOT NULL,
       PRIMARY KEY (namespace, name))`,
    // Whatever there was before is one shard.
    `INSERT INTO svc_service SELECT namespace, 1, 0 FROM svc_owner ON CONFLICT DO NOTHING`,
  ],
  [
    `CREATE TABLE IF NOT EXISTS svc_processes (
       namespace text NOT NULL,
       process text NOT NULL,
       node_group text NOT NULL,
       holder text NOT NULL,
       beat bigint NOT NULL,
       PRIMARY KEY (namespace, process))`,
  ],
  [
    `ALTER TABLE svc_service ADD COLUMN IF NOT EXISTS moves bigint NOT NULL DEFAULT 0`,
    `CREATE TABLE IF NOT EXISTS svc_moved (
       namespace text NOT NULL,
       id bytea NOT NULL,
       shard integer NOT NULL,
       version bigint NOT NULL,
       PRIMARY KEY (namespace, id))`,
    `CREATE UNIQUE INDEX IF NOT EXISTS svc_moved_version ON svc_moved (namespace, version)`,
  ],
];
export const SCHEMA_VERSION: number = 1 + SCHEMA_STEPS.length;
/** Bytes of a longer value that one row has at most. */
export const PIECE_BYTES = 2 ** 20;
/** Rows and, roughly, bytes that one answer of the database has at most; it may have one row more. */
export const CHUNK_ROWS = 4096;
export const CHUNK_BYTES = 2 ** 20;

const TABLES = [
  `CREATE TABLE IF NOT EXISTS svc_schema (version integer NOT NULL PRIMARY KEY)`,
  `CREATE TABLE IF NOT EXISTS svc_owner (
     namespace text NOT NULL PRIMARY KEY,
     owner text,
     holder text,
     lease_ms bigint NOT NULL,
     beat bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS svc_fence (
     namespace text NOT NULL PRIMARY KEY,
     owner text,
     fence bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS svc_log (
     namespace text NOT NULL,
     unit bigint NOT NULL,
     piece integer NOT NULL,
     last bigint NOT NULL,
     bytes bytea NOT NULL,
     PRIMARY KEY (namespace, unit, piece))`,
  `CREATE TABLE IF NOT EXISTS svc_entries (
     namespace text NOT NULL,
     family smallint NOT NULL,
     key bytea NOT NULL,
     piece integer NOT NULL,
     value bytea NOT NULL,
     PRIMARY KEY (namespace, family, key, piece))`,
  `INSERT INTO svc_schema SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM svc_schema)`,
];
/** Bytes that live for seconds are not worth being compressed. Where there is no such thing it is done without. */
const UNCOMPRESSED = `ALTER TABLE svc_log ALTER COLUMN bytes SET STORAGE EXTERNAL`;
const UNDEFINED_TABLE = '42P01';
/** Two servers make the tables at the same time. */
const MADE_MEANWHILE: ReadonlySet<string> = new Set(['23505', '42P07', '42710']);
const TRIES = 5;

/**
 * Makes the tables where there are none, and takes those of an older version over. Throws ServerError `state-newer` for
 * tables of a newer version.
 */
export async function prepareSchema(
  connection: Pick<Connection, 'isBroken' | 'run' | 'transaction'>,
  steps: readonly SchemaStep[] = SCHEMA_STEPS,
): Promise<void> {
  for (let left = TRIES; ; left--) {
    const version = await versionOf(connection);
    if (version !== undefined && !checkVersion(version, 1 + steps.length)) return;
    try {
      if (version !== undefined) {
        await takeOver(connection, steps);
        continue;
      }
      await connection.transaction(async () => {
        for (const table of TABLES) await connection.run(table);
      });
      await connection.run(UNCOMPRESSED).catch((error: unknown) => {
        if (connection.isBroken) throw error;
      });
    } catch (error) {
      if (left === 0 || !MADE_MEANWHILE.has(codeOf(error))) throw error;
    }
  }
}

/** Returns the version of the tables, or undefined if there are none. */
async function versionOf(connection: Pick<Connection, 'run'>): Promise<number | undefined> {
  try {
    const { rows } = await connection.run('SELECT version FROM svc_schema ORDER BY version DESC LIMIT 1');
    return rows[0] === undefined ? undefined : Number(rows[0][0]);
  } catch (error) {
    if (codeOf(error) === UNDEFINED_TABLE) return undefined;
    throw error;
  }
}

/** Returns true if tables of this version lack a step. */
function checkVersion(version: number, ours: number): boolean {
  if (version >= 1 && version <= ours) return version < ours;
  const said = `the tables in the database have version ${version} of the schema, and this svc has version ${ours}`;
  if (version > ours) throw new ServerError('unavailable', 'state-newer', `${said}: use the newer svc that made them`);
  throw new ServerError('unavailable', 'state-corrupt', `${said}: there are no such tables; restore a backup`);
}

/** Does the next step. Servers that start together wait for each other, and each does what is left. */
async function takeOver(
  connection: Pick<Connection, 'run' | 'transaction'>,
  steps: readonly SchemaStep[],
): Promise<void> {
  await connection.transaction(async () => {
    await connection.run('LOCK TABLE svc_schema IN ACCESS EXCLUSIVE MODE');
    const version = await versionOf(connection);
    const step = version === undefined ? undefined : steps[version - 1];
    if (step === undefined) return;
    for (const statement of step) await connection.run(statement);
    await connection.run('UPDATE svc_schema SET version = version + 1');
  });
}

export function familyNumber(family: Family): number {
  return FAMILIES.indexOf(family);
}

/**
 * Beginning of a write: parameters 1 and 2 are namespace and fence. `own` has a row, which is locked, if they are
 * right.
 */
const OWN = `WITH own AS (SELECT 1 FROM svc_fence WHERE namespace = $1 AND fence = $2 FOR SHARE)`;

function reads(name: string, bounds: string): Statement {
  return {
    name: `svc_${name}`,
    text: `SELECT key, piece, value FROM (
        SELECT key, piece, value, sum(octet_length(value)) OVER (ORDER BY key, piece) - octet_length(value) AS before
        FROM (SELECT key, piece, value FROM svc_entries
              WHERE namespace = $1 AND family = $2 AND (key, piece) > ($3, $4)${bounds}
              ORDER BY key, piece LIMIT ${CHUNK_ROWS}) AS next) AS sized
      WHERE before < ${CHUNK_BYTES} ORDER BY key, piece`,
  };
}

export const SQL = {
  // ---- ownership
  makeOwner: {
    name: 'svc_make_owner',
    text: 'INSERT INTO svc_owner VALUES ($1, NULL, NULL, 0, 0) ON CONFLICT DO NOTHING',
  },
  makeFence: { name: 'svc_make_fence', text: 'INSERT INTO svc_fence VALUES ($1, NULL, 0) ON CONFLICT DO NOTHING' },
  seeOwner: { name: 'svc_see_owner', text: 'SELECT owner, holder, lease_ms, beat FROM svc_owner WHERE namespace = $1' },
  takeOwner: {
    name: 'svc_take_owner',
    text: `UPDATE svc_owner SET owner = $3, holder = $4, lease_ms = $5, beat = beat + 1
      WHERE namespace = $1 AND beat = $2`,
  },
  takeFence: {
    name: 'svc_take_fence',
    text: 'UPDATE svc_fence SET owner = $2, fence = fence + 1 WHERE namespace = $1',
  },
  beat: {
    name: 'svc_beat',
    text: 'UPDATE svc_owner SET beat = beat + 1 WHERE namespace = $1 AND owner = $2',
  },
  /** Changes nothing, and waits for all that a change waits for. */
  touchOwner: {
    name: 'svc_touch_owner',
    text: 'UPDATE svc_owner SET beat = beat WHERE namespace = $1 AND beat = $2',
  },
  leaveOwner: {
    name: 'svc_leave_owner',
    text: 'UPDATE svc_owner SET owner = NULL, holder = NULL, beat = beat + 1 WHERE namespace = $1 AND owner = $2',
  },
  leaveFence: {
    name: 'svc_leave_fence',
    text: 'UPDATE svc_fence SET owner = NULL, fence = fence + 1 WHERE namespace = $1 AND owner = $2',
  },
  /** Does what `leaveOwner` and `leaveFence` do, for an owner that is no more. */
  dismissOwner: {
    name: 'svc_dismiss_owner',
    text: `WITH gone AS (
        UPDATE svc_owner SET owner = NULL, holder = NULL, beat = beat + 1 WHERE namespace = $1 AND owner = $2
        RETURNING namespace)
      UPDATE svc_fence SET owner = NULL, fence = fence + 1 FROM gone
      WHERE svc_fence.namespace = gone.namespace AND svc_fence.owner = $2`,
  },
  isOwner: { name: 'svc_is_owner', text: 'SELECT 1 FROM svc_fence WHERE namespace = $1 AND owner = $2' },
  // ---- shards of a service
  seeService: { name: 'svc_see_service', text: 'SELECT shards FROM svc_service WHERE namespace = $1' },
  makeService: {
    name: 'svc_make_service',
    text: 'INSERT INTO svc_service VALUES ($1, $2, 0) ON CONFLICT DO NOTHING',
  },
  /** A row for each of the namespaces $2, which are the shards $3: as `seeOwner`, then address and epoch. */
  seeOwners: {
    name: 'svc_see_owners',
    text: `SELECT held.owner, held.holder, held.lease_ms, held.beat, node.address, node.epoch
      FROM unnest($2::text[], $3::integer[]) AS given (namespace, shard)
        LEFT JOIN svc_owner AS held ON held.namespace = given.namespace
        LEFT JOIN svc_nodes AS node
          ON node.namespace = $1 AND node.shard = given.shard AND node.node = held.owner
      ORDER BY given.shard`,
  },
  takeShard: {
    name: 'svc_take_shard',
    text: `INSERT INTO svc_nodes VALUES ($1, $2, $3, $4, NULL, 1)
      ON CONFLICT (namespace, shard) DO UPDATE
        SET node = excluded.node, holder = excluded.holder, address = NULL, epoch = svc_nodes.epoch + 1`,
  },
  announce: {
    name: 'svc_announce',
    text: 'UPDATE svc_nodes SET address = $4 WHERE namespace = $1 AND shard = $2 AND node = $3',
  },
  // ---- processes that own a shard, or want one; a beat of theirs counts while they want one
  joinProcess: {
    name: 'svc_join_process',
    text: `INSERT INTO svc_processes VALUES ($1, $2, $3, $4, 1)
      ON CONFLICT (namespace, process) DO UPDATE SET beat = svc_processes.beat + 1`,
  },
  seeProcesses: {
    name: 'svc_see_processes',
    text: 'SELECT process, node_group, holder, beat FROM svc_processes WHERE namespace = $1 ORDER BY process',
  },
  leaveProcess: {
    name: 'svc_leave_process',
    text: 'DELETE FROM svc_processes WHERE namespace = $1 AND process = $2',
  },
  /** Forgets a process that was silent since it had this beat. */
  forgetProcess: {
    name: 'svc_forget_process',
    text: 'DELETE FROM svc_processes WHERE namespace = $1 AND process = $2 AND beat = $3',
  },
  // ---- names of a service's actors: $3 is the service's namespace where $1 and $2 are a shard's, and its fence
  takeName: {
    name: 'svc_take_name',
    text: `${OWN}, taken AS (
        INSERT INTO svc_names SELECT $3, $4, $5, true FROM own
        ON CONFLICT (namespace, name) DO UPDATE SET id = excluded.id, is_taken = true
          WHERE svc_names.id = excluded.id OR NOT svc_names.is_taken)
      SELECT 1 FROM own`,
  },
  dropName: {
    name: 'svc_drop_name',
    text: `${OWN}, dropped AS (
        DELETE FROM svc_names USING own WHERE svc_names.namespace = $3 AND name = $4 AND id = $5
          AND is_taken)
      SELECT 1 FROM own`,
  },
  keepSecret: {
    name: 'svc_keep_secret',
    text: 'INSERT INTO svc_secrets VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
  },
  findSecret: { name: 'svc_find_secret', text: 'SELECT secret FROM svc_secrets WHERE namespace = $1 AND name = $2' },
  findName: { name: 'svc_find_name', text: 'SELECT id FROM svc_names WHERE namespace = $1 AND name = $2' },
  findNames: {
    name: 'svc_find_names',
    text: 'SELECT name, id FROM svc_names WHERE namespace = $1 AND name = ANY($2::text[])',
  },
  /** Names of a shard's actors: that in the third byte of the id, or the one to which the actor has moved. */
  namesOf: {
    name: 'svc_names_of',
    text: `SELECT name, named.id FROM svc_names AS named LEFT JOIN svc_moved AS moved USING (namespace, id)
      WHERE namespace = $1 AND is_taken AND coalesce(moved.shard, get_byte(named.id, 2)) = $2`,
  },
  // ---- actors that move
  movedSince: {
    name: 'svc_moved_since',
    text: 'SELECT id, shard, version FROM svc_moved WHERE namespace = $1 AND version > $2 ORDER BY version',
  },
  movedOne: {
    name: 'svc_moved_one',
    text: 'SELECT id, shard, version FROM svc_moved WHERE namespace = $1 AND id = $2',
  },
  /** Locks the fence of a shard of which that process is the owner. */
  ownedBy: { name: 'svc_owned_by', text: 'SELECT 1 FROM svc_fence WHERE namespace = $1 AND owner = $2 FOR SHARE' },
  /** Copies one entry of namespace $1 to $2, which may have it. */
  copyEntry: {
    name: 'svc_copy_entry',
    text: `INSERT INTO svc_entries
      SELECT $2, family, key, piece, value FROM svc_entries WHERE namespace = $1 AND family = $3 AND key = $4
      ON CONFLICT DO NOTHING`,
  },
  /** Gives rows of namespace $1 to $2. What is stored out of line stays where it is. */
  giveEntries: {
    name: 'svc_give_entries',
    text: `UPDATE svc_entries SET namespace = $2
      WHERE namespace = $1 AND family = $3 AND key >= $4 AND key < $5`,
  },
  /** Last in its transaction, so that numbers come in the order of commits: whoever moves waits here for the others. */
  noteMove: {
    name: 'svc_note_move',
    text: `WITH counted AS (UPDATE svc_service SET moves = moves + 1 WHERE namespace = $1 RETURNING moves)
      INSERT INTO svc_moved SELECT $1, $2, $3, moves FROM counted
      ON CONFLICT (namespace, id) DO UPDATE SET shard = excluded.shard, version = excluded.version
      RETURNING version`,
  },
  countReserved: {
    name: 'svc_count_reserved',
    text: 'UPDATE svc_service SET reserved = reserved + $2 WHERE namespace = $1 RETURNING reserved',
  },
  reserveNames: {
    name: 'svc_reserve_names',
    text: `INSERT INTO svc_names
      SELECT $1, name, id, false FROM unnest($2::text[], $3::bytea[]) AS given (name, id) ON CONFLICT DO NOTHING`,
  },
  // ---- sessions of the owner
  nextFence: {
    name: 'svc_next_fence',
    text: 'UPDATE svc_fence SET fence = fence + 1 WHERE namespace = $1 AND owner = $2 RETURNING fence',
  },
  lastUnit: { name: 'svc_last_unit', text: 'SELECT max(last) FROM svc_log WHERE namespace = $1' },
  // ---- units
  commit: {
    name: 'svc_commit',
    text: `${OWN} INSERT INTO svc_log SELECT $1, $3, 0, $4, $5 FROM own`,
  },
  piece: { name: 'svc_piece', text: 'INSERT INTO svc_log VALUES ($1, $2, $3, $4, $5)' },
  own: { name: 'svc_own', text: 'SELECT 1 FROM svc_fence WHERE namespace = $1 AND fence = $2 FOR SHARE' },
  log: {
    name: 'svc_read_log',
    text: `SELECT unit, piece, last, bytes FROM (
        SELECT unit, piece, last, bytes, sum(octet_length(bytes)) OVER (ORDER BY unit, piece) - octet_length(bytes) AS before
        FROM (SELECT unit, piece, last, bytes FROM svc_log
              WHERE namespace = $1 AND (unit, piece) > ($2, $3)
              ORDER BY unit, piece LIMIT ${CHUNK_ROWS}) AS next) AS sized
      WHERE before < ${CHUNK_BYTES} ORDER BY unit, piece`,
  },
  // ---- entries
  readFrom: reads('read_from', ''),
  readBetween: reads('read_between', ' AND key < $5'),
  /** Keys of one family from one on, one more than an answer is to have; no values. */
  listKeys: {
    name: 'svc_list_keys',
    text: `SELECT key FROM svc_entries
      WHERE namespace = $1 AND family = $2 AND key >= $3 AND piece = 0 ORDER BY key LIMIT ${CHUNK_ROWS + 1}`,
  },
  /**
   * Reads all pieces of some keys of one family. Each key is looked for by itself (`OFFSET 0` keeps it so): where there
   * are no statistics, all rows of the family were read for `key = ANY`.
   */
  readKeys: {
    name: 'svc_read_keys',
    text: `SELECT entry.key, entry.piece, entry.value FROM (SELECT DISTINCT unnest($3::bytea[]) AS key) AS given, LATERAL (
        SELECT key, piece, value FROM svc_entries
        WHERE namespace = $1 AND family = $2 AND key = given.key OFFSET 0) AS entry
      ORDER BY entry.key, entry.piece`,
  },
  /** Rows as arrays: families, keys, pieces, values. */
  write: {
    name: 'svc_write',
    text: `${OWN}, written AS (
        INSERT INTO svc_entries
        SELECT $1, family, key, piece, value FROM own, unnest($3::smallint[], $4::bytea[], $5::integer[], $6::bytea[])
          AS given (family, key, piece, value)
        ON CONFLICT (namespace, family, key, piece) DO UPDATE SET value = excluded.value)
      SELECT 1 FROM own`,
  },
  /** Removes the pieces of these keys from a number on. */
  remove: {
    name: 'svc_remove',
    text: `${OWN}, removed AS (
        DELETE FROM svc_entries AS entry
        USING own, unnest($3::smallint[], $4::bytea[], $5::integer[]) AS given (family, key, piece)
        WHERE entry.namespace = $1 AND entry.family = given.family AND entry.key = given.key
          AND entry.piece >= given.piece)
      SELECT 1 FROM own`,
  },
  /**
   * Removes some thousands of rows from one key on and before another, and the other rows of their keys; the count is
   * the number of rows found.
   */
  clearFrom: clears('clear_from', ''),
  clearBetween: clears('clear_between', ' AND key < $5'),
  forgetLog: {
    name: 'svc_forget_log',
    text: `${OWN}, forgotten AS (DELETE FROM svc_log USING own WHERE namespace = $1 AND unit <= $3)
      SELECT 1 FROM own`,
  },
  // ---- restore: rows as `write` takes them, and no fence yet
  insert: {
    name: 'svc_insert',
    text: `INSERT INTO svc_entries
      SELECT $1, family, key, piece, value FROM unnest($2::smallint[], $3::bytea[], $4::integer[], $5::bytea[])
        AS given (family, key, piece, value)`,
  },
  hasEntries: { name: 'svc_has_entries', text: 'SELECT 1 FROM svc_entries WHERE namespace = $1 LIMIT 1' },
  hasLog: { name: 'svc_has_log', text: 'SELECT 1 FROM svc_log WHERE namespace = $1 LIMIT 1' },
  // ---- figures
  bytes: {
    name: 'svc_bytes',
    text: `SELECT pg_total_relation_size('svc_entries') + pg_total_relation_size('svc_log')`,
  },
  countBytes: {
    name: 'svc_count_bytes',
    text: 'SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) FROM svc_entries WHERE namespace = $1',
  },
} as const satisfies Readonly<Record<string, Statement>>;

/**
 * Looks for the last of the keys once, and deletes all up to it. Joined by key, the rows were looked for again and
 * again where PostgreSQL has no statistics of the table: it has none of a new one, and loses them in a crash.
 */
function clears(name: string, bounds: string): Statement {
  return {
    name: `svc_${name}`,
    text: `${OWN}, last AS MATERIALIZED (
        SELECT key FROM (
          SELECT key, piece FROM svc_entries
          WHERE namespace = $1 AND family = $3 AND key >= $4${bounds}
          ORDER BY key, piece LIMIT ${CHUNK_ROWS}) AS rows
        ORDER BY key DESC LIMIT 1), gone AS (
        DELETE FROM svc_entries AS entry
        USING own, last
        WHERE entry.namespace = $1 AND entry.family = $3 AND entry.key >= $4 AND entry.key <= last.key
        RETURNING 1)
      SELECT (SELECT count(*) FROM gone) FROM own`,
  };
}
