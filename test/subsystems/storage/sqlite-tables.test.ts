import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { SuiteContext } from '../../../plugins/api/contracts/runner.ts';
import { all, bytes, describeTables, hex, number, put, write } from '../../../plugins/api/contracts/tables.ts';
import { ServerError } from '../../../kernel/index.ts';
import { SqliteTables } from '../../../subsystems/storage/sqlite-tables.ts';
import type { Change } from '../../../subsystems/storage/tables.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { killed, runStateProcess } from '../../support/state-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

async function open(t: SuiteContext, directory: string): Promise<SqliteTables> {
  const tables = await SqliteTables.open(directory);
  t.after(() => tables.close());
  return tables;
}

describeTables('SqliteTables', async (t) => {
  const directory = join(await temporaryDirectory(), 'deep', 'tables');
  return { tables: await open(t, directory), reopen: () => open(t, directory) };
});

const PAGES = 600;
const DATABASE = 'tables.sqlite';
const LOG = 'tables.sqlite-wal';

function page(index: number, fill = index): Change {
  return { family: 'heap', key: bytes(number(index)), value: new Uint8Array(4096).fill(fill) };
}

/** Makes closed tables with pages and some rows. */
async function filled(): Promise<string> {
  const directory = await temporaryDirectory();
  const tables = await SqliteTables.open(directory);
  const random = seeded(5);
  // In an order of their own: rows and keys lie in different orders.
  const order = Array.from({ length: PAGES }, (_, index) => (index * 7) % PAGES);
  write(
    tables,
    order.map((index) => ({ ...page(index), value: Uint8Array.from({ length: 4096 }, () => random.below(256)) })),
  );
  write(tables, [put('meta', '01', 'aa'), put('blob', '02', 'bb')]);
  await tables.close();
  return directory;
}

function flipAt(path: string, at: number, bit = 1): void {
  const content = readFileSync(path);
  content[at] = (content[at] ?? 0) ^ bit;
  writeFileSync(path, content);
}

function isDamage(error: unknown): error is ServerError {
  return error instanceof ServerError && error.code === 'state-corrupt';
}

test('a flipped byte of a value is found by get, getMany, range and snapshot, which name family and key', async (t) => {
  const directory = await filled();
  const path = join(directory, DATABASE);
  const keys = Array.from({ length: PAGES }, (_, index) => bytes(number(index)));
  const victim = 300;
  {
    const intact = await SqliteTables.open(directory);
    const value = intact.get('heap', keys[victim] ?? assert.fail());
    await intact.close();
    flipAt(path, readFileSync(path).indexOf(value?.subarray(2000, 2100) ?? assert.fail()));
  }
  const tables = await open(t, directory);
  const place = `: heap, key 0x${number(victim)}: checksum mismatch`;
  const isNamed = (error: unknown): boolean => isDamage(error) && error.message.endsWith(place);
  assert.throws(() => tables.get('heap', keys[victim] ?? assert.fail()), isNamed);
  assert.throws(() => tables.getMany('heap', keys), isNamed);
  using snapshot = tables.snapshot();
  for (const reader of [tables, snapshot]) {
    const read: string[] = [];
    assert.throws(() => {
      for (const [key] of reader.range('heap', bytes(''), undefined)) read.push(hex(key));
    }, isNamed);
    assert.deepEqual(read, keys.slice(0, victim).map(hex));
  }
  // Neighbours are read.
  assert.equal(tables.get('heap', keys[victim - 1] ?? assert.fail())?.length, 4096);
  assert.equal([...tables.range('heap', keys[victim + 1] ?? assert.fail(), undefined)].length, PAGES - victim - 1);
  assert.deepEqual(all(tables, 'meta'), [['01', 'aa']]);
});

