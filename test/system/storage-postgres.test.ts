/** Runs the suites of every storage on the storage on PostgreSQL, with a PostgreSQL that these tests start. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { after, before, test } from 'node:test';
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

const ID = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 3, 1, 1]);
const PAGES = 8 * 1024;
/**
 * Limit of any turn of the main thread, in processor time of that thread, which other processes do not affect. The
 * limit excludes the machine's time to provide the memory that is read into, 8 ms on one machine and 155 on another.
 */
const TURN_MS_MAX = 50;

/**
 * Returns the processor time of touching as much memory for the first time as the pages take, as `storage.canister`
 * does.
 */
function freshMemoryMs(): number {
  const bytes = PAGES * 4096;
  const start = process.threadCpuUsage();
  const block = new Uint8Array(new ArrayBuffer(bytes, { maxByteLength: bytes })).fill(1);
  const { user, system } = process.threadCpuUsage(start);
  assert.equal(block.at(-1), 1);
  return (user + system) / 1000;
}

/** Returns the limit of a turn: the memory counts twice, for rows that come and for chunks that are handed over. */
const mostMs = (freshMs: number): number => TURN_MS_MAX + 2 * freshMs;

/** Changes nearly all of each of 32 MiB of pages, so that each has to be laid over the page below. */
function largePatch(storage: PostgresStorage, value: number): void {
  const RUN = 4000;
  for (let page = 0; page < PAGES; page++) {
    const entry = Buffer.alloc(10 + RUN, value);
    entry.writeUInt32LE(page, 0);
    entry.writeUInt16LE(1, 4);
    entry.writeUInt16LE(0, 6);
    entry.writeUInt16LE(RUN, 8);
    storage.unit.patch('heap', ID, 1, entry);
  }
  storage.markDirty();
}

/** Measures the longest turn of the event loop until `end`. */
function turns(): { readonly end: () => number } {
  let longestMs = 0;
  let isOver = false;
  let start = process.threadCpuUsage();
  const look = (): void => {
    const { user, system } = process.threadCpuUsage(start);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    start = process.threadCpuUsage();
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  return {
    end: () => {
      isOver = true;
      return longestMs;
    },
  };
}

test('a unit of 32 MiB holds up nothing before it, and the main thread for no more than a turn', async (t) => {
  const namespace = `large-${++namespaces}`;
  // With this limit, everything stays in layers.
  let storage = await open(namespace, 2 ** 30);
  t.after(() => storage.close());
  const commit = (key: string): number => {
    const { current } = storage;
    storage.unit.put('queue', Buffer.from(key), Buffer.from(key));
    storage.markDirty();
    return current;
  };
  const durableAt = new Map<number, number>();
  const watched = (unit: number): void => storage.whenDurable(unit, () => durableAt.set(unit, storage.durable));
  largePatch(storage, 1);
  await storage.settled();
  // The first of these is on its way when the others come.
  watched(commit('on its way'));
  await nextTurn();
  const earlier = commit('before');
  watched(earlier);
  await nextTurn();
  const large = storage.current;
  largePatch(storage, 2);
  watched(large);
  await nextTurn();
  const later = commit('after');
  watched(later);
  const measured = turns();
  await storage.settled();
  assert.deepEqual(
    [earlier, large, later].map((unit) => durableAt.get(unit)),
    [earlier, large, later],
    'each was told alone',
  );
  const pages = async (): Promise<readonly [pages: number, sum: number]> => {
    const { heap } = (await storage.canister(ID)).memory;
    const sum = heap.chunks.reduce((all, chunk) => all + (chunk[0] ?? 0) + (chunk.at(-4096) ?? 0), 0);
    return [heap.numbers.length, sum];
  };
  const expected = [PAGES, 2 * 2 * (PAGES / 1024)];
  assert.deepEqual(await pages(), expected);
  const live = measured.end();
  // One collection of garbage may come into any turn, and not into the same one three times.
  let recovered = Number.POSITIVE_INFINITY;
  let fresh = 0;
  for (let tries = 0; tries < 3; tries++) {
    storage.abandon();
    const recovering = turns();
    storage = await open(namespace, 2 ** 30);
    assert.deepEqual(await pages(), expected);
    recovered = Math.min(recovered, recovering.end());
    fresh = Math.max(fresh, freshMemoryMs());
    if (recovered < mostMs(fresh)) break;
  }
  t.diagnostic(
    `the longest turns: ${live.toFixed(1)} ms, and ${recovered.toFixed(1)} ms after a crash; the memory alone ${fresh.toFixed(1)} ms`,
  );
  const said = `${live} ms, ${recovered} ms; the memory alone ${fresh} ms`;
  assert.ok(live < mostMs(fresh) && recovered < mostMs(fresh), said);
});
