import assert from 'node:assert/strict';
import {
  FAMILIES,
  type Change,
  type Entry,
  type Family,
  type TableReader,
} from '../../../subsystems/storage/tables.ts';
import type { Tables } from '../../../subsystems/storage/tables.ts';
import { seeded } from './support/seeded.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeTables {
  readonly tables: Tables;
  /** Returns the same tables opened again after closing; missing if they do not outlive that. */
  readonly reopen?: () => Promise<Tables>;
}

/** Returns true for a deliberate error, not for a slip such as reading a property of undefined. */
const isRefusal = (error: unknown): boolean => error instanceof Error && !(error instanceof TypeError);

/**
 * Declares the suite that every implementation of Tables has to pass. `makeTables` returns empty ones; everything it
 * opens ends with the test.
 */
export function describeTables(
  name: string,
  makeTables: (t: SuiteContext) => Promise<MadeTables>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('keys come in the order of their bytes, shorter ones before what they begin', async (t) => {
      const { tables } = await makeTables(t);
      const ordered = ['', '00', '0000', '00ff', '01', '7f', '80', 'c3a9', 'ff', 'ff00', 'fffe', 'ffff', 'ffffff'];
      write(
        tables,
        ordered.toReversed().map((key) => put('heap', key, key)),
      );
      assert.deepEqual(
        all(tables, 'heap'),
        ordered.map((key) => [key, key]),
      );
    });

    test('a range has what is from its first key on and before its last', async (t) => {
      const { tables } = await makeTables(t);
      const keys = ['10', '1000', '11', '12', 'ff', 'ffff'];
      write(
        tables,
        keys.map((key) => put('queue', key, '01')),
      );
      const between = (from: string, to: string | undefined): readonly string[] =>
        pairs(tables.range('queue', bytes(from), to === undefined ? undefined : bytes(to))).map(([key]) => key);
      assert.deepEqual(between('10', '12'), ['10', '1000', '11']);
      assert.deepEqual(between('1000', '11'), ['1000']);
      assert.deepEqual(between('10000000', '13'), ['11', '12']);
      assert.deepEqual(between('11', undefined), ['11', '12', 'ff', 'ffff']);
      assert.deepEqual(between('ff', undefined), ['ff', 'ffff']);
      assert.deepEqual(between('ffff00', undefined), []);
      assert.deepEqual(between('11', '11'), []);
      assert.deepEqual(between('12', '10'), []);
      assert.deepEqual(between('10', ''), []);
      assert.deepEqual(between('', '10'), []);
    });

    test('families are apart from each other', async (t) => {
      const { tables } = await makeTables(t);
      write(
        tables,
        FAMILIES.map((family, index) => put(family, '01', hex(Uint8Array.of(index)))),
      );
      for (const [index, family] of FAMILIES.entries()) {
        assert.deepEqual(all(tables, family), [['01', hex(Uint8Array.of(index))]]);
      }
      write(tables, [remove('meta', '01')]);
      assert.equal(tables.get('meta', bytes('01')), undefined);
      assert.equal(hex(tables.get('heap', bytes('01'))), '01');
    });

    test('changes of one write apply in their order: the last one wins', async (t) => {
      const { tables } = await makeTables(t);
      write(tables, [
        put('meta', '01', 'aa'),
        put('meta', '01', 'bb'),
        put('meta', '02', 'aa'),
        remove('meta', '02'),
        remove('meta', '03'),
        put('meta', '03', 'cc'),
        remove('meta', '04'),
      ]);
      assert.deepEqual(all(tables, 'meta'), [
        ['01', 'bb'],
        ['03', 'cc'],
      ]);
    });

    test('what is deleted is gone, and may come again', async (t) => {
      const { tables } = await makeTables(t);
      write(tables, [put('log', '01', 'aa'), put('log', '02', 'bb')]);
      write(tables, [remove('log', '01')]);
      assert.equal(tables.get('log', bytes('01')), undefined);
      assert.deepEqual(all(tables, 'log'), [['02', 'bb']]);
      write(tables, [put('log', '01', 'cc')]);
      assert.deepEqual(all(tables, 'log'), [
        ['01', 'cc'],
        ['02', 'bb'],
      ]);
    });

    test('an empty value is a value, and a key may be empty', async (t) => {
      const { tables } = await makeTables(t);
      write(tables, [put('blob', '01', ''), put('blob', '', '')]);
      assert.equal(tables.get('blob', bytes('01'))?.length, 0);
      assert.equal(tables.get('blob', bytes(''))?.length, 0);
      assert.equal(tables.get('blob', bytes('02')), undefined);
      assert.deepEqual(all(tables, 'blob'), [
        ['', ''],
        ['01', ''],
      ]);
    });

    test('values of 1 MiB come back whole, alone, together and in a range', async (t) => {
      const { tables } = await makeTables(t);
      const random = seeded(7);
      const values = ['01', '02', '03'].map((key) => {
        const value = Uint8Array.from({ length: 1 << 20 }, () => random.below(256));
        return { family: 'module' as const, key: bytes(key), value };
      });
      write(tables, values);
      const keys = values.map(({ key }) => key);
      const expected = values.map(({ value }) => value);
      assert.ok(same(tables.getMany('module', keys), expected));
      assert.ok(
        same(
          [...tables.range('module', bytes(''), undefined)].map(([, value]) => value),
          expected,
        ),
      );
      assert.ok(same([tables.get('module', bytes('02'))], expected.slice(1, 2)));
      assert.ok(tables.bytes > 1 << 20);
    });

    test('many values come in the order that they are asked for', async (t) => {
      const { tables } = await makeTables(t);
      write(
        tables,
        Array.from({ length: 200 }, (_, index) => put('heap', hex(Uint8Array.of(index)), hex(Uint8Array.of(index)))),
      );
      const asked = ['c7', '00', 'c8', '05', '05', 'ff', '64'];
      const got = tables.getMany('heap', asked.map(bytes)).map((value) => value && hex(value));
      assert.deepEqual(got, ['c7', '00', undefined, '05', '05', undefined, '64']);
      assert.deepEqual(tables.getMany('heap', []), []);
    });

    test('a long range is complete, also if it is left early or read twice at a time', async (t) => {
      const { tables } = await makeTables(t);
      const entries = Array.from({ length: 5000 }, (_, index) => [number(index), number(index * 7)] as const);
      write(
        tables,
        entries.map(([key, value]) => put('stable', key, value)),
      );
      assert.deepEqual(all(tables, 'stable'), entries);
      for (const [key] of tables.range('stable', bytes(''), undefined)) {
        if (hex(key) === number(2000)) break;
      }
      using snapshot = tables.snapshot();
      for (const reader of [tables, snapshot]) {
        const other = reader.range('stable', bytes(number(1000)), undefined)[Symbol.iterator]();
        let count = 0;
        for (const [key] of reader.range('stable', bytes(''), bytes(number(3000)))) {
          assert.equal(hex(key), number(count));
          const next = other.next();
          if (next.done !== true) assert.equal(hex(next.value[0]), number(1000 + count));
          count++;
        }
        assert.equal(count, 3000);
      }
    });

    test('a range that is being read does not see what is written meanwhile', async (t) => {
      const { tables } = await makeTables(t);
      const keys = Array.from({ length: 3000 }, (_, index) => number(index));
      write(
        tables,
        keys.map((key) => put('queue', key, '00')),
      );
      const seen: string[] = [];
      for (const [key, value] of tables.range('queue', bytes(''), undefined)) {
        if (seen.length === 0) write(tables, [put('queue', 'ffff', '01'), remove('queue', number(2999))]);
        assert.equal(hex(value), '00');
        seen.push(hex(key));
      }
      assert.deepEqual(seen, keys);
    });

    test('a snapshot stays as it is, whatever is written or closed afterwards', async (t) => {
      const { tables } = await makeTables(t);
      const before = [put('meta', '01', 'aa'), put('meta', '02', 'bb'), put('heap', '05', 'cc')];
      write(tables, before);
      const readAll = (reader: TableReader): unknown => [
        ...FAMILIES.map((family) => all(reader, family)),
        pairs(reader.range('meta', bytes('02'), bytes('03'))),
        reader.get('meta', bytes('02')),
        reader.get('meta', bytes('0100')),
        reader.getMany('meta', [bytes('02'), bytes('09'), bytes('01')]),
      ];
      const expected = readAll(tables);
      const snapshot = tables.snapshot();
      write(tables, [remove('meta', '01'), put('meta', '02', 'dd'), put('meta', '09', 'ee'), put('heap', '04', 'ff')]);
      assert.deepEqual(readAll(snapshot), expected);
      {
        using later = tables.snapshot();
        assert.equal(hex(later.get('meta', bytes('02'))), 'dd');
        write(tables, [put('meta', '02', '77')]);
        assert.equal(hex(later.get('meta', bytes('02'))), 'dd');
      }
      assert.deepEqual(readAll(snapshot), expected);
      snapshot[Symbol.dispose]();
      snapshot[Symbol.dispose]();
      assert.throws(() => snapshot.get('meta', bytes('01')), isRefusal);
      assert.equal(hex(tables.get('meta', bytes('02'))), '77');
    });

    test('buffers that go in and come out are the own ones of whoever has them', async (t) => {
      const { tables } = await makeTables(t);
      const key = bytes('0102');
      const value = bytes('aabb');
      tables.write([{ family: 'meta', key, value }], { isSynced: false });
      key.fill(0);
      value.fill(0);
      using snapshot = tables.snapshot();
      const read = (): readonly Uint8Array[] =>
        [tables, snapshot].flatMap((reader) =>
          [
            reader.get('meta', bytes('0102')),
            ...reader.getMany('meta', [bytes('0102')]),
            ...[...reader.range('meta', bytes(''), undefined)].flat(),
          ].map((buffer) => buffer ?? new Uint8Array(0)),
        );
      for (const buffer of read()) {
        assert.equal(Object.getPrototypeOf(buffer), Uint8Array.prototype);
        // The buffer can be transferred to another thread without taking any other data along.
        assert.equal(buffer.buffer.byteLength, buffer.length);
        buffer.fill(0xee);
      }
      assert.deepEqual(read().map(hex), ['aabb', 'aabb', '0102', 'aabb', 'aabb', 'aabb', '0102', 'aabb']);
    });

    test('a part of a larger buffer is written and looked up as that part', async (t) => {
      const { tables } = await makeTables(t);
      const whole = bytes('000102030405060708');
      tables.write([{ family: 'meta', key: whole.subarray(2, 4), value: whole.subarray(4, 8) }], { isSynced: true });
      assert.deepEqual(all(tables, 'meta'), [['0203', '04050607']]);
      assert.equal(hex(tables.get('meta', whole.subarray(2, 4))), '04050607');
      assert.deepEqual(pairs(tables.range('meta', whole.subarray(2, 3), whole.subarray(3, 4))), [['0203', '04050607']]);
    });

    test('a write without changes is nothing but a sync', async (t) => {
      const { tables } = await makeTables(t);
      write(tables, [put('meta', '01', 'aa')]);
      tables.write([], { isSynced: true });
      tables.write([], { isSynced: false });
      for (const family of FAMILIES) assert.deepEqual(all(tables, family), family === 'meta' ? [['01', 'aa']] : []);
    });

    test('it behaves as a sorted list does, over many random writes', async (t) => {
      const { tables } = await makeTables(t);
      const random = seeded(2026);
      const model = new Map<string, string>();
      const key = (): string => hex(Uint8Array.from({ length: 1 + random.below(3) }, () => random.pick([0, 1, 255])));
      for (let round = 0; round < 100; round++) {
        const changes = Array.from({ length: random.below(8) }, () =>
          random.oneIn(3) ? remove('heap', key()) : put('heap', key(), number(random.below(1 << 30))),
        );
        for (const change of changes) {
          if (change.value === undefined) model.delete(hex(change.key));
          else model.set(hex(change.key), hex(change.value));
        }
        tables.write(changes, { isSynced: random.oneIn(10) });
        const [from, to] = [key(), random.oneIn(4) ? undefined : key()];
        const expected = [...model].toSorted(([a], [b]) => (a < b ? -1 : 1));
        assert.deepEqual(
          pairs(tables.range('heap', bytes(from), to === undefined ? undefined : bytes(to))),
          expected.filter(([each]) => each >= from && (to === undefined || each < to)),
        );
        const wanted = key();
        const value = tables.get('heap', bytes(wanted));
        assert.equal(value && hex(value), model.get(wanted));
      }
    });

    test('closed tables refuse, and may be closed twice', async (t) => {
      const { tables } = await makeTables(t);
      write(tables, [put('meta', '01', 'aa'), put('meta', '02', 'aa')]);
      const snapshot = tables.snapshot();
      const begun = tables.range('meta', bytes(''), undefined)[Symbol.iterator]();
      begun.next();
      await Promise.all([tables.close(), tables.close()]);
      assert.throws(() => tables.get('meta', bytes('01')), isRefusal);
      assert.throws(() => [...tables.range('meta', bytes('01'), undefined)], isRefusal);
      assert.throws(() => tables.write([], { isSynced: true }), isRefusal);
      assert.throws(() => tables.snapshot(), isRefusal);
      begun.return?.();
      snapshot[Symbol.dispose]();
    });

    test('what was written is there when the tables are opened again, if anything is', async (t) => {
      const { tables, reopen } = await makeTables(t);
      if (!reopen) {
        await tables.close();
        assert.throws(() => tables.get('meta', bytes('01')), isRefusal);
        return;
      }
      write(tables, [put('meta', '01', 'aa'), put('heap', 'ff', 'bb'), put('blob', '02', '')]);
      write(tables, [remove('heap', 'ff'), put('heap', 'fe', 'cc')]);
      await tables.close();
      const again = await reopen();
      assert.deepEqual(all(again, 'meta'), [['01', 'aa']]);
      assert.deepEqual(all(again, 'heap'), [['fe', 'cc']]);
      assert.deepEqual(all(again, 'blob'), [['02', '']]);
    });
  });
}

