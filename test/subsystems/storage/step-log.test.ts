import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import type { Random } from '../../../kernel/index.ts';
import type { Disk } from '../../../subsystems/storage/disk.ts';
import { FileDisk } from '../../../subsystems/storage/file-disk.ts';
import { FILL_BYTES } from '../../../subsystems/storage/segment-maker.ts';
import { StepLog, type StepLogOptions } from '../../../subsystems/storage/step-log.ts';
import { Crash, FaultyDisk } from '../../support/faulty-disk.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

const HEADER_BLOCK_BYTES = 4096;
const PART_HEADER_BYTES = 24;
/** Segments with room for 1 KiB. */
const segmentBytes = HEADER_BLOCK_BYTES + 1024;
const synced = { isSynced: true };

function saltsOf(random: Seeded): Random {
  return { bytes: (length) => Uint8Array.from({ length }, () => random.below(256)) };
}
const salts = saltsOf(seeded(1));

function bytesOf(random: Seeded, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => random.below(256));
}

interface Recovered {
  readonly log: StepLog;
  /** Number of the first unit. */
  readonly first: number;
  readonly units: readonly Uint8Array[];
}

/**
 * Windows smaller and larger than a part's header, than parts and than segments; used in turn, since the results do not
 * depend on them.
 */
const WINDOWS = [8, 64, 1000, 2 ** 20];
let recovered = 0;

function recover(disk: Disk, options: StepLogOptions = {}): Recovered {
  const windowBytes = WINDOWS[recovered++ % WINDOWS.length];
  const log = StepLog.open(disk, { segmentBytes, random: salts, ...(windowBytes && { windowBytes }), ...options });
  const units: Uint8Array[] = [];
  let first = 0;
  log.recover((unit, number) => {
    if (units.length === 0) first = number;
    assert.equal(number, first + units.length, 'units come in order, without gaps');
    units.push(Uint8Array.from(unit));
  });
  return { log, first, units };
}

const text = (unit: Uint8Array): string => Buffer.from(unit).toString('latin1');
const textsIn = (disk: Disk, options?: StepLogOptions): string[] => recover(disk, options).units.map(text);

/** Makes a log with these texts, each flushed by itself; the process was killed then. */
function diskWith(...units: readonly string[]): FaultyDisk {
  const disk = new FaultyDisk();
  const { log } = recover(disk);
  for (const unit of units) {
    log.append(Buffer.from(unit, 'latin1'));
    log.flush(synced);
  }
  return disk.killed();
}

/** Returns the place where the process put these bytes. */
function find(disk: FaultyDisk, bytes: string): { name: string; at: number } {
  for (const name of disk.list()) {
    const at = Buffer.from(disk.bytesOf(name)).indexOf(bytes, 0, 'latin1');
    if (at >= 0) return { name, at };
  }
  throw new Error(`no file has ${bytes}`);
}

function flip(disk: FaultyDisk, name: string, at: number, mask = 0xff): void {
  const bytes = disk.bytesOf(name);
  bytes[at] = (bytes[at] ?? 0) ^ mask;
}

