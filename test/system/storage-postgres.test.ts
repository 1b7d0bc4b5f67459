/** The storage on PostgreSQL by the suites that every storage runs, on a PostgreSQL that these tests start. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { after, before } from 'node:test';
import { describeCommitQueue } from '../../plugins/api/contracts/commit-queue.ts';
import { describeStorage } from '../../plugins/api/contracts/storage.ts';
import { systemClock } from '../../kernel/index.ts';
import { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';

const LEASE_MS = 500;
const ALL = new Uint8Array(0);

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

let namespaces = 0;

async function open(namespace: string, foldBytes?: number): Promise<PostgresStorage> {
  const storage = new PostgresStorage({
    url: postgres.url,
    namespace,
    leaseMs: LEASE_MS,
    clock: systemClock,
    log: { info: () => undefined, warn: () => undefined },
    onFailure: (error) => assert.ifError(error),
    ...(foldBytes === undefined ? {} : { foldBytes }),
  });
  await storage.own({ readiness: { waiting: () => undefined }, signal: new AbortController().signal });
  await storage.open();
  return storage;
}

// With the second, nearly every unit goes on to the tables at once.
for (const foldBytes of [undefined, 1]) {
  describeStorage(`PostgresStorage, folded ${foldBytes === undefined ? 'late' : 'at once'}`, async (t) => {
    const namespace = `storage-${++namespaces}`;
    let storage = await open(namespace, foldBytes);
    t.after(() => storage.close());
    const reopen = async (): Promise<PostgresStorage> => {
      await storage.close();
      storage = await open(namespace, foldBytes);
      return storage;
    };
    const crash = async (): Promise<PostgresStorage> => {
      storage.abandon();
      storage = await open(namespace, foldBytes);
      return storage;
    };
    return { storage, reopen, crash };
  });
}

describeCommitQueue('PostgresStorage', async (t) => {
  const queue = await open(`queue-${++namespaces}`);
  t.after(() => queue.close());
  return {
    queue,
    endTurn: nextTurn,
    catchUp: () => queue.settled(),
    stored: async () =>
      new Map((await queue.range('queue', ALL)).map(([key, value]) => [Buffer.from(key).toString(), value])),
  };
});
