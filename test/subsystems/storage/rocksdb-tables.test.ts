import assert from 'node:assert/strict';
import { createCipheriv, createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { SuiteContext } from '../../../plugins/api/contracts/runner.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import type { Change } from '../../../subsystems/storage/tables.ts';
import { all, bytes, describeTables, hex, number, put, write } from '../../../plugins/api/contracts/tables.ts';
import { seeded } from '../../support/seeded.ts';
import { killed, runStateProcess } from '../../support/state-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

async function open(t: SuiteContext, directory: string): Promise<RocksdbTables> {
  const tables = await RocksdbTables.open(directory);
  t.after(() => tables.close());
  return tables;
}

describeTables('RocksdbTables', async (t) => {
  const directory = join(await temporaryDirectory(), 'deep', 'tables');
  return { tables: await open(t, directory), reopen: () => open(t, directory) };
});

test('what was written without a sync is written out, while files of the log come and go', async (t) => {
  const tables = await open(t, await temporaryDirectory());
  // RocksDB begins another file of its log after two memtables, 8 MiB.
  const value = new Uint8Array(2 ** 20);
  const writing: Promise<void>[] = [];
  for (let n = 0; n < 36; n++) {
    tables.write([{ family: 'blob', key: bytes(number(n)), value }], { isSynced: false });
    if (n % 8 === 0) writing.push(tables.writeOut());
    if (n % 16 === 0) await Promise.all(writing.splice(0));
  }
  await Promise.all(writing);
  assert.equal([...tables.range('blob', new Uint8Array(0), undefined)].length, 36);
});

test('a log that cannot be written out is an error of the state', async (t) => {
  const directory = join(await temporaryDirectory(), 'tables');
  const tables = await open(t, directory);
  renameSync(directory, `${directory}-away`);
  await assert.rejects(tables.writeOut(), { code: 'state-unwritable' });
  renameSync(`${directory}-away`, directory);
});

const PAGES = 2000;

/** Bytes that do not compress: a stream cipher's. */
const NOISE = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(PAGES * 4096));

/** Makes closed tables with pages that do not compress, all of them in table files, none in RocksDB's log. */
async function filled(): Promise<string> {
  const directory = await temporaryDirectory();
  const tables = await RocksdbTables.open(directory);
  const pages = Array.from({ length: PAGES }, (_, index): Change => {
    return { family: 'heap', key: bytes(number(index)), value: NOISE.subarray(index * 4096, (index + 1) * 4096) };
  });
  write(tables, [...pages, put('meta', '01', 'aa')]);
  await tables.close();
  // RocksDB writes the content of its log to table files when it is opened.
  await (await RocksdbTables.open(directory)).close();
  return directory;
}

/** Returns the largest table file: the pages. */
function pagesFile(directory: string): string {
  const [largest] = readdirSync(directory)
    .filter((name) => name.endsWith('.sst'))
    .map((name) => ({ path: join(directory, name), length: readFileSync(join(directory, name)).length }))
    .toSorted((a, b) => b.length - a.length);
  assert.ok(largest && largest.length > 4 << 20, 'the pages are in a table file');
  return largest.path;
}

function flip(path: string, at: number): void {
  const content = readFileSync(path);
  content[at] = (content[at] ?? 0) ^ 1;
  writeFileSync(path, content);
}

function isDamage(error: unknown): error is ServerError {
  return error instanceof ServerError && error.code === 'state-corrupt';
}

test('a flipped byte in a table file is found by get, getMany, range and snapshot, which name family and key', async (t) => {
  const directory = await filled();
  flip(pagesFile(directory), 4 << 20);
  const tables = await open(t, directory);
  const keys = Array.from({ length: PAGES }, (_, index) => bytes(number(index)));
  const unreadable: string[] = [];
  for (const key of keys) {
    try {
      assert.equal(tables.get('heap', key)?.length, 4096);
    } catch (error) {
      assert.ok(isDamage(error));
      assert.ok(error.message.includes(`heap, key 0x${hex(key)}: `), error.message);
      assert.match(error.message, /checksum mismatch/);
      unreadable.push(hex(key));
    }
  }
  // One block is unreadable: a few neighbours.
  assert.ok(unreadable.length > 0 && unreadable.length < 10, `${unreadable.length} keys are unreadable`);
  const [first = ''] = unreadable;

  assert.throws(
    () => tables.getMany('heap', keys),
    (error) => isDamage(error) && error.message.includes(`heap, key 0x${first}: `),
  );
  using snapshot = tables.snapshot();
  for (const reader of [tables, snapshot]) {
    const read: string[] = [];
    assert.throws(
      () => {
        for (const [key] of reader.range('heap', bytes(''), undefined)) read.push(hex(key));
      },
      (error) => isDamage(error) && /: heap, key 0x[0-9a-f]+ or the one after it: /.test(error.message),
    );
    // Entries before the damage are read; the key in the message follows them.
    assert.deepEqual(
      read,
      keys.map(hex).filter((key) => key < first),
    );
  }
  assert.throws(
    () => [...tables.range('heap', bytes(first), undefined)],
    (error) => isDamage(error) && error.message.includes(`heap, key 0x${first} or `),
  );
  assert.throws(() => snapshot.get('heap', bytes(first)), isDamage);
  // The rest still works.
  assert.deepEqual(all(tables, 'meta'), [['01', 'aa']]);
  assert.equal(tables.get('heap', bytes(number(PAGES - 1)))?.length, 4096);
});