describe('a step log that is not disturbed', () => {
  test('gives back in order what was flushed, with numbers from 1 on', () => {
    const disk = diskWith('a', '', 'b'.repeat(700), 'c');
    const { log, first, units } = recover(disk);
    assert.equal(first, 1);
    assert.deepEqual(units.map(text), ['a', '', 'b'.repeat(700), 'c']);
    assert.equal(log.last, 4);
    assert.equal(log.append(Buffer.from('d')), 5);
  });

  test('loses what was appended and not flushed', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    log.append(Buffer.from('kept'));
    log.flush(synced);
    log.append(Buffer.from('lost'));
    log.close();
    const { log: again, units } = recover(disk);
    assert.deepEqual(units.map(text), ['kept']);
    assert.equal(again.append(Buffer.from('other')), 2);
  });

  test('begins with the number that is asked for', () => {
    const { log } = recover(new FaultyDisk(), { firstUnit: 8 });
    assert.equal(log.last, 7);
    assert.equal(log.append(Buffer.from('x')), 8);
  });

  test('holds units that are larger than segments, and parts of several flushes', () => {
    const disk = new FaultyDisk();
    const random = seeded(5);
    const units = [1, 999, 1000, 1001, 5000, 0, 976, 12_345, 7].map((length) => bytesOf(random, length));
    const { log } = recover(disk);
    for (const [index, unit] of units.entries()) {
      log.append(unit);
      if (index % 2 === 1) log.flush(synced);
    }
    log.flush(synced);
    const sum = units.reduce((bytes, { length }) => bytes + length, 0);
    assert.ok(log.bytesWaiting > sum && log.bytesWaiting < sum * 1.2, String(log.bytesWaiting));
    const waiting = log.bytesWaiting;
    const { log: again, units: found } = recover(disk.killed());
    assert.deepEqual(found, units);
    assert.equal(again.bytesWaiting, waiting);
  });

  test('uses its three segments again and again', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    const names = disk.list().toSorted();
    assert.equal(names.length, 3);
    for (let turn = 1; turn <= 50; turn++) {
      log.append(Buffer.from(`turn ${turn}`));
      log.flush(synced);
      const mark = log.rotate();
      assert.equal(log.rotate(), mark, 'an empty segment is not left for another');
      log.append(Buffer.from(`after turn ${turn}`));
      log.flush(synced);
      log.release(mark);
      assert.deepEqual(disk.list().toSorted(), names);
    }
    const { first, units } = recover(disk.killed(), { firstUnit: 100 });
    assert.equal(first, 100);
    assert.deepEqual(units.map(text), ['after turn 50']);
  });

  test('makes more segments when none is free, and removes them when they are released', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    log.append(new Uint8Array(20_000));
    log.flush(synced);
    const files = disk.list().length;
    assert.ok(files > 15, String(files));
    const mark = log.rotate();
    log.append(Buffer.from('new'));
    assert.throws(() => log.release(mark + 1), /still being written/);
    const { log: second } = recover(disk.killed());
    const all = second.rotate();
    second.release(all);
    assert.equal(second.bytesWaiting, 0);
    assert.equal(second.append(Buffer.from('next')), 2);
    second.flush(synced);
    second.close();
  });

  test('the next segment is made ahead, in parts, when none is free', () => {
    const disk = new FaultyDisk();
    const bytes = 8 * FILL_BYTES;
    const { log } = recover(disk, { segmentBytes: bytes, segmentsKept: 1 });
    const made = (): number => disk.list().filter((name) => !name.endsWith('.new')).length;
    log.prepare();
    assert.equal(disk.list().length, 1, 'the present one is not half full');
    log.append(new Uint8Array(bytes / 2));
    log.flush(synced);
    for (let part = 0; part < 4; part++) {
      log.prepare();
      assert.equal(disk.list().length, 2);
      assert.equal(made(), 1);
    }
    log.prepare();
    assert.equal(made(), 2, 'finished after its last part');
    log.prepare();
    assert.equal(disk.list().length, 2, 'one that is free is enough');
    assert.equal(recover(disk.killed(), { segmentBytes: bytes }).units.length, 1);
  });

  test('a segment that is made ahead is finished by the flush that needs it, or removed at the next start', () => {
    const disk = new FaultyDisk();
    const bytes = 8 * FILL_BYTES;
    const { log } = recover(disk, { segmentBytes: bytes, segmentsKept: 1 });
    log.append(new Uint8Array(bytes / 2));
    log.flush(synced);
    log.prepare();
    const killed = disk.killed();
    recover(killed, { segmentBytes: bytes, segmentsKept: 1 });
    assert.ok(!killed.list().some((name) => name.endsWith('.new')));
    log.append(new Uint8Array(bytes));
    log.flush(synced);
    assert.ok(!disk.list().some((name) => name.endsWith('.new')));
    assert.deepEqual(
      recover(disk.killed(), { segmentBytes: bytes }).units.map(({ length }) => length),
      [bytes / 2, bytes],
    );
  });

  test('what is released never comes back; six files are left, and three at the next start', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    log.append(new Uint8Array(20_000));
    log.flush(synced);
    log.release(log.rotate());
    assert.equal(disk.list().length, 6);
    const next = disk.killed();
    recover(next, { firstUnit: 2 });
    assert.equal(next.list().length, 3);
    assert.equal(log.bytesWaiting, 0);
    assert.deepEqual(textsIn(disk.killed(), { firstUnit: 2 }), []);
    log.append(Buffer.from('second'));
    log.flush(synced);
    const { first, units } = recover(disk.killed(), { firstUnit: 2 });
    assert.deepEqual([first, ...units.map(text)], [2, 'second']);
  });

  test('starting and stopping without units takes no more segments', () => {
    const disk = diskWith('a');
    for (let start = 0; start < 10; start++) {
      const { log, units } = recover(disk);
      assert.deepEqual(units.map(text), ['a']);
      log.close();
    }
    assert.equal(disk.list().length, 3);
  });

  test('segments of another size are replaced when they are free', () => {
    const disk = diskWith('a');
    const { log, units } = recover(disk, { segmentBytes: 8192 });
    assert.deepEqual(units.map(text), ['a']);
    log.append(Buffer.alloc(4000, 'b'));
    log.flush(synced);
    log.close();
    const sizes = disk.list().map((name) => disk.bytesOf(name).length);
    assert.deepEqual(
      sizes.toSorted((a, b) => a - b),
      [segmentBytes, 8192, 8192],
    );
    assert.deepEqual(textsIn(disk), ['a', 'b'.repeat(4000)]);
  });

  test('a log that ends before the first unit that is needed gives back nothing and goes on there', () => {
    const disk = diskWith('a', 'b');
    const { log, units } = recover(disk, { firstUnit: 4 });
    assert.deepEqual(units, []);
    assert.equal(log.append(Buffer.from('d')), 4);
    log.flush(synced);
    const again = recover(disk.killed(), { firstUnit: 4 });
    assert.deepEqual([again.first, ...again.units.map(text)], [4, 'd']);
  });

  test('works on a real directory', (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'step-log-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const random = seeded(9);
    const units: Buffer[] = [];
    for (let start = 0; start < 4; start++) {
      const log = StepLog.open(new FileDisk(directory), { segmentBytes: 2 ** 16 });
      const found: Buffer[] = [];
      log.recover((unit) => found.push(Buffer.from(unit)));
      assert.deepEqual(found, units);
      for (const length of [0, 10, 100, 100_000, 5000]) {
        units.push(Buffer.from(bytesOf(random, length)));
        log.append(units.at(-1) ?? Buffer.alloc(0));
        log.flush({ isSynced: length !== 10 });
      }
      log.close();
    }
    const log = StepLog.open(new FileDisk(directory), { segmentBytes: 2 ** 16 });
    log.recover(() => {});
    log.release(log.rotate());
    log.close();
    const again = StepLog.open(new FileDisk(directory), { segmentBytes: 2 ** 16 });
    again.recover(() => {});
    assert.deepEqual(readdirSync(directory).length, 3);
    again.close();
  });

  test('a directory that is not there is named with the words of the system', () => {
    const directory = join(tmpdir(), 'step-log-of-nobody');
    assert.throws(() => recover(new FileDisk(directory)), {
      code: 'state-unwritable',
      message: /cannot list .*step-log-of-nobody: ENOENT/,
    });
  });
});