test('a key that was changed in the index is not taken for one that is not there', async (t) => {
  for (const bit of [1, 2, 128]) {
    const directory = await filled();
    const path = join(directory, DATABASE);
    const key = Buffer.from(bytes(number(300)));
    const content = readFileSync(path);
    // The index has the key right behind a header of three bytes, without a sum and a value.
    let flipped = 0;
    for (let at = content.indexOf(key); at >= 0; at = content.indexOf(key, at + 1)) {
      if (content[at - 3] !== 3 || content[at - 2] !== 20) continue;
      flipAt(path, at + 3, bit);
      flipped++;
    }
    // Pages that were divided keep a copy in their free room.
    assert.ok(flipped > 0);
    const tables = await open(t, directory);
    assert.throws(() => tables.get('heap', key), isDamage, `bit ${bit}`);
    assert.throws(() => [...tables.range('heap', bytes(number(290)), bytes(number(310)))], isDamage);
    assert.throws(() => [...tables.range('heap', key, bytes(number(310)))], isDamage);
    assert.equal([...tables.range('heap', bytes(''), bytes(number(40)))].length, 40);
  }
});

test('a bit flipped anywhere in the database is told, or changes nothing', async () => {
  const directory = await filled();
  const path = join(directory, DATABASE);
  const intact = readFileSync(path);
  const read = async (): Promise<string> => {
    const tables = await SqliteTables.open(directory);
    try {
      const keys = Array.from({ length: PAGES }, (_, index) => bytes(number(index)));
      const single = tables.getMany('heap', keys);
      const families = (['meta', 'heap', 'blob', 'log'] as const).map((family) => all(tables, family));
      return JSON.stringify([single.map((value) => value && hex(value)), families]);
    } finally {
      await tables.close();
    }
  };
  const expected = await read();
  const seeds = new ProofSeeds(24);
  const counts = { told: 0, harmless: 0 };
  for (const seed of seeds) {
    const random = seeded(seed);
    // Every other place lies in the first pages, which have the structure.
    const at = random.below(random.oneIn(2) ? 160 * 1024 : intact.length);
    writeFileSync(path, intact);
    for (const end of ['-wal', '-shm']) rmSync(path + end, { force: true });
    flipAt(path, at, 1 << random.below(8));
    try {
      assert.ok(
        (await read()) === expected,
        `seed ${seed}: after a bit at byte ${at} was flipped, something else is read`,
      );
      counts.harmless++;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      counts.told++;
    }
  }
  seeds.saw(counts);
  assert.ok(counts.told > 0 && counts.harmless > 0);
});

test('damage that opening meets is named by its file, and a database that is gone is no new one', async (t) => {
  const directory = await filled();
  const path = join(directory, DATABASE);
  const intact = readFileSync(path);
  for (const length of [0, 50, 4096, intact.length - 4096]) {
    truncateSync(path, length);
    await assert.rejects(
      (async () => all(await open(t, directory), 'heap'))(),
      (error) => isDamage(error) && error.message.includes(directory),
      `${length} bytes`,
    );
    writeFileSync(path, intact);
  }
  rmSync(path);
  writeFileSync(join(directory, LOG), 'what a crash left');
  await assert.rejects(SqliteTables.open(directory), (error) => isDamage(error) && error.message.includes(DATABASE));
});

test('a synced write, and what was written before it, outlives SIGKILL', async (t) => {
  const directory = await temporaryDirectory();
  const { child, said } = await runStateProcess(t, 'write', directory, { env: { TABLES: 'sqlite' } });
  assert.equal(said, 'ready');
  await killed(child);
  const tables = await open(t, directory);
  assert.equal(all(tables, 'heap').length, 200);
  assert.equal(all(tables, 'queue').length, 100);
  assert.deepEqual(tables.get('queue', bytes('012b')), new Uint8Array(4096).fill(7));
});

test('a synced write is in the database itself, and an empty one brings there what was not', async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  for (const [index, changes] of [[put('meta', '01', 'aa')], []].entries()) {
    write(tables, [page(index)]);
    tables.write(changes, { isSynced: true });
    // Leaves SQLite's log out, as if it had been lost with the power.
    const copy = await temporaryDirectory();
    cpSync(join(directory, DATABASE), join(copy, DATABASE));
    const survived = await open(t, copy);
    assert.equal(all(survived, 'heap').length, index + 1);
    assert.equal(all(survived, 'meta').length, 1);
  }
});

