import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openTables, type TablesKind } from '../../../subsystems/storage/open-tables.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { SqliteTables } from '../../../subsystems/storage/sqlite-tables.ts';
import { killed, runStateProcess } from '../../support/state-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const KINDS = [
  { kind: 'rocksdb', other: 'sqlite', type: RocksdbTables, name: 'RocksDB' },
  { kind: 'sqlite', other: 'rocksdb', type: SqliteTables, name: 'SQLite' },
] as const;
/** Has the binding of RocksDB look for a binary for another processor. */
const HIDDEN = { npm_config_arch: 'riscv64' };

async function make(kind: TablesKind | undefined): Promise<string> {
  const directory = await temporaryDirectory();
  const { tables } = await openTables(directory, kind);
  await tables.close();
  return directory;
}

for (const { kind, other, type, name } of KINDS) {
  test(`tables in ${name} are opened as such, and not by the other one`, async () => {
    const directory = await make(kind);
    for (const wanted of [undefined, kind]) {
      const { tables, note } = await openTables(directory, wanted);
      assert.ok(tables instanceof type);
      assert.equal(note, undefined);
      await tables.close();
    }
    const before = readdirSync(directory);
    await assert.rejects(openTables(directory, other), {
      code: 'state-other-tables',
      message: new RegExp(`is kept in ${name}, and --tables ${other} .*GET /backup.*--restore`),
    });
    assert.deepEqual(readdirSync(directory), before);
  });
}

test('new tables are in RocksDB where it can be loaded', async () => {
  const { tables, note } = await openTables(await make(undefined), undefined);
  assert.ok(tables instanceof RocksdbTables);
  assert.equal(note, undefined);
  await tables.close();
});

test('where RocksDB cannot be loaded new tables are in SQLite, and those in RocksDB are refused with the way', async (t) => {
  const directory = await temporaryDirectory();
  const { child, said } = await runStateProcess(t, 'write', directory, { env: HIDDEN });
  assert.equal(said, 'ready');
  await killed(child);
  // Where RocksDB can be loaded again, the directory stays what it is.
  const { tables } = await openTables(directory, undefined);
  assert.ok(tables instanceof SqliteTables);
  assert.equal([...tables.range('queue', new Uint8Array(0), undefined)].length, 100);
  await tables.close();

  const kept = await runStateProcess(t, 'write', await make('rocksdb'), { env: HIDDEN });
  assert.match(kept.said, /^refused state-unsupported .*is kept in RocksDB, .*GET \/backup.*--restore/);
});

test('files of both are damage', async () => {
  const directory = await make('rocksdb');
  writeFileSync(join(directory, 'tables.sqlite'), '');
  await assert.rejects(openTables(directory, undefined), { code: 'state-corrupt', message: /RocksDB and of SQLite/ });
});