describe('a torn tail', () => {
  const kept = 'kept '.repeat(20);
  const torn = ['one '.repeat(10), 'two '.repeat(10), 'three '.repeat(10)];

  /** Makes a disk where `kept` was flushed, and `torn` was written and not flushed. */
  function tornDisk(): FaultyDisk {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    log.append(Buffer.from(kept));
    log.flush(synced);
    for (const unit of torn) log.append(Buffer.from(unit));
    log.flush({ isSynced: false });
    return disk.killed();
  }

  for (const [what, fill] of [
    ['zeros', 0],
    ['noise', 0xa5],
  ] as const) {
    test(`that is ${what} from any byte on ends the log before the torn unit, and the log goes on from there`, () => {
      const disk = tornDisk();
      const ends = [kept, ...torn].map((unit) => find(disk, unit).at + unit.length);
      const [begin = 0, , , end = 0] = ends;
      for (let cut = begin; cut <= end; cut++) {
        const copy = disk.killed();
        copy.bytesOf(find(disk, kept).name).fill(fill, cut);
        const whole = [kept, ...torn].filter((_, index) => (ends[index] ?? 0) <= cut);
        const { log, units } = recover(copy);
        assert.deepEqual(units.map(text), whole, `cut at ${cut}`);
        assert.equal(log.append(Buffer.from('next')), whole.length + 1);
        log.flush(synced);
        assert.deepEqual(textsIn(copy.killed()), [...whole, 'next'], `cut at ${cut}`);
      }
    });
  }

  test('does not come back when its number is used again, even if it can be read again', () => {
    const disk = tornDisk();
    const { name, at } = find(disk, torn[0] ?? '');
    flip(disk, name, at);
    const { log, units } = recover(disk);
    assert.deepEqual(units.map(text), [kept]);
    assert.equal(log.append(Buffer.from('other')), 2);
    log.flush(synced);
    const after = disk.killed();
    assert.deepEqual(textsIn(after.killed()), [kept, 'other']);
    flip(after, name, at);
    assert.deepEqual(textsIn(after), [kept, 'other']);
  });

  test('leaves nothing behind that continues what is written over it', () => {
    const disk = diskWith('kept');
    const { log } = recover(disk);
    for (const unit of ['aaaa', 'bbbb', 'cccc']) log.append(Buffer.from(unit));
    log.flush({ isSynced: false });
    const crashed = disk.killed();
    const { name, at } = find(crashed, 'aaaa');
    flip(crashed, name, at);
    // The same segment begins with the same number again, and the written part ends where `bbbb` begins.
    const { log: again, units } = recover(crashed);
    assert.deepEqual(units.map(text), ['kept']);
    again.append(Buffer.from('AAAA'));
    again.flush(synced);
    assert.equal(find(crashed, 'AAAA').name, find(crashed, 'bbbb').name);
    assert.deepEqual(textsIn(crashed.killed()), ['kept', 'AAAA']);
  });

  test('of a unit in several segments frees those segments', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    log.append(Buffer.from(kept));
    log.flush(synced);
    log.append(Buffer.from('begin '.repeat(400) + 'finally'));
    log.flush({ isSynced: false });
    const { name, at } = find(disk, 'finally');
    const crashed = disk.killed();
    flip(crashed, name, at);
    const { log: again, units } = recover(crashed);
    assert.deepEqual(units.map(text), [kept]);
    assert.equal(again.append(Buffer.from('other '.repeat(600))), 2);
    again.flush(synced);
    assert.deepEqual(textsIn(crashed.killed()), [kept, 'other '.repeat(600)]);
  });

  test('of writes that nobody waited for is no damage, even after later flushes of the same kind', () => {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    for (let unit = 1; unit <= 60; unit++) {
      log.append(Buffer.from(`unit ${unit} `.repeat(10)));
      log.flush({ isSynced: false });
    }
    const { name, at } = find(disk, 'unit 12 ');
    const crashed = disk.killed();
    flip(crashed, name, at);
    const { log: again } = recover(crashed);
    assert.equal(again.last, 11);
  });
});