test('a second process that opens the same tables is refused, and so is a second time in this one', async (t) => {
  const directory = await temporaryDirectory();
  await open(t, directory);
  const isRefused = async (): Promise<void> => {
    const { said } = await runStateProcess(t, 'write', directory, { env: { TABLES: 'sqlite' } });
    assert.match(said, /^refused state-locked .*in use by another process/);
  };
  await isRefused();
  await assert.rejects(SqliteTables.open(directory), { code: 'state-locked' });
  // The system drops a lock when its process closes the file anywhere.
  await isRefused();
});

test('a disk that takes no more is told, and what was written before is there', async (t) => {
  const directory = await temporaryDirectory();
  // Files may grow to 1 MiB in that process.
  const { child, said } = await runStateProcess(t, 'fill', directory, {
    fileBlocksMax: 2048,
    env: { TABLES: 'sqlite' },
  });
  await killed(child);
  assert.match(said, /^refused state-unwritable .*disk/);
  const { length } = all(await open(t, directory), 'heap');
  assert.ok(length > 50 && length < 300, `${length} pages of 4 KiB were written`);
});

test('a directory that cannot be written, or is none, is told in the words of the system', async (t) => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'file'), '');
  await assert.rejects(SqliteTables.open(join(directory, 'file')), { code: 'state-unwritable', message: /EEXIST/ });
  const tables = join(directory, 'tables');
  await mkdir(tables);
  await chmod(tables, 0o555);
  await chmod(directory, 0o755);
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const { said } = await runStateProcess(t, 'write', tables, { ...user, env: { TABLES: 'sqlite' } });
  assert.match(said, /^refused state-unwritable .*permission denied/);
});

test("SQLite's log stays small behind writes that nobody syncs, and after a snapshot that held it", async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  const logMib = (): number => statSync(join(directory, LOG)).size / 2 ** 20;
  const writeMany = (isSynced: boolean): void => {
    for (let at = 0; at < 40; at++)
      tables.write(
        Array.from({ length: 256 }, (_, index) => page((at % 8) * 256 + index, at)),
        { isSynced },
      );
  };
  writeMany(false);
  assert.ok(logMib() < 12, `${logMib()} MiB unsynced`);
  {
    using snapshot = tables.snapshot();
    assert.equal(snapshot.get('heap', bytes(number(0)))?.[0], 32);
    writeMany(true);
    assert.ok(logMib() > 30, `${logMib()} MiB beside a snapshot`);
    assert.equal(snapshot.get('heap', bytes(number(0)))?.[0], 32);
  }
  for (let at = 0; at < 3; at++) tables.write([page(0)], { isSynced: true });
  assert.ok(logMib() <= 16, `${logMib()} MiB after it`);
});

test('room of deleted rows goes back to the system, some of it with each write', async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  const count = 8192;
  const keys = Array.from({ length: count }, (_, index) => index);
  for (let at = 0; at < count; at += 512)
    tables.write(
      keys.slice(at, at + 512).map((index) => page(index)),
      { isSynced: false },
    );
  tables.write([], { isSynced: true });
  const full = tables.bytes;
  assert.ok(full > count * 4096);
  for (let at = 0; at < count - 64; at += 512) {
    const gone = keys.slice(at, Math.min(at + 512, count - 64));
    tables.write(
      gone.map((index) => ({ family: 'heap', key: bytes(number(index)), value: undefined })),
      { isSynced: true },
    );
  }
  for (let at = 0; at < 40; at++) tables.write([], { isSynced: true });
  assert.ok(tables.bytes < full / 2, `${tables.bytes} of ${full} bytes are left`);
  assert.deepEqual(
    all(tables, 'heap').map(([key]) => key),
    keys.slice(-64).map(number),
  );
});

test('the files are for nobody else, and closed tables leave no log', async (t) => {
  const directory = await temporaryDirectory();
  const tables = await open(t, directory);
  write(tables, [page(1)]);
  using _snapshot = tables.snapshot();
  for (const name of readdirSync(directory)) assert.equal(statSync(join(directory, name)).mode & 0o077, 0, name);
  await tables.close();
  assert.deepEqual(readdirSync(directory).toSorted(), ['tables.lock', DATABASE]);
});
