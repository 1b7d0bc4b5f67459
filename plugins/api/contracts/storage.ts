/** `svc/contracts/storage`: the suite that every storage that keeps its data has to pass. */
import assert from 'node:assert/strict';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import { BackupParser } from '../../../subsystems/storage/backup-parser.ts';
import { type Family, META, metaKey, type Storage, memoryId, logKey } from '../../../subsystems/storage/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';
import { type Seeded, seeded } from './support/seeded.ts';

export interface MadeStorage {
  /** An open, empty storage. It ends with the test. */
  readonly storage: Storage;
  /** Closes the storage in order, and opens the same state again. */
  readonly reopen: () => Promise<Storage>;
  /**
   * Opens the present state without closing anything, as after SIGKILL: a copy of the files, or another connection with
   * the one before cut.
   */
  readonly crash: () => Promise<Storage>;
}

const ALL = new Uint8Array(0);
/** More keys than fit into one answer. */
const MANY_KEYS = 5_000;
const ID = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 3, 1, 1]);
const OTHER_ID = Uint8Array.from([0, 0, 0, 0, 1, 0, 0, 4, 1, 1]);
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

export function describeStorage(
  name: string,
  make: (context: SuiteContext) => Promise<MadeStorage>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('it keeps what it is given, and begins with nothing', async (t) => {
      const { storage } = await make(t);
      assert.equal(storage.isKept, true);
      assert.ok(storage.current > storage.durable && storage.newest === storage.current - 1);
      // The storage has keys of its own in `meta`.
      for (const family of ['queue', 'log', 'module', 'blob'] as const)
        assert.deepEqual(await entries(storage, family), [], family);
      assert.equal(await storage.get('meta', bytes('i1')), undefined);
    });

    test('reads see every unit that was handed over before, durable or not', async (t) => {
      const { storage } = await make(t);
      put(storage, 'queue', 'a', 'one');
      const before = storage.get('queue', bytes('a'));
      put(storage, 'queue', 'b', 'two');
      const after = storage.range('queue', ALL);
      assert.equal(textOf(await before), 'one', 'what this turn has changed comes first');
      assert.deepEqual(
        (await after).map(([key]) => textOf(key)),
        ['a', 'b'],
      );
    });

    test('ranges and values are of one family and prefix, in the order of the keys’ bytes', async (t) => {
      const { storage } = await make(t);
      const keys = ['', '00', '0000', '00ff', '01', '7f', '80', 'ff', 'ff00', 'ffff'];
      for (const key of keys.toReversed()) putHex(storage, 'blob', key, key);
      putHex(storage, 'queue', '00aa', '');
      const found = async (prefix: string): Promise<string[]> =>
        (await storage.range('blob', Buffer.from(prefix, 'hex'))).map(([key]) => hexOf(key));
      assert.deepEqual(await found(''), keys);
      assert.deepEqual(await found('00'), ['00', '0000', '00ff']);
      assert.deepEqual(await found('ff'), ['ff', 'ff00', 'ffff']);
      assert.deepEqual(await found('02'), []);
      const { bytes: packed, ends } = await storage.values('blob', Buffer.from('00', 'hex'));
      assert.deepEqual([hexOf(packed), [...ends]], ['00000000ff', [1, 3, 5]]);
      assert.equal((await storage.values('blob', Buffer.from('02', 'hex'))).ends.length, 0);
    });

    test('keys come alone, all of a family, in the order of their bytes, some at a time', async (t) => {
      const { storage, reopen } = await make(t);
      assert.deepEqual(await keysOf(storage, 'module'), []);
      const key = (number: number): string => number.toString(16).padStart(8, '0');
      const numbers = Array.from({ length: MANY_KEYS }, (_, number) => number);
      for (const number of numbers.toReversed()) putHex(storage, 'module', key(number), '00');
      putHex(storage, 'blob', key(0), '00');
      // Large values, which are read in several pieces.
      const large = new Uint8Array(1_500_000).fill(7);
      const largeKeys = ['ff00', 'ff01', 'ff02', 'ff03', 'ff04', 'ff05', 'ff06', 'ff07'];
      for (const each of largeKeys) storage.unit.put('module', Buffer.from(each, 'hex'), large);
      const expected = [...numbers.map(key), ...largeKeys];
      assert.deepEqual(await keysOf(storage, 'module'), expected);
      await storage.settled();
      const again = await reopen();
      assert.deepEqual(await keysOf(again, 'module'), expected, 'in the tables, too');
      const gone = [key(0), key(5), key(MANY_KEYS - 1), 'ff03'];
      for (const each of gone) again.unit.delete('module', Buffer.from(each, 'hex'));
      putHex(again, 'module', `${key(7)}00`, '00');
      putHex(again, 'module', 'ffff', '00');
      const left = expected.filter((each) => !gone.includes(each));
      left.splice(left.indexOf(key(7)) + 1, 0, `${key(7)}00`);
      assert.deepEqual(await keysOf(again, 'module'), [...left, 'ffff'], 'what is newer counts');
      again.unit.clear('module', ALL);
      again.markDirty();
      assert.deepEqual(await keysOf(again, 'module'), []);
    });

    test('the last operation on a key counts, within a unit and between units', async (t) => {
      const { storage } = await make(t);
      for (const [key, value] of [
        ['a', '1'],
        ['b', '1'],
        ['ba', '1'],
        ['c', '1'],
      ] as const)
        put(storage, 'queue', key, value);
      storage.unit.put('queue', bytes('a'), bytes('2'));
      storage.unit.delete('queue', bytes('c'));
      storage.unit.clear('queue', bytes('b'));
      storage.unit.put('queue', bytes('ba'), bytes('3'));
      assert.deepEqual(await entries(storage, 'queue'), ['a=2', 'ba=3']);
      storage.unit.delete('queue', bytes('a'));
      storage.unit.delete('queue', bytes('never was'));
      storage.markDirty();
      await storage.settled();
      assert.deepEqual(await entries(storage, 'queue'), ['ba=3']);
      storage.unit.clear('queue', ALL);
      storage.markDirty();
      assert.deepEqual(await entries(storage, 'queue'), []);
    });

    test('a canister comes back as it was told: its memories by pages, its globals, its log in order', async (t) => {
      const { storage } = await make(t);
      patch(storage, 'heap', ID, [
        [0, 0, 'begin'],
        [0, 4000, 'end'],
        [7, 5, 'seven'],
      ]);
      patch(storage, 'stable', ID, [[70_000, 0, 'far']]);
      patch(storage, 'heap', OTHER_ID, [[0, 0, 'other']]);
      storage.unit.put('meta', metaKey(META.globals, ID), bytes('globals'));
      storage.unit.put('meta', metaKey(META.certifiedData, ID), bytes('certified'));
      for (const number of [300, 2, 1]) storage.unit.put('log', logKey(ID, number), bytes(`r${number}`));
      storage.unit.put('log', logKey(OTHER_ID, 1), bytes('not this'));
      storage.markDirty();
      await storage.settled();
      patch(storage, 'heap', ID, [[0, 2, 'GI']]);
      const canister = await storage.canister(ID);
      assert.deepEqual(
        pagesOf(canister.memory.heap),
        new Map([
          [0, page([0, 'beGIn'], [4000, 'end'])],
          [7, page([5, 'seven'])],
        ]),
      );
      assert.deepEqual(pagesOf(canister.memory.stable), new Map([[70_000, page([0, 'far'])]]));
      assert.deepEqual(
        [textOf(canister.globals), textOf(canister.certifiedData), canister.checkpoint, canister.copy],
        ['globals', 'certified', undefined, 0],
      );
      assert.deepEqual([textOf(canister.records.bytes), [...canister.records.ends]], ['r1r2r300', [2, 4, 8]]);
      const none = await storage.canister(Uint8Array.from([...ID.subarray(0, 7), 9, 1, 1]));
      assert.deepEqual([none.memory.heap.numbers.length, none.globals, none.records.ends.length], [0, undefined, 0]);
    });

    test('the copy of a canister’s memory that counts is the one that it names', async (t) => {
      const { storage } = await make(t);
      patch(storage, 'heap', ID, [[0, 0, 'old']]);
      patch(storage, 'heap', memoryId(ID, 1), [[0, 0, 'new']]);
      storage.unit.put('meta', metaKey(META.copy, ID), Uint8Array.of(1));
      storage.unit.put('meta', metaKey(META.checkpoint, ID), bytes('header'));
      storage.markDirty();
      const { copy, memory, checkpoint } = await storage.canister(ID);
      assert.deepEqual([copy, textOf(checkpoint)], [1, 'header']);
      assert.deepEqual(pagesOf(memory.heap), new Map([[0, page([0, 'new'])]]));
      storage.unit.clear('heap', ID);
      storage.markDirty();
      assert.equal((await storage.canister(ID)).memory.heap.numbers.length, 1, 'the other copy is apart');
    });

    test('more pages and larger values than any buffer between come back whole', async (t) => {
      const { storage } = await make(t);
      const many = Array.from({ length: 3_000 }, (_, number): Run => [number * 2, 8, `page ${number}`]);
      patch(storage, 'heap', ID, many);
      const large = new Uint8Array(9 * 2 ** 20).map((_, at) => at >>> 8);
      storage.unit.put('module', bytes('hash'), large);
      storage.markDirty();
      const { memory } = await storage.canister(ID);
      assert.deepEqual(
        [...memory.heap.numbers],
        many.map(([number]) => number),
      );
      const pages = pagesOf(memory.heap);
      for (const [number, offset, text] of many)
        assert.equal(Buffer.compare(pages.get(number) ?? ALL, page([offset, text])), 0, `page ${number}`);
      assert.equal(Buffer.compare((await storage.get('module', bytes('hash'))) ?? ALL, large), 0);
    });

    test('what was closed in order is there when it is opened again, and units go on', async (t) => {
      const { storage, reopen } = await make(t);
      storage.onSeal((unit) => unit.put('queue', bytes('last'), bytes('words')));
      put(storage, 'queue', 'a', '1');
      patch(storage, 'heap', ID, [[3, 0, 'three']]);
      const { current } = storage;
      const again = await reopen();
      assert.ok(again.durable >= current && again.current === again.durable + 1);
      assert.deepEqual(await entries(again, 'queue'), ['a=1', 'last=words'], 'with what nobody was in a hurry about');
      assert.deepEqual(pagesOf((await again.canister(ID)).memory.heap), new Map([[3, page([0, 'three'])]]));
      put(again, 'queue', 'b', '2');
      await again.settled();
      assert.deepEqual(await entries(again, 'queue'), ['a=1', 'b=2', 'last=words']);
    });

    test('after a crash there is what was told as durable, and whole units in their order', async (t) => {
      const { storage, crash } = await make(t);
      let told = 0;
      for (let number = 1; number <= 40; number++) {
        put(storage, 'queue', 'count', String(number));
        put(storage, 'blob', `n${String(number).padStart(3, '0')}`, String(number));
        storage.whenDurable(storage.current, () => (told = number));
        if (number % 10 === 0) await storage.settled();
        else await new Promise((resolve) => setImmediate(resolve));
      }
      put(storage, 'queue', 'count', '41');
      put(storage, 'blob', 'n041', '41');
      const again = await crash();
      const count = Number(textOf(await again.get('queue', bytes('count'))));
      assert.ok(told >= 40 && count >= told, `${count} of ${told} that were told`);
      assert.equal((await again.range('blob', ALL)).length, count, 'a unit is there wholly or not at all');
      put(again, 'queue', 'count', 'on');
      await again.settled();
    });

    test('a backup is everything as of one moment, whatever is changed while it is read', async (t) => {
      const { storage } = await make(t);
      for (let number = 0; number < 300; number++)
        put(storage, 'blob', `k${String(number).padStart(4, '0')}`, `${number}`.repeat(2_000));
      patch(storage, 'heap', ID, [[1, 0, 'one']]);
      const expected = await entries(storage, 'blob');
      const pieces: Uint8Array[] = [];
      for await (const piece of storage.backup()) {
        pieces.push(piece.slice());
        put(storage, 'blob', 'k0001', `changed ${pieces.length}`);
        put(storage, 'blob', `new ${pieces.length}`, '');
        await storage.settled();
      }
      const found = await parsed(pieces);
      assert.deepEqual(found.get('blob'), expected);
      assert.equal(found.get('heap')?.length, 1);
      assert.notDeepEqual(await entries(storage, 'blob'), expected);
      for await (const piece of storage.backup()) {
        assert.ok(piece.length > 0);
        break;
      }
      put(storage, 'queue', 'goes', 'on');
      await storage.settled();
    });

    test('its figures count units, commits and bytes', async (t) => {
      const { storage } = await make(t);
      const before = await storage.figures();
      for (let number = 0; number < 5; number++) {
        put(storage, 'blob', `k${number}`, 'x'.repeat(20_000));
        await storage.settled();
      }
      const after = await storage.figures();
      assert.equal(after.unitsCommitted - before.unitsCommitted, 5);
      assert.ok(after.commitBytes - before.commitBytes >= 100_000);
      assert.ok(
        values(after.commitUnits) > values(before.commitUnits) &&
          values(after.commitSeconds) > values(before.commitSeconds),
      );
      assert.ok(after.stateBytes >= 0 && after.logBytes >= 0);
    });

    test('it agrees with a plain map over seeded operations, reopened in between', async (t) => {
      const made = await make(t);
      let { storage } = made;
      const chance = seeded(14);
      const model = new Map<string, string>();
      for (let round = 0; round < 60; round++) {
        for (let operations = chance.below(20); operations >= 0; operations--) change(storage, model, chance);
        storage.markDirty();
        if (chance.oneIn(4)) await storage.settled();
        if (round === 30) storage = await made.reopen();
      }
      const expected = [...model].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${key}=${value}`);
      assert.deepEqual(await entries(storage, 'blob'), expected);
    });
  });
}

const values = ({ counts }: { readonly counts: readonly number[] }): number =>
  counts.reduce((sum, count) => sum + count, 0);

type Run = readonly [page: number, offset: number, text: string];

function put(storage: Storage, family: Family, key: string, value: string): void {
  storage.unit.put(family, bytes(key), bytes(value));
  storage.markDirty();
}

function putHex(storage: Storage, family: Family, key: string, value: string): void {
  storage.unit.put(family, Buffer.from(key, 'hex'), Buffer.from(value, 'hex'));
  storage.markDirty();
}

function change({ unit }: Storage, model: Map<string, string>, chance: Seeded): void {
  const key = Array.from({ length: 1 + chance.below(3) }, () => chance.pick(['a', 'b', 'c'])).join('');
  if (chance.oneIn(6)) {
    unit.clear('blob', bytes(key));
    for (const each of model.keys()) if (each.startsWith(key)) model.delete(each);
  } else if (chance.oneIn(4)) {
    unit.delete('blob', bytes(key));
    model.delete(key);
  } else {
    const value = String(chance.below(1_000_000));
    unit.put('blob', bytes(key), bytes(value));
    model.set(key, value);
  }
}

/** Puts page entries as executors write them: page number, one run, its offset and bytes. */
function patch(storage: Storage, family: 'heap' | 'stable', id: Uint8Array, runs: readonly Run[]): void {
  for (let from = 0; from < runs.length; from += 1000) {
    const some = runs.slice(from, from + 1000);
    const body = some.map(([number, offset, text]) => {
      const head = Buffer.alloc(10);
      head.writeUInt32LE(number, 0);
      head.writeUInt16LE(1, 4);
      head.writeUInt16LE(offset, 6);
      head.writeUInt16LE(text.length, 8);
      return Buffer.concat([head, bytes(text)]);
    });
    storage.unit.patch(family, id, some.length, Buffer.concat(body));
  }
  storage.markDirty();
}

function page(...runs: readonly (readonly [offset: number, text: string])[]): Uint8Array {
  const whole = new Uint8Array(PAGE_BYTES);
  for (const [offset, text] of runs) whole.set(bytes(text), offset);
  return whole;
}

function pagesOf({
  numbers,
  chunks,
}: {
  readonly numbers: Uint32Array;
  readonly chunks: readonly Uint8Array[];
}): Map<number, Uint8Array> {
  const whole = Buffer.concat(chunks);
  return new Map(
    [...numbers].map((number, at) => [number, new Uint8Array(whole.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES))]),
  );
}

async function keysOf(storage: Storage, family: Family): Promise<string[]> {
  const found: string[] = [];
  for await (const keys of storage.keys(family)) found.push(...keys.map(hexOf));
  return found;
}

async function entries(storage: Storage, family: Family): Promise<string[]> {
  return (await storage.range(family, ALL)).map(([key, value]) => `${textOf(key)}=${textOf(value)}`);
}

async function parsed(pieces: readonly Uint8Array[]): Promise<Map<Family, string[]>> {
  const whole = Buffer.concat(pieces);
  let at = 0;
  const take = (length: number): Promise<Uint8Array> => Promise.resolve(whole.subarray(at, (at += length)));
  const found = new Map<Family, string[]>();
  for await (const batch of new BackupParser({ name: 'the backup', take }).changes()) {
    for (const { family, key, value } of batch)
      found.set(family, [...(found.get(family) ?? []), `${textOf(key)}=${textOf(value)}`]);
  }
  return found;
}

function textOf(value: Uint8Array | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value).toString();
}

function hexOf(value: Uint8Array): string {
  return Buffer.from(value).toString('hex');
}
