/**
 * Checks what the statements read that name keys of `svc_entries`, in a fresh database that has no statistics of the
 * table: some blocks for each key, whatever else there is. All other rows were read for each statement before.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Connection } from '../../plugins/storage-postgres/connection.ts';
import { SQL } from '../../plugins/storage-postgres/schema.ts';
import { systemClock } from '../../kernel/index.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { fold, NEVER_FOLDED, openStorage } from '../support/postgres-storage.ts';

const NAMESPACE = 'fresh';
const FAMILY = 5;
/** Rows of each of two families. */
const ROWS = 16_000;
/** Four rows fill a block. */
const VALUE_BYTES = 1_800;
const KEYS = 128;
/** Blocks that one key takes at most: some levels of an index, the row, and as much again where it is written. */
const BLOCKS_PER_KEY = 12;

interface Plan {
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly 'Parent Relationship'?: string;
  readonly Plans?: readonly Plan[];
}

let postgres: Postgres;
let connection: Connection;
before(async () => {
  postgres = await startPostgres({ settings: ['autovacuum=off'] });
});
after(async () => {
  connection.destroy();
  await postgres[Symbol.asyncDispose]();
});

const key = (n: number | string): string => `convert_to('k' || to_char(${n}, 'FM000000'), 'UTF8')`;
/** Keys that are removed, and in a range that is cleared or given away. */
const REMOVED_TWICE = 2;
/** Returns every hundredth key, as many as a statement has. */
const arrayOf = (each: (n: number) => string, type: string): string =>
  `ARRAY[${Array.from({ length: KEYS }, (_, n) => each(100 * n + 1)).join()}]::${type}[]`;

/** Executes the statement with these parameters; returns the blocks that it has read or written. */
async function blocksOf(text: string, values: readonly string[]): Promise<number> {
  const whole = text.replaceAll(/\$(\d)/g, (_, at: string) => values[Number(at) - 1] ?? '');
  const { rows } = await connection.run(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${whole}`);
  const [told] = rows[0] ?? assert.fail('nothing is explained');
  const [{ Plan: plan }] = (typeof told === 'string' ? JSON.parse(told) : told) as [{ readonly Plan: Plan }];
  return blocksIn(plan);
}

/** Returns the blocks of a plan. Changes that a statement makes beside its query are not in those of the query. */
function blocksIn(plan: Plan): number {
  const apart = (plan.Plans ?? []).filter((each) => each['Parent Relationship'] === 'InitPlan');
  const own = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  return apart.reduce((sum, each) => sum + blocksIn(each), own);
}

test('statements read what they name, where there are no statistics', async (t) => {
  const { storage } = await openStorage(t, { url: postgres.url, namespace: NAMESPACE, foldBytes: NEVER_FOLDED });
  await fold(storage);
  storage.abandon();
  const value = `convert_to(repeat('v', ${VALUE_BYTES}), 'UTF8')`;
  await postgres.query(`INSERT INTO svc_entries SELECT '${NAMESPACE}', family, ${key('n')}, 0, ${value}
    FROM generate_series(1, ${ROWS}) AS n, generate_series(${FAMILY}, ${FAMILY + 1}) AS family`);
  connection = await Connection.open({ url: postgres.url, clock: systemClock, idleTransactionMs: 10_000 });
  const fence = `(SELECT fence FROM svc_fence WHERE namespace = '${NAMESPACE}')`;
  const namespace = `'${NAMESPACE}'`;
  const families = arrayOf(() => String(FAMILY), 'smallint');
  const keys = arrayOf(key, 'bytea');
  const pieces = arrayOf(() => '0', 'integer');
  const values = arrayOf(() => "'\\x01'", 'bytea');
  const statements: readonly (readonly [keyof typeof SQL, readonly string[]])[] = [
    ['readKeys', [namespace, String(FAMILY), keys]],
    ['write', [namespace, fence, families, keys, pieces, values]],
    ['remove', [namespace, fence, families, keys, pieces]],
    ['listKeys', [namespace, String(FAMILY), key(ROWS - KEYS)]],
    ['readFrom', [namespace, String(FAMILY), key(ROWS - KEYS), '-1']],
    ['readBetween', [namespace, String(FAMILY), key(ROWS / 2), '-1', key(ROWS / 2 + KEYS)]],
    ['clearBetween', [namespace, fence, String(FAMILY), key(ROWS / 2), key(ROWS / 2 + KEYS)]],
    ['copyEntry', [namespace, "'other'", String(FAMILY), key(7)]],
    ['giveEntries', [namespace, "'other'", String(FAMILY), key(ROWS - KEYS), key(ROWS)]],
  ];
  for (const [name, parameters] of statements) {
    const blocks = await blocksOf(SQL[name].text, parameters);
    t.diagnostic(`${name}: ${blocks} blocks`);
    assert.ok(blocks <= KEYS * BLOCKS_PER_KEY, `${name} has read ${blocks} blocks for ${KEYS} keys`);
  }
  const count = async (where: string): Promise<number> => {
    const [row] = await postgres.query(
      `SELECT count(*)::int AS n FROM svc_entries WHERE namespace = ${namespace} AND family = ${FAMILY} AND ${where}`,
    );
    return Number(row?.['n']);
  };
  assert.equal(await count(`key = ANY(${keys})`), 0, 'what was removed');
  assert.equal(await count(`key >= ${key(ROWS / 2)} AND key < ${key(ROWS / 2 + KEYS)}`), 0, 'what was cleared');
  assert.equal(await count(`key >= ${key(ROWS - KEYS)} AND key < ${key(ROWS)}`), 0, 'what was given away');
  assert.equal(await count('true'), ROWS - 3 * KEYS + REMOVED_TWICE, 'and nothing else');
});