describe('damage', () => {
  const units = [
    'first '.repeat(5),
    '',
    'third '.repeat(100),
    'fourth '.repeat(250),
    'fifth',
    'sixth',
    'seventh '.repeat(9),
  ];

  /** Flushes: 1 | 2 3 | 4 | 5 | 6 7; the fourth unit is in three segments. */
  function logged(isClosed: boolean): FaultyDisk {
    const disk = new FaultyDisk();
    const { log } = recover(disk);
    for (const [index, unit] of units.entries()) {
      log.append(Buffer.from(unit));
      if (index !== 1 && index !== 5) log.flush(synced);
    }
    if (isClosed) log.close();
    return disk.killed();
  }

  for (const isClosed of [true, false]) {
    const needed = isClosed ? units.length : 5;
    test(`to any byte of a log that was ${isClosed ? 'closed' : 'not closed'} is found, or does not matter`, () => {
      const disk = logged(isClosed);
      let refused = 0;
      let undisturbed = 0;
      for (const name of disk.list()) {
        const { length } = disk.bytesOf(name);
        for (let at = 0; at < length; at++) {
          // The rest of the header block is never read.
          if (at === 512) at = HEADER_BLOCK_BYTES;
          const copy = disk.killed();
          flip(copy, name, at, 1 << (at % 8));
          let found: string[];
          try {
            found = textsIn(copy);
          } catch (error) {
            assert.equal((error as { code?: string }).code, 'state-corrupt', `${name} ${at}: ${String(error)}`);
            assert.ok(String(error).includes(name), `${name} ${at}: ${String(error)}`);
            refused++;
            continue;
          }
          assert.ok(found.length >= needed, `${name} ${at}: ${found.length} units`);
          assert.deepEqual(found, units.slice(0, found.length));
          undisturbed += Number(found.length === units.length);
        }
      }
      const partBytes = units.slice(0, needed).reduce((sum, unit) => sum + PART_HEADER_BYTES + unit.length, 0);
      assert.ok(refused >= partBytes, `${refused} of at least ${partBytes}`);
      assert.ok(undisturbed > 0);
    });
  }

  test('names the file, the place and the unit', () => {
    const disk = logged(false);
    const { name, at } = find(disk, 'fifth');
    flip(disk, name, at);
    assert.throws(() => recover(disk), {
      code: 'state-corrupt',
      message: new RegExp(`${name} at byte ${at - PART_HEADER_BYTES}: unit 5 cannot be read`),
    });
  });

  test('of units that a start has served before is found, also those of the last flush', () => {
    const disk = diskWith('a', 'the last');
    recover(disk);
    const { name, at } = find(disk, 'the last');
    flip(disk, name, at);
    assert.throws(() => recover(disk.killed()), { code: 'state-corrupt', message: /unit 2 cannot be read/ });
  });

  test('zeros from any byte on are found, unless they reach to the end of the log', () => {
    const disk = logged(false);
    const newest = find(disk, 'seventh').name;
    for (const name of disk.list()) {
      for (let at = HEADER_BLOCK_BYTES; at < segmentBytes; at++) {
        const copy = disk.killed();
        copy.bytesOf(name).fill(0, at);
        const isChanged = !Buffer.from(disk.bytesOf(name)).equals(copy.bytesOf(name));
        if (isChanged && name !== newest) {
          assert.throws(() => recover(copy), { code: 'state-corrupt' }, `${name} ${at}`);
          continue;
        }
        // The newest flushes seem never to have happened: only a client that saw their answers knows better.
        const found = textsIn(copy);
        assert.ok(found.length >= (isChanged ? 3 : units.length), `${name} ${at}: ${found.length} units`);
        assert.deepEqual(found, units.slice(0, found.length));
      }
    }
  });

  test('zeros in front of durable units are found, however little is read at once', () => {
    const disk = diskWith('first', 'x'.repeat(200), 'third');
    const hole = find(disk, 'x'.repeat(200));
    disk.bytesOf(hole.name).fill(0, hole.at - PART_HEADER_BYTES, hole.at + 200);
    for (const windowBytes of WINDOWS) {
      const message = /unit 2 cannot be read/;
      assert.throws(() => recover(disk.killed(), { windowBytes }), { code: 'state-corrupt', message });
    }
  });

  test('a file that was cut off is refused', () => {
    const disk = logged(true);
    for (const name of disk.list()) {
      for (const length of [0, 100, 511, 512, 4096, 4200, segmentBytes - 1]) {
        const copy = disk.killed();
        copy.truncate(name, length);
        assert.throws(() => recover(copy), { code: 'state-corrupt', message: new RegExp(name) });
      }
    }
  });

  test('a segment that is missing between others is noticed', () => {
    const disk = logged(true);
    const has = (name: string, words: string): boolean => text(disk.bytesOf(name)).includes(words);
    const middle = disk.list().find((name) => has(name, 'fourth') && !has(name, 'third') && !has(name, 'fifth'));
    assert.ok(middle);
    disk.remove(middle);
    assert.throws(() => recover(disk), { code: 'state-corrupt', message: /a segment is missing between/ });
  });

  test('the oldest segment missing is noticed by who says what it needs', () => {
    const disk = logged(true);
    disk.remove(find(disk, 'first').name);
    assert.throws(() => recover(disk, { firstUnit: 1 }), {
      code: 'state-corrupt',
      message: /units 1 to \d are missing/,
    });
  });

  test('a foreign file and a newer format are refused by name', () => {
    const foreign = logged(true);
    const [name = ''] = foreign.list();
    foreign.bytesOf(name).fill(7);
    assert.throws(() => recover(foreign), { code: 'state-corrupt', message: new RegExp(`${name} is not a segment`) });

    const newer = logged(true);
    const header = Buffer.from(newer.bytesOf(name).buffer, newer.bytesOf(name).byteOffset, 512);
    header.writeUInt32LE(2, 8);
    header.writeUInt32LE(crc32(header.subarray(16), crc32(header.subarray(0, 12))), 12);
    assert.throws(() => recover(newer), { code: 'state-newer', message: /format 2, and this version reads format 1/ });
  });

  test('a damaged log changes nothing on the disk', () => {
    const disk = logged(true);
    flip(disk, find(disk, 'fifth').name, find(disk, 'fifth').at);
    const before = disk.list().map((name) => Buffer.from(disk.bytesOf(name)));
    assert.throws(() => recover(disk), { code: 'state-corrupt' });
    assert.deepEqual(
      disk.list().map((name) => Buffer.from(disk.bytesOf(name))),
      before,
    );
  });
});

