import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { all, bytes, describeTables, put, remove, write } from '../../../plugins/api/contracts/tables.ts';

describeTables('MemoryTables', () => Promise.resolve({ tables: new MemoryTables() }));

test('a copy has the same entries, and lives on its own', () => {
  const tables = new MemoryTables();
  write(tables, [put('meta', '01', 'aa'), put('blob', 'ff', 'bb')]);
  const copy = MemoryTables.copyOf(tables);
  write(tables, [put('meta', '01', 'cc')]);
  write(copy, [put('meta', '02', 'dd')]);
  assert.deepEqual(all(tables, 'meta'), [['01', 'cc']]);
  assert.deepEqual(all(copy, 'meta'), [
    ['01', 'aa'],
    ['02', 'dd'],
  ]);
  assert.deepEqual(all(copy, 'blob'), [['ff', 'bb']]);
});

test('they count the bytes of keys and values', () => {
  const tables = new MemoryTables();
  assert.equal(tables.bytes, 0);
  write(tables, [put('meta', '0102', 'aabbcc'), put('heap', '01', '')]);
  assert.equal(tables.bytes, 6);
  using snapshot = tables.snapshot();
  write(tables, [put('meta', '0102', 'aa'), remove('heap', '01'), remove('heap', '02')]);
  assert.equal(tables.bytes, 3);
  assert.equal(snapshot.get('meta', bytes('0102'))?.length, 3);
});
