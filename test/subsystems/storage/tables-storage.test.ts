import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { describeCommitQueue } from '../../../plugins/api/contracts/commit-queue.ts';
import { describeStorage } from '../../../plugins/api/contracts/storage.ts';
import type { ServerError } from '../../../kernel/index.ts';
import type { BackupFile } from '../../../subsystems/storage/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { TablesStorage } from '../../../subsystems/storage/tables-storage.ts';
import type { Change } from '../../../subsystems/storage/tables.ts';
import { failuresOf } from '../../support/failing-suite.ts';

/** Tables that outlive the storage that closes them. */
class KeptTables extends MemoryTables {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Tables that lose logs. */
class ForgetfulTables extends KeptTables {
  override write(changes: readonly Change[], options: { readonly isSynced: boolean }): void {
    super.write(
      changes.filter(({ family }) => family !== 'log'),
      options,
    );
  }
}

async function opened(tables: MemoryTables): Promise<TablesStorage> {
  const storage = new TablesStorage({ openTables: () => tables, onFailure: (error) => assert.ifError(error) });
  await storage.open();
  return storage;
}

async function made(tables: MemoryTables) {
  let storage = await opened(tables);
  return {
    storage,
    reopen: async () => {
      await storage.close();
      return (storage = await opened(tables));
    },
    crash: () => opened(MemoryTables.copyOf(tables)),
  };
}

describeStorage('TablesStorage', () => made(new KeptTables()));

describeCommitQueue('TablesStorage as a queue', async (t) => {
  const queue = await opened(new MemoryTables());
  t.after(() => queue.close());
  return {
    queue,
    endTurn: () => setImmediate(),
    catchUp: () => queue.settled(),
    stored: async () =>
      new Map(
        (await queue.range('queue', new Uint8Array())).map(([key, value]) => [Buffer.from(key).toString(), value]),
      ),
  };
});

test('tables that lose something do not pass', async () => {
  const failures = await failuresOf((runner) => describeStorage('', () => made(new ForgetfulTables()), runner));
  assert.deepEqual(failures.slice(0, 1), [
    'a canister comes back as it was told: its memories by pages, its globals, its log in order',
  ]);
});

const blob = (key: string): Change => ({ family: 'blob', key: Buffer.from(key), value: Buffer.from(`of ${key}`) });

function backupOf(...batches: (Change[] | Error)[]): BackupFile {
  return {
    path: 'saved',
    entries: 3,
    bytes: 300,
    async *changes() {
      for (const batch of batches) {
        await Promise.resolve();
        if (batch instanceof Error) throw batch;
        yield batch;
      }
    },
  };
}

/** Makes a page entry with a run of one byte, 1. */
function oneByte(page: number, offset: number): Uint8Array {
  const entry = Buffer.alloc(11, 1);
  entry.writeUInt32LE(page, 0);
  for (const [at, value] of [1, offset, 1].entries()) entry.writeUInt16LE(value, 4 + 2 * at);
  return entry;
}

const restoring = (tables: MemoryTables): TablesStorage => new TablesStorage({ openTables: () => tables });

test('a backup is restored into tables that are empty, and into no others', async () => {
  const tables = new KeptTables();
  const storage = restoring(tables);
  assert.deepEqual(await storage.restore(backupOf([blob('a')], [blob('b')])), { entries: 3, bytes: 300 });
  await storage.open();
  assert.deepEqual(
    (await storage.range('blob', new Uint8Array())).map(([key]) => Buffer.from(key).toString()),
    ['a', 'b'],
  );
  await storage.close();
  await assert.rejects(restoring(tables).restore(backupOf([blob('c')])), { code: 'restore-not-empty' });
});

test('what a restore that broke off has left is no state, and the next one takes it away', async () => {
  const tables = new KeptTables();
  await assert.rejects(restoring(tables).restore(backupOf([blob('a')], new Error('it ends here'))), /it ends here/);
  await assert.rejects(opened(tables), { code: 'state-corrupt' });
  await restoring(tables).restore(backupOf([blob('b')]));
  const storage = await opened(tables);
  assert.equal(await storage.get('blob', Buffer.from('a')), undefined);
  assert.equal(Buffer.from((await storage.get('blob', Buffer.from('b'))) ?? []).toString(), 'of b');
});

test('tables that cannot be opened or written are told as such, and nothing is told as durable', async () => {
  const away = new TablesStorage({
    openTables: () => {
      throw new Error('no such volume');
    },
  });
  await assert.rejects(away.open(), { code: 'state-unwritable', message: 'the store has failed: no such volume' });
  class FullTables extends KeptTables {
    override write(): void {
      throw new Error('no room');
    }
  }
  const failed = Promise.withResolvers<ServerError>();
  const full = new TablesStorage({ openTables: () => new FullTables(), onFailure: failed.resolve });
  await full.open();
  full.unit.put('blob', Buffer.from('a'), new Uint8Array(1));
  full.markDirty();
  full.whenDurable(full.current, () => assert.fail('it is not'));
  assert.equal((await failed.promise).message, 'the store has failed: no room');
});

test('pages are patched over what a unit, the tables or nobody has put there', async () => {
  const tables = new KeptTables();
  const storage = await opened(tables);
  const id = Uint8Array.of(0, 0, 0, 0, 1, 0, 0, 3, 1, 1);
  const patched = async (offset: number): Promise<readonly number[]> => {
    storage.unit.patch('heap', id, 1, oneByte(5, offset));
    storage.markDirty();
    const { heap } = (await storage.canister(id)).memory;
    return [...(heap.chunks[0] ?? [])].flatMap((byte, at) => (byte === 0 ? [] : [at]));
  };
  assert.deepEqual(await patched(7), [7]);
  assert.deepEqual(await patched(9), [7, 9]);
  storage.unit.clear('heap', id);
  assert.deepEqual(await patched(2), [2]);
});