test('a flipped byte anywhere in a table file is found, or changes nothing', async () => {
  const directory = await filled();
  const path = pagesFile(directory);
  const intact = readFileSync(path);
  const random = seeded(11);
  // The end of the file has filter, index and footer.
  const places = [
    ...Array.from({ length: 6 }, () => random.below(intact.length)),
    ...Array.from({ length: 6 }, () => intact.length - 1 - random.below(20_000)),
    intact.length - 1,
  ];
  const read = async (): Promise<string> => {
    const tables = await RocksdbTables.open(directory);
    try {
      const digest = createHash('sha256');
      for (const [key, value] of tables.range('heap', bytes(''), undefined)) digest.update(key).update(value);
      return digest.digest('hex');
    } finally {
      await tables.close();
    }
  };
  const expected = await read();
  let found = 0;
  for (const place of places) {
    writeFileSync(path, intact);
    flip(path, place);
    try {
      assert.equal(await read(), expected);
    } catch (error) {
      assert.ok(isDamage(error), String(error));
      found++;
    }
  }
  assert.ok(found > places.length / 2, `${found} of ${places.length} were found`);
});

test('damage that opening meets is named by its file', async (t) => {
  const directory = await filled();
  const file = pagesFile(directory);
  const intact = readFileSync(file);
  truncateSync(file, intact.length - 100);
  await assert.rejects(
    RocksdbTables.open(directory),
    (error) => isDamage(error) && error.message.includes(basename(file)),
  );
  rmSync(file);
  await assert.rejects(
    RocksdbTables.open(directory),
    (error) => isDamage(error) && error.message.includes(basename(file)),
  );
  writeFileSync(file, intact);
  assert.equal(all(await open(t, directory), 'heap').length, PAGES);
});

test('tables without their file CURRENT are damaged, not new', async () => {
  const directory = await filled();
  rmSync(join(directory, 'CURRENT'));
  await assert.rejects(RocksdbTables.open(directory), (error) => isDamage(error) && error.message.includes('CURRENT'));
});

test('a synced write, and what was written before it, outlives SIGKILL', async (t) => {
  const directory = await temporaryDirectory();
  const { child, said } = await runStateProcess(t, 'write', directory);
  assert.equal(said, 'ready');
  await killed(child);
  const tables = await open(t, directory);
  assert.equal(all(tables, 'heap').length, 200);
  assert.equal(all(tables, 'queue').length, 100);
  assert.deepEqual(tables.get('queue', bytes('012b')), new Uint8Array(4096).fill(7));
});

test('a second process that opens the same tables is refused, and so is a second time in this one', async (t) => {
  const directory = await temporaryDirectory();
  await open(t, directory);
  const isLocked = /state-locked|is in use by another process/;
  assert.match(
    (await runStateProcess(t, 'write', directory)).said,
    /^refused state-locked .*in use by another process/,
  );
  await assert.rejects(RocksdbTables.open(directory), isLocked);
});

test('a disk that takes no more is told in the words of the system', async (t) => {
  const directory = await temporaryDirectory();
  // Files may grow to 1 MiB in that process.
  const { child, said } = await runStateProcess(t, 'fill', directory, { fileBlocksMax: 2048 });
  await killed(child);
  assert.match(said, /^refused state-unwritable .*File too large/);
  const tables = await open(t, directory);
  const { length } = all(tables, 'heap');
  assert.ok(length > 100 && length < 300, `${length} pages of 4 KiB were written`);
});

test('a directory that cannot be written, or is none, is told in the words of the system', async (t) => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'file'), '');
  await assert.rejects(RocksdbTables.open(join(directory, 'file')), { code: 'state-unwritable', message: /EEXIST/ });
  const tables = join(directory, 'tables');
  await mkdir(tables);
  await chmod(tables, 0o555);
  await chmod(directory, 0o755);
  // The superuser may write everywhere: so that process belongs to another user.
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const { said } = await runStateProcess(t, 'write', tables, user);
  assert.match(said, /^refused state-unwritable .*Permission denied/);
});

test('the size on disk is told', async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  const before = tables.bytes;
  write(tables, [{ family: 'blob', key: bytes('01'), value: new Uint8Array(3 << 20).fill(1) }]);
  assert.ok(tables.bytes - before > 3 << 20 && tables.bytes - before < 8 << 20, `${tables.bytes - before} more bytes`);
});

