import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { all, bytes, describeTables, hex, put, write } from '../../../plugins/api/contracts/tables.ts';
import { Crash, FaultyTables, randomFaults, scriptedFaults } from '../../support/faulty-tables.ts';
import { seeded } from '../../support/seeded.ts';

describeTables('FaultyTables without a fault', () =>
  Promise.resolve({ tables: new FaultyTables(new MemoryTables(), seeded(1)) }),
);

const SYNCED = { isSynced: true };

test('a write that fails keeps nothing, and the next one goes on', () => {
  const tables = new FaultyTables(new MemoryTables(), seeded(1), scriptedFaults({ 2: 'fail' }));
  write(tables, [put('meta', '01', 'aa')]);
  assert.throws(() => write(tables, [put('meta', '02', 'bb'), put('heap', '02', 'bb')]), { code: 'state-unwritable' });
  tables.write([put('meta', '03', 'cc')], SYNCED);
  tables.crash();
  const survivors = tables.survivors();
  assert.deepEqual(all(survivors, 'meta'), [
    ['01', 'aa'],
    ['03', 'cc'],
  ]);
  assert.deepEqual(all(survivors, 'heap'), []);
});

test('a crash keeps what was synced and any first part of what came later, each write whole', () => {
  const lengths = new Set<number>();
  for (let seed = 1; seed <= 60; seed++) {
    const tables = new FaultyTables(new MemoryTables(), seeded(seed), scriptedFaults({ 6: 'crash' }));
    write(tables, [put('meta', '01', '01')]);
    tables.write([put('meta', '02', '02')], SYNCED);
    for (const key of ['03', '04', '05']) write(tables, [put('meta', key, key), put('heap', key, key)]);
    const last = [put('meta', '06', '06'), put('heap', '06', '06')];
    assert.throws(() => tables.write(last, { isSynced: seed % 2 === 0 }), Crash);
    const survivors = tables.survivors();
    const kept = all(survivors, 'meta').map(([key]) => key);
    assert.deepEqual(kept, ['01', '02', '03', '04', '05', '06'].slice(0, kept.length));
    assert.deepEqual(all(survivors, 'heap').length, kept.length - 2);
    lengths.add(kept.length);
  }
  assert.deepEqual(
    [...lengths].toSorted((a, b) => a - b),
    [2, 3, 4, 5, 6],
  );
});

test('after a crash everything throws, what was begun before as well, but the tables can be closed', async () => {
  const tables = new FaultyTables(new MemoryTables(), seeded(1));
  write(tables, [put('meta', '01', 'aa'), put('meta', '02', 'bb')]);
  const snapshot = tables.snapshot();
  const begun = tables.range('meta', bytes(''), undefined)[Symbol.iterator]();
  begun.next();
  assert.throws(() => tables.survivors(), /has not stopped/);
  const crash = tables.crash();
  for (const use of [
    () => tables.get('meta', bytes('01')),
    () => tables.getMany('meta', []),
    () => [...tables.range('meta', bytes(''), undefined)],
    () => tables.write([], SYNCED),
    () => tables.snapshot(),
    () => tables.bytes,
    () => snapshot.get('meta', bytes('01')),
    () => begun.next(),
  ]) {
    assert.throws(use, crash);
  }
  await tables.close();
});

test('what the tables have at the beginning is on the disk; the same seed gives the same faults', () => {
  const run = (seed: number): readonly string[] => {
    const inner = new MemoryTables();
    write(inner, [put('meta', 'ff', 'aa')]);
    const random = seeded(seed);
    const tables = new FaultyTables(inner, random, randomFaults(random, { failOneIn: 4, crashOneIn: 12 }));
    const story: string[] = [];
    for (let index = 0; !story.includes('Crash'); index++) {
      try {
        tables.write([put('meta', hex(Uint8Array.of(index)), 'bb')], { isSynced: index % 5 === 0 });
        story.push('written');
      } catch (error) {
        story.push((error as Error).name);
      }
    }
    const survivors = all(tables.survivors(), 'meta');
    assert.deepEqual(survivors.at(-1), ['ff', 'aa']);
    return [...story, ...survivors.map(([key]) => key)];
  };
  for (let seed = 1; seed < 10; seed++) assert.deepEqual(run(seed), run(seed));
  assert.ok([1, 2, 3].some((seed) => run(seed).includes('ServerError')));
});