export function put(family: Family, key: string, value: string): Change {
  return { family, key: bytes(key), value: bytes(value) };
}

export function remove(family: Family, key: string): Change {
  return { family, key: bytes(key), value: undefined };
}

export function write(tables: Tables, changes: readonly Change[]): void {
  tables.write(changes, { isSynced: false });
}

/** Returns all entries of a family, as hex. */
export function all(reader: TableReader, family: Family): readonly (readonly [string, string])[] {
  return pairs(reader.range(family, new Uint8Array(0), undefined));
}

export function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

export function hex(value: Uint8Array | undefined): string {
  assert.ok(value, 'there is no value');
  return Buffer.from(value).toString('hex');
}

/** Returns a key of four bytes, as hex. */
export function number(value: number): string {
  return value.toString(16).padStart(8, '0');
}

function pairs(entries: Iterable<Entry>): readonly (readonly [string, string])[] {
  return Array.from(entries, ([key, value]) => [hex(key), hex(value)] as const);
}

/** Compares large buffers, whose bytes `deepEqual` would compare one by one. */
function same(actual: readonly (Uint8Array | undefined)[], expected: readonly Uint8Array[]): boolean {
  return (
    actual.length === expected.length &&
    expected.every((value, index) => Buffer.compare(value, actual[index] ?? new Uint8Array(0)) === 0)
  );
}