/** Returns the MiB of RocksDB's own log. */
function logMib(directory: string): number {
  const logs = readdirSync(directory).filter((name) => name.endsWith('.log'));
  // RocksDB removes files at any time.
  return (
    logs.reduce((sum, name) => sum + (statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0), 0) /
    2 ** 20
  );
}

/** Writes of 1 MiB each: without what keeps the log small, it would be larger than the test allows. */
const LARGE_WRITES = 130;

const seldom = (['meta', 'stable', 'log', 'queue', 'module', 'blob'] as const).map((family) => ({
  what: `two rows of ${family}`,
  changes: ['', '01'].map((key) => ({ family, key: bytes(key), value: bytes('aa') })),
}));

for (const { what, changes } of [...seldom, { what: 'an empty change', changes: [] }]) {
  test(`RocksDB's own log stays small behind ${what} and many pages, and so does what a start reads`, async (t) => {
    const directory = await temporaryDirectory();
    const tables = await open(t, directory);
    write(tables, changes);
    let most = 0;
    for (let at = 0; at < LARGE_WRITES; at++) {
      const pages = (index: number): Change => ({
        family: 'heap',
        key: bytes(number(at * 16 + index)),
        value: new Uint8Array(65_536).fill(at),
      });
      tables.write(
        Array.from({ length: 16 }, (_, index) => pages(index)),
        { isSynced: false },
      );
      most = Math.max(most, logMib(directory));
    }
    assert.ok(most > 30 && most < 120, `${most} MiB`);
    const rows = changes.map(({ key, value }) => [key, value]);
    for (const { family } of changes.slice(0, 1))
      assert.deepEqual([...tables.range(family, new Uint8Array(0), undefined)], rows);
    assert.equal([...tables.range('heap', new Uint8Array(0), undefined)].length, LARGE_WRITES * 16);
  });
}

test("RocksDB's own log stays small behind rows of all families and large changes, too", async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  for (const { changes } of seldom) write(tables, changes);
  let most = 0;
  for (let at = 0; at < 18; at++) {
    const page = (index: number): Change => ({
      family: 'heap',
      key: bytes(number(index)),
      value: new Uint8Array(65_536),
    });
    tables.write(
      Array.from({ length: 272 }, (_, index) => page(at * 272 + index)),
      { isSynced: false },
    );
    most = Math.max(most, logMib(directory));
  }
  assert.ok(most > 30 && most < 270, `${most} MiB`);
});

test('damage behind which a filler lies hides no row before it', async (t) => {
  const directory = await temporaryDirectory();
  const rows = Array.from({ length: 400 }, (_, index): Change => {
    return { family: 'queue', key: bytes(number(index)), value: new Uint8Array(1000).fill(index % 251, 0, 900) };
  });
  const tables = await RocksdbTables.open(directory);
  write(tables, rows);
  const page = (index: number): Change => ({ family: 'heap', key: bytes(number(index)), value: new Uint8Array(4096) });
  for (let at = 0; at < 100; at++)
    tables.write(
      Array.from({ length: 256 }, (_, index) => page(index)),
      { isSynced: false },
    );
  await tables.close();
  await (await RocksdbTables.open(directory)).close();
  // The last value, wherever it is stored.
  const last = Buffer.alloc(1000).fill(399 % 251, 0, 900);
  for (const name of readdirSync(directory).filter((file) => file.endsWith('.sst'))) {
    const at = readFileSync(join(directory, name)).lastIndexOf(last);
    if (at >= 0) flip(join(directory, name), at);
  }
  const damaged = await open(t, directory);
  using snapshot = damaged.snapshot();
  const whole = (index: number): number | undefined => snapshot.get('queue', bytes(number(index)))?.length;
  let areDamaged = 0;
  for (let index = 0; index < rows.length; index++) {
    try {
      assert.equal(whole(index), 1000);
    } catch (error) {
      assert.ok(isDamage(error), String(error));
      areDamaged++;
    }
    // Each of these comes after a failed read.
    assert.throws(() => whole(399), isDamage);
  }
  assert.ok(areDamaged > 0 && areDamaged < 20, `${areDamaged} damaged`);
  let read = 0;
  assert.throws(() => {
    for (const _ of damaged.range('queue', new Uint8Array(0), undefined)) read++;
  }, isDamage);
  assert.equal(read, rows.length - areDamaged);
});

test('a platform that RocksDB has no binary for is told', async (t) => {
  const directory = await temporaryDirectory();
  // The binding then looks for a binary for another processor.
  const { said } = await runStateProcess(t, 'write', directory, {
    env: { npm_config_arch: 'riscv64', TABLES: 'rocksdb' },
  });
  assert.match(said, /^refused state-unsupported RocksDB cannot be loaded on \S+: .*; give --tables sqlite/);
});
