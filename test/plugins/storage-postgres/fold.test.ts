/** Steps of a fold that are repeated when its connections break: statement by statement, on a fake database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Connection, Statement } from '../../../plugins/storage-postgres/connection.ts';
import type { Database, Session } from '../../../plugins/storage-postgres/database.ts';
import { Fold } from '../../../plugins/storage-postgres/fold.ts';
import { Layer } from '../../../plugins/storage-postgres/layer.ts';
import { WriteBatch } from '../../../subsystems/storage/write-batch.ts';

const LAST = 5;

/** Makes a layer that clears, and then writes the keys that it has cleared. */
function layerOf(): Layer {
  const unit = new WriteBatch();
  unit.clear('blob', Buffer.from('k'));
  unit.put('blob', Buffer.from('k1'), Buffer.from('v'));
  const layer = new Layer();
  layer.apply(unit.take());
  return layer;
}

/**
 * Breaks the session once, behind the statement of that name; the next session finds the tables up to unit
 * `foldedThen`.
 */
async function statementsOf(breaksBehind: string, foldedThen: number): Promise<string[]> {
  const sent: string[] = [];
  const sessionOf = (folded: number): Session => ({
    commits: {} as Connection,
    entries: {} as Connection,
    fence: '1',
    last: LAST,
    folded,
  });
  let session = sessionOf(0);
  let isBroken = false;
  const database = {
    namespace: 'n',
    async persist<T>(work: (of: Session) => Promise<T>): Promise<T> {
      try {
        return await work(session);
      } catch {
        session = sessionOf(foldedThen);
        return work(session);
      }
    },
    write(_session: Session, _connection: Connection, { name }: Statement): Promise<readonly number[]> {
      sent.push(name);
      if (name !== breaksBehind || isBroken) return Promise.resolve([0]);
      isBroken = true;
      sent.push('lost');
      return Promise.reject(new Error('the answer is lost'));
    },
    hasFolded: () => undefined,
  } as unknown as Database;
  const fold = new Fold(database, layerOf(), LAST);
  for (let steps = 0; !(await fold.step()); steps++) assert.ok(steps < 20, 'it ends');
  return sent;
}

const ALL = ['svc_clear_between', 'svc_remove', 'svc_write', 'svc_remove', 'svc_write', 'svc_forget_log'];

test('nothing is cleared again once the tables have everything: the log, which would bring it back, may be gone', async () => {
  assert.deepEqual(await statementsOf('svc_forget_log', LAST), [...ALL, 'lost', 'svc_forget_log']);
  assert.deepEqual(await statementsOf('', 0), ALL);
});

test('all is done again where the tables have not, whatever was answered before', async () => {
  for (const [name, from] of [
    ['svc_clear_between', 1],
    ['svc_write', 3],
    ['svc_forget_log', ALL.length],
  ] as const)
    assert.deepEqual(await statementsOf(name, 0), [...ALL.slice(0, from), 'lost', ...ALL], name);
});
