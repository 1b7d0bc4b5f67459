/**
 * Pages of actors' memory come from PostgreSQL as bytes, by COPY; an engine that has no such COPY sends them as text,
 * as it sends everything else. Both are read here, over a proxy that turns COPY into a syntax error.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { after, before, suite, test, type TestContext } from 'node:test';
import type { PostgresStorage } from '../../plugins/storage-postgres/postgres-storage.ts';
import { familyNumber } from '../../plugins/storage-postgres/schema.ts';
import { CHUNK_PAGES, readPages } from '../../plugins/storage-postgres/page-query.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { fold, openStorage } from '../support/postgres-storage.ts';

const ID = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 3, 1, 1]);
/** A neighbour whose pages must not come along. */
const NEXT = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 3, 1, 2]);
const PAGE_BYTES = 4096;

let postgres: Postgres;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres[Symbol.asyncDispose]());

interface Engine {
  readonly url: string;
  /** Queries by COPY that were sent, without the question whether there is such a thing. */
  readonly copies: () => number;
}

/** Starts a proxy; `hasCopy` false: COPY becomes a word that the database does not know. */
async function startEngine(t: TestContext, hasCopy: boolean): Promise<Engine> {
  let copies = 0;
  const server = createServer((client) => {
    const upstream = connect(postgres.port, '127.0.0.1');
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.on('close', () => upstream.destroy());
    client.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1');
      if (text.includes('COPY (SELECT key')) copies++;
      upstream.write(hasCopy ? chunk : Buffer.from(text.replaceAll('COPY (', 'COPX ('), 'latin1'));
    });
    upstream.pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: postgres.url.replace(`:${postgres.port}/`, `:${port}/`), copies: () => copies };
}

/** Changes these pages of a memory as a message would. */
function writePages(
  storage: PostgresStorage,
  family: 'heap' | 'stable',
  id: Uint8Array,
  numbers: Iterable<number>,
): void {
  for (const number of numbers) {
    const entry = Buffer.alloc(10 + PAGE_BYTES, 1 + (number % 255));
    entry.writeUInt32LE(number, 0);
    entry.writeUInt16LE(1, 4);
    entry.writeUInt16LE(0, 6);
    entry.writeUInt16LE(PAGE_BYTES, 8);
    storage.unit.patch(family, id, 1, entry);
  }
  storage.markDirty();
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_none, number) => number);

/** Returns the pages of a memory: their numbers, and the first byte of each. */
async function pagesOf(storage: PostgresStorage, family: 'heap' | 'stable', id: Uint8Array): Promise<unknown> {
  const { numbers, chunks } = (await storage.canister(id)).memory[family];
  const bytes = Buffer.concat(chunks);
  assert.equal(bytes.length, numbers.length * PAGE_BYTES);
  return Array.from(numbers, (number, at) => {
    const page = bytes.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES);
    assert.ok(page.every((byte) => byte === page[0]));
    return [number, page[0]];
  });
}

const expectedOf = (numbers: readonly number[]): unknown => numbers.map((number) => [number, 1 + (number % 255)]);

suite('pages of memory', () => {
  for (const hasCopy of [true, false])
    test(`come ${hasCopy ? 'as bytes' : 'from an engine without COPY'}, whole and in order`, async (t) => {
      const engine = await startEngine(t, hasCopy);
      const { storage } = await openStorage(t, { url: engine.url, namespace: `copy-${hasCopy}`, leaseMs: 60_000 });
      // Either side of one answer and of two.
      const counts = [0, 1, CHUNK_PAGES - 1, CHUNK_PAGES, CHUNK_PAGES + 1, 2 * CHUNK_PAGES];
      for (const [at, count] of counts.entries()) {
        const id = Uint8Array.from([...ID.subarray(0, 7), at, 1, 1]);
        writePages(storage, 'heap', id, upTo(count));
        writePages(storage, 'stable', id, [0, 65_535, 2 ** 24, 2 ** 32 - 1]);
      }
      writePages(storage, 'heap', NEXT, [7]);
      await storage.settled();
      await fold(storage);
      const asked = engine.copies();
      for (const [at, count] of counts.entries()) {
        const id = Uint8Array.from([...ID.subarray(0, 7), at, 1, 1]);
        assert.deepEqual(await pagesOf(storage, 'heap', id), expectedOf(upTo(count)));
        assert.deepEqual(await pagesOf(storage, 'stable', id), expectedOf([0, 65_535, 2 ** 24, 2 ** 32 - 1]));
      }
      assert.deepEqual(await pagesOf(storage, 'heap', NEXT), expectedOf([7]));
      assert.equal(engine.copies() > asked, hasCopy);
    });

  test('are found by the index, whatever the namespace is called', async (t) => {
    for (const namespace of ["o'clock", 'back\\slash', 'plain']) {
      const { storage } = await openStorage(t, { url: postgres.url, namespace, leaseMs: 60_000 });
      writePages(storage, 'heap', ID, upTo(2 * CHUNK_PAGES));
      await storage.settled();
      await fold(storage);
      assert.deepEqual(await pagesOf(storage, 'heap', ID), expectedOf(upTo(2 * CHUNK_PAGES)), namespace);
      const range = { namespace, family: 'heap', from: ID, to: NEXT, after: undefined } as const;
      const plan = (await postgres.query(`EXPLAIN ${readPages(range)}`)).map((row) => row['QUERY PLAN']).join('\n');
      // Otherwise each answer would look at all pages of the memory.
      assert.match(plan, /Index Cond: \(\(namespace = /, plan);
      assert.doesNotMatch(plan, /Sort/, plan);
    }
  });

  test('that are no pages are damage, whichever way they come', async (t) => {
    for (const hasCopy of [true, false]) {
      const engine = await startEngine(t, hasCopy);
      const namespace = `damaged-${hasCopy}`;
      const { storage } = await openStorage(t, { url: engine.url, namespace, leaseMs: 60_000 });
      writePages(storage, 'heap', ID, upTo(3));
      await storage.settled();
      await fold(storage);
      const where = `namespace = '${namespace}' AND family = ${familyNumber('heap')}`;
      await postgres.query(`UPDATE svc_entries SET value = '\\x00' WHERE ${where}`);
      await assert.rejects(storage.canister(ID), { code: 'state-corrupt', message: /has 1 bytes instead of 4096/ });
    }
  });
});