describe('a disk that fails', () => {
  test('a failed sync is the end: nothing works afterwards, and what was flushed before is there', () => {
    let failures = 0;
    for (let failSyncAt = 1; failSyncAt <= 40; failSyncAt++) {
      const disk = new FaultyDisk();
      disk.arm({ failSyncAt });
      let log: StepLog | undefined;
      let flushed = 0;
      try {
        log = StepLog.open(disk, { segmentBytes, random: salts });
        log.recover(() => {});
        while (flushed < 20) {
          log.append(Buffer.alloc(300, flushed));
          log.flush(synced);
          flushed++;
        }
      } catch (error) {
        assert.match(String(error), /cannot sync segment-\d\.log(\.new)?: EIO/);
        failures++;
        for (const call of [
          () => log?.append(Buffer.from('x')),
          () => log?.flush(synced),
          () => log?.rotate(),
          () => log?.release(0),
          () => log?.recover(() => {}),
        ]) {
          assert.throws(call, Error);
        }
        assert.throws(() => log?.flush(synced), { code: 'state-unwritable', message: /stopped at an error.*EIO/ });
      }
      log?.close();
      for (let seed = 0; seed < 3; seed++) {
        const { units } = recover(disk.survivor(seeded(seed)));
        assert.ok(units.length >= flushed, `${units.length} of ${flushed}`);
        for (const [index, unit] of units.entries()) assert.deepEqual(Buffer.from(unit), Buffer.alloc(300, index));
      }
    }
    assert.ok(failures > 20, String(failures));
  });

  test('a full disk is named, ends the log, and loses nothing that was flushed', () => {
    for (let segments = 0; segments < 8; segments++) {
      const disk = new FaultyDisk();
      disk.arm({ freeBytes: segments * segmentBytes + 700 });
      let flushed = 0;
      const fill = (): void => {
        const { log } = recover(disk);
        for (; flushed < 100; flushed++) {
          log.append(Buffer.alloc(300, flushed));
          log.flush(synced);
        }
      };
      assert.throws(fill, {
        code: 'state-unwritable',
        message: /cannot write segment-\d\.log\.new: ENOSPC: no space left/,
      });
      assert.ok(flushed >= (segments - 2) * 2, String(flushed));
      const next = disk.survivor(seeded(segments));
      const { log, units } = recover(next);
      assert.ok(units.length >= flushed);
      assert.equal(next.list().filter((name) => name.endsWith('.new')).length, 0);
      log.append(Buffer.from('room again'));
      log.flush(synced);
      assert.equal(textsIn(next.killed()).at(-1), 'room again');
    }
  });
});

