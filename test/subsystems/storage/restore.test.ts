import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { restoreBackup } from '../../../subsystems/storage/restore.ts';
import { openTables } from '../../../subsystems/storage/open-tables.ts';
import { FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { backupOf, filledTables, someChanges } from './backup-files.ts';
import { runStateProcess } from '../../support/state-process.ts';

const MEBIBYTE = 2 ** 20;

interface Place {
  readonly root: string;
  readonly file: string;
  readonly directory: string;
}

/** Makes a folder with a backup in it, and the name of a directory that does not exist. */
async function place(t: TestContext, contents: Uint8Array = backupOf(filledTables())): Promise<Place> {
  const root = await mkdtemp(join(tmpdir(), 'svc-restore-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const file = join(root, 'kept.backup');
  await writeFile(file, contents);
  return { root, file, directory: join(root, 'deep', 'state') };
}

/** Makes a backup of the state in a directory, opened as a start does it. */
async function backupOfState(directory: string): Promise<Buffer> {
  const state = await openStateDirectory(directory);
  assert.equal(state.found, FORMAT);
  const { tables } = await openTables(state.tables, undefined);
  try {
    return backupOf(tables);
  } finally {
    await tables.close();
    await state.close();
  }
}

async function names(directory: string): Promise<readonly string[]> {
  return (await readdir(directory)).toSorted();
}

suite('restore', () => {
  for (const tables of ['rocksdb', 'sqlite'] as const)
    test(`what was backed up comes back to the byte, and so it does from ${tables}`, async (t) => {
      const { file, directory } = await place(t);
      const contents = await readFile(file);
      assert.deepEqual(await restoreBackup(file, directory, { tables }), {
        entries: someChanges().length,
        bytes: contents.length,
      });
      assert.deepEqual(await names(directory), ['format', 'tables']);
      assert.equal((await names(join(directory, 'tables'))).includes('tables.sqlite'), tables === 'sqlite');
      assert.ok(contents.equals(await backupOfState(directory)));
    });

  test('an existing empty directory will do, and so will what a broken-off start or restore has left', async (t) => {
    const { file, directory } = await place(t);
    await mkdir(join(directory, 'unfinished-restore', 'tables'), { recursive: true });
    await writeFile(join(directory, 'unfinished-restore', 'tables', '000012.sst'), 'half');
    await writeFile(
      join(directory, 'lock'),
      '{"pid":4194304,"started":"2026-11-20T00:00:00.000Z","processStart":"1 2"}',
    );
    await writeFile(join(directory, 'format.new'), '');
    await restoreBackup(file, directory);
    assert.ok((await readFile(file)).equals(await backupOfState(directory)));
  });

  test('a directory with anything in it is refused before anything is touched', async (t) => {
    const { file, directory } = await place(t);
    await restoreBackup(file, directory);
    const before = await backupOfState(directory);
    const held = await names(directory);
    await assert.rejects(restoreBackup(file, directory), {
      code: 'restore-not-empty',
      message:
        `${directory} holds a state already (drop --restore or --restore-archive to serve it; ` +
        'what was served follows no archive any more): restoring needs an empty directory, or one that does not exist yet',
    });
    assert.deepEqual(await names(directory), held);
    assert.ok(before.equals(await backupOfState(directory)));
    const other = join(directory, '..', 'photos');
    await mkdir(other);
    await writeFile(join(other, 'cat.jpg'), '');
    await assert.rejects(restoreBackup(file, other), { code: 'restore-not-empty', message: /holds cat\.jpg: / });
    assert.deepEqual(await names(other), ['cat.jpg']);
    await assert.rejects(restoreBackup(file, file), { code: 'restore-not-empty', message: /is a file/ });
    await assert.rejects(restoreBackup(file, join(file, 'below')), { code: 'restore-not-empty', message: /is a file/ });
  });

  test('a directory that another process is about to use is refused and left alone', async (t) => {
    const { file, directory } = await place(t);
    await mkdir(directory, { recursive: true });
    const lock = JSON.stringify({ pid: process.ppid, started: '2026-11-20T00:00:00.000Z', processStart: null });
    await writeFile(join(directory, 'lock'), lock);
    await assert.rejects(restoreBackup(file, directory), { code: 'state-locked' });
    assert.deepEqual(await names(directory), ['lock']);
    assert.equal(await readFile(join(directory, 'lock'), 'utf8'), lock);
  });

  test('a file that is damaged or cut off leaves nothing behind, wherever that is', async (t) => {
    const whole = backupOf(filledTables());
    const { root, file, directory } = await place(t);
    const flipped = (at: number): Buffer => {
      const copy = Buffer.from(whole);
      copy[at] = (copy[at] ?? 0) ^ 0x10;
      return copy;
    };
    const cases: readonly (readonly [string, Buffer])[] = [
      ['backup-foreign', Buffer.from('something else\n')],
      ['backup-foreign', Buffer.alloc(0)],
      ['backup-newer', Buffer.from('svc-backup 9\n')],
      ['backup-damaged', flipped(30)],
      ['backup-damaged', flipped(1000)],
      ['backup-damaged', flipped(MEBIBYTE + 5000)],
      ['backup-damaged', flipped(3 * MEBIBYTE)],
      ['backup-damaged', flipped(whole.length - 1)],
      ['backup-damaged', Buffer.concat([whole, Buffer.from('more')])],
      ['backup-truncated', whole.subarray(0, 100)],
      ['backup-truncated', whole.subarray(0, 3 * MEBIBYTE)],
      ['backup-truncated', whole.subarray(0, whole.length - 1)],
    ];
    for (const [code, contents] of cases) {
      await writeFile(file, contents);
      await assert.rejects(restoreBackup(file, directory), (error: Error & { code: string }) => {
        assert.equal(error.code, code, error.message);
        assert.ok(error.message.startsWith(`${file} `));
        return true;
      });
      assert.deepEqual(await names(root), ['kept.backup']);
    }
    // An empty directory stays empty.
    await mkdir(directory, { recursive: true });
    await assert.rejects(restoreBackup(file, directory), { code: 'backup-truncated' });
    assert.deepEqual(await names(directory), []);
    await writeFile(file, whole);
    await restoreBackup(file, directory);
  });

  test('until the last byte has been checked no start takes the directory for a state', async (t) => {
    const { file, directory } = await place(t);
    const seen: string[][] = [];
    let nowMs = 0;
    // The clock leaps, so that progress is logged after every batch.
    const clock = { nowMs: () => (nowMs += 10_000) };
    const starts: Promise<unknown>[] = [];
    const told: string[] = [];
    const log = {
      info: (line: string): void => {
        told.push(line);
        if (told.length > 1) return;
        starts.push(names(directory).then((found) => seen.push([...found])));
        starts.push(assert.rejects(openStateDirectory(directory), { code: 'state-foreign' }));
      },
    };
    await restoreBackup(file, directory, { clock, log });
    await Promise.all(starts);
    assert.ok(told.length > 3);
    assert.match(told.at(-1) ?? '', /^restoring .*kept\.backup: \d+ of \d+ bytes, \d+ entries$/);
    assert.deepEqual(seen[0], ['lock', 'unfinished-restore']);
  });

  test('a file that cannot be read is named', async (t) => {
    const { root, directory } = await place(t);
    for (const missing of [join(root, 'no-such.backup'), root]) {
      await assert.rejects(restoreBackup(missing, directory), {
        code: 'backup-unreadable',
        message: new RegExp(missing),
      });
    }
    assert.deepEqual(await names(root), ['kept.backup']);
  });

  test('a backup of another user, as the nightly ones are, is refused with what to do', async (t) => {
    const { root, file } = await place(t);
    await chmod(root, 0o755);
    await chmod(file, 0o000);
    // The superuser may read everything: so that process belongs to another user.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const { said } = await runStateProcess(t, 'read', file, user);
    const words =
      `refused backup-unreadable the backup ${file} cannot be read: ` +
      'this user may not read it: give it a copy of its own (EACCES: ';
    assert.ok(said.startsWith(words), said);
  });

  test('an empty state is restored as well', async (t) => {
    const { file, directory } = await place(t);
    const fresh = join(directory, '..', 'fresh');
    const state = await openStateDirectory(fresh);
    const { tables } = await openTables(state.tables, undefined);
    const empty = backupOf(tables);
    await tables.close();
    await state.close();
    await writeFile(file, empty);
    assert.deepEqual(await restoreBackup(file, directory), { entries: 0, bytes: empty.length });
    assert.ok(empty.equals(await backupOfState(directory)));
  });
});