/** Requests to a log, and the content that it has to return after a crash. */
class Model {
  readonly #random: Seeded;
  /** All units, from the first on. */
  readonly #units: Buffer[] = [];
  #durable = 0;
  #written = 0;
  /** Number of units that are stored elsewhere. */
  #released = 0;
  #marks: { mark: number; last: number }[] = [];

  constructor(random: Seeded) {
    this.#random = random;
  }

  /** Recovers and checks; then does random operations until the disk crashes or `steps` are done. */
  run(disk: FaultyDisk, steps: number): void {
    const log = this.#recover(disk);
    for (let step = 0; step < steps; step++) this.#step(log);
    log.close();
    this.#durable = this.#written;
  }

  /** Returns the disk as the machine, or the process, left it. */
  crash(disk: FaultyDisk): FaultyDisk {
    if (this.#random.oneIn(3)) return disk.killed();
    this.#written = this.#durable;
    return disk.survivor(this.#random);
  }

  #recover(disk: FaultyDisk): StepLog {
    const log = StepLog.open(disk, { segmentBytes, random: saltsOf(this.#random), firstUnit: this.#released + 1 });
    let visited = 0;
    log.recover((unit, number) => {
      if (visited === 0) assert.ok(number <= this.#released + 1, `begins with ${number}, released ${this.#released}`);
      else assert.equal(number, visited + 1);
      visited = number;
      assert.ok(number <= this.#units.length, `unit ${number} was never appended`);
      assert.ok(this.#units[number - 1]?.equals(unit), `unit ${number} is another`);
      // A unit that was visited once must not be lost any more.
      this.#durable = Math.max(this.#durable, number);
    });
    assert.equal(log.last, visited === 0 ? this.#released : visited);
    assert.ok(log.last >= Math.max(this.#written, this.#durable, this.#released), `ends at ${log.last}`);
    this.#units.length = log.last;
    this.#written = this.#durable = log.last;
    this.#marks = [];
    return log;
  }

  #step(log: StepLog): void {
    const random = this.#random;
    switch (random.below(10)) {
      case 0:
        this.#marks.push({ mark: log.rotate(), last: log.last });
        break;
      case 1: {
        const [oldest] = this.#marks;
        if (oldest === undefined || oldest.last > this.#written) break;
        this.#marks.shift();
        this.#released = oldest.last;
        log.release(oldest.mark);
        break;
      }
      case 2:
      case 3:
      case 4:
        log.flush({ isSynced: false });
        this.#written = log.last;
        break;
      case 5:
      case 6:
        log.flush(synced);
        this.#written = this.#durable = log.last;
        break;
      default: {
        const unit = Buffer.from(bytesOf(random, random.below(random.oneIn(8) ? 6000 : 300)));
        this.#units.push(unit);
        assert.equal(log.append(unit), this.#units.length);
      }
    }
  }
}

describe('crashes', () => {
  test('at random points, again and again, lose nothing that was flushed and give back nothing else', () => {
    let crashes = 0;
    for (let seed = 0; seed < 300; seed++) {
      const random = seeded(seed);
      const model = new Model(random);
      let disk = new FaultyDisk();
      for (let round = 0; round < 6; round++) {
        disk.arm({ crashAt: 1 + random.below(120) });
        try {
          model.run(disk, 80);
        } catch (error) {
          if (!(error instanceof Crash))
            throw new Error(`seed ${seed}, round ${round}: ${String(error)}`, { cause: error });
          crashes++;
        }
        disk = model.crash(disk);
      }
    }
    assert.ok(crashes > 1000, String(crashes));
  });

  test('of a process in its first start, and of the machine in the second', () => {
    for (let crashAt = 1, isDone = false; !isDone; crashAt++) {
      const disk = new FaultyDisk();
      disk.arm({ crashAt });
      try {
        recover(disk);
        isDone = true;
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
      }
      const second = disk.killed();
      const { log } = recover(second);
      log.append(Buffer.from('durable'));
      log.flush(synced);
      for (let seed = 0; seed < 8; seed++) {
        assert.deepEqual(textsIn(second.survivor(seeded(seed))), ['durable'], `write point ${crashAt}, seed ${seed}`);
      }
    }
  });

  test('at every write point of one history', () => {
    for (let crashAt = 1, isDone = false; !isDone; crashAt++) {
      for (const seed of [1, 2, 3]) {
        const model = new Model(seeded(seed));
        const disk = new FaultyDisk();
        disk.arm({ crashAt });
        try {
          model.run(disk, 60);
          isDone = true;
        } catch (error) {
          if (!(error instanceof Crash)) throw error;
        }
        model.run(model.crash(disk), 30);
      }
      assert.ok(crashAt < 1000);
    }
  });
});

test('a unit in pieces lies in the log as if it were one, and comes back as one', () => {
  // Pieces lie on both sides of the size up to which they are copied together; segments end within some of them.
  const sizes = [0, 1, 7, 8, 9, 600, 65_535, 65_536, 65_537, 200_000] as const;
  for (let seed = 1; seed <= 40; seed++) {
    const random = seeded(seed);
    const options = { segmentBytes: HEADER_BLOCK_BYTES + 8 * (64 + random.below(30_000)), segmentsKept: 1 };
    const units = Array.from({ length: 1 + random.below(4) }, () =>
      Array.from({ length: random.below(6) }, () => Buffer.alloc(random.pick(sizes), random.below(256))),
    );
    const disks = [true, false].map((isInPieces) => {
      const disk = new FaultyDisk();
      const { log } = recover(disk, { ...options, random: saltsOf(seeded(seed)) });
      for (const [index, pieces] of units.entries()) {
        log.append(isInPieces ? pieces : Buffer.concat(pieces));
        if (index % 2 === 1) log.flush(synced);
      }
      log.flush(synced);
      return disk.killed();
    });
    const [inPieces, whole] = disks.map((disk) => disk.list().map((name) => [name, crc32(disk.bytesOf(name))]));
    assert.deepEqual(inPieces, whole, `seed ${seed}`);
    const found = recover(disks[0] ?? assert.fail(), options).units;
    assert.deepEqual(
      found.map(text),
      units.map((pieces) => text(Buffer.concat(pieces))),
    );
  }
});
