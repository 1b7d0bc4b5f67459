import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { restoreBackup } from '../../../subsystems/storage/restore.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { unreadable, unwritable } from '../../../subsystems/storage/state-problems.ts';
import { backupOf, filledTables } from './backup-files.ts';
import { killed, runStateProcess } from '../../support/state-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Only Linux always has a file system in which no directory can be made: /proc. */
const LINUX = { timeout: 60_000, skip: process.platform !== 'linux' && 'there is no /proc' };

/** Asserts the common properties of refusals: the code, the words, and that nothing was left behind. */
async function refused(path: string, code: string, words: readonly string[]): Promise<void> {
  const before = await readdir(path).catch(() => undefined);
  await assert.rejects(openStateDirectory(path), (error) => {
    assert.ok(error instanceof ServerError, String(error));
    assert.equal(error.code, code);
    for (const word of words) assert.ok(error.message.includes(word), error.message);
    return true;
  });
  assert.deepEqual(await readdir(path).catch(() => undefined), before);
}

test('a directory is created with its parents, and is the same when it is opened again', async () => {
  const path = join(await temporaryDirectory(), 'deep', 'state');
  const state = await openStateDirectory(path);
  assert.equal(state.found, undefined);
  assert.deepEqual((await readdir(path)).toSorted(), ['format', 'lock', 'log', 'modules', 'motoko', 'tables']);
  assert.match(await readFile(join(path, 'format'), 'utf8'), /^svc state, format 3\n/);
  const lock = JSON.parse(await readFile(join(path, 'lock'), 'utf8')) as { pid: number; started: string };
  assert.equal(lock.pid, process.pid);
  assert.ok(Math.abs(Date.now() - Date.parse(lock.started)) < 60_000);
  await writeFile(join(state.log, 'segment'), 'kept');
  await state.close();
  assert.deepEqual((await readdir(path)).toSorted(), ['format', 'log', 'modules', 'motoko', 'tables']);

  const again = await openStateDirectory(path);
  assert.equal(again.found, FORMAT);
  assert.equal(await readFile(join(again.log, 'segment'), 'utf8'), 'kept');
  assert.deepEqual([again.path, again.tables, again.log], [path, join(path, 'tables'), join(path, 'log')]);
  await again.close();
  await again.close();
});

test('an empty directory will do, and one with what a broken-off start left', async () => {
  const empty = await temporaryDirectory();
  await (await openStateDirectory(empty)).close();

  const left = await temporaryDirectory();
  await writeFile(join(left, 'format.new'), 'svc st');
  await writeFile(join(left, 'lock'), '');
  await mkdir(join(left, 'lost+found'));
  const state = await openStateDirectory(left);
  assert.equal(state.found, undefined);
  await state.close();
});

test('a missing sub-directory is made again', async () => {
  const path = await temporaryDirectory();
  await (await openStateDirectory(path)).close();
  await rm(join(path, 'motoko'), { recursive: true });
  const state = await openStateDirectory(path);
  assert.deepEqual(await readdir(join(path, 'motoko')), []);
  await state.close();
});

test('a file in the place of the directory is refused, and in the place of a parent', async () => {
  const root = await temporaryDirectory();
  const file = join(root, 'file');
  await writeFile(file, 'text');
  await refused(file, 'state-not-directory', [file, 'name a directory']);
  await refused(join(file, 'state'), 'state-not-directory', [join(file, 'state')]);
  await symlink(file, join(root, 'link'));
  await refused(join(root, 'link'), 'state-not-directory', [join(root, 'link')]);
});

test('a link that leads nowhere, or in a circle, is named with what to do', async () => {
  const root = await temporaryDirectory();
  const dangling = join(root, 'dangling');
  const missing = join(root, 'not', 'there');
  await symlink('not/there', dangling);
  const mending = [`${dangling} is a link to not/there, which does not exist`, `mkdir -p ${missing}`, 'mend the link'];
  for (const path of [dangling, join(dangling, 'below')])
    await refused(path, 'state-not-directory', [`${path} cannot be the state directory`, ...mending]);
  const file = join(root, 'a.backup');
  await writeFile(file, 'is not even looked at');
  await assert.rejects(restoreBackup(file, dangling), { code: 'state-not-directory', message: /which does not exist/ });
  await symlink('circle', join(root, 'circle'));
  await refused(join(root, 'circle'), 'state-not-directory', ['its links lead in a circle', 'mend the link']);
  assert.deepEqual((await readdir(root)).toSorted(), ['a.backup', 'circle', 'dangling']);
  await mkdir(missing, { recursive: true });
  await (await openStateDirectory(dangling)).close();
  assert.ok((await readdir(missing)).includes('format'));
});

test('where the system makes no directories, as below /proc, that is said at once', LINUX, async () => {
  const path = '/proc/self/of/no/use';
  const words = ['/proc/self/of', 'nobody can make a directory there: name one on another file system'];
  await refused(path, 'state-unwritable', words);
  const file = join(await temporaryDirectory(), 'a.backup');
  await writeFile(file, backupOf(filledTables()));
  const message = /nobody can make a directory there/;
  await assert.rejects(restoreBackup(file, path), { code: 'state-unwritable', message });
});

test('a file system that is read-only or full, and a user without rights, are told with what to do', () => {
  for (const [code, said] of [
    [
      'EROFS',
      /^the state directory \/s cannot be written: its file system is read-only: mount it for writing, or name .* \(EROFS: x\)$/,
    ],
    ['ENOSPC', /its file system is full: make room/],
    ['EACCES', /this user may not write there: give it the right to/],
    ['EIO', /cannot be written: EIO: x$/],
  ] as const)
    assert.match(unwritable('/s', Object.assign(new Error(`${code}: x`), { code })).message, said);
});

test("somebody else's directory is refused, untouched, and what it holds is named", async () => {
  const path = await temporaryDirectory();
  await writeFile(join(path, 'thesis.tex'), '');
  await refused(path, 'state-foreign', [path, 'it holds thesis.tex;', 'name an empty directory']);
  for (let index = 0; index < 9; index++) await writeFile(join(path, `a${index}`), '');
  await refused(path, 'state-foreign', ['it holds a0, a1, a2, a3, a4, …;']);
});

test('a newer format is refused with its number', async () => {
  const path = await temporaryDirectory();
  await (await openStateDirectory(path)).close();
  await writeFile(join(path, 'format'), 'svc state, format 12\nand more\n');
  await refused(path, 'state-newer', ['has format 12', 'up to format 3', 'upgrade svc', 'restore a backup']);
});

test('an older format is refused with both numbers, and nothing is touched', async () => {
  const path = await temporaryDirectory();
  await (await openStateDirectory(path)).close();
  await writeFile(join(path, 'format'), 'svc state, format 1\nand more\n');
  await refused(path, 'state-older', ['has format 1', 'reads formats 2 to 3', 'go on with the svc that wrote it']);
  assert.equal(await readFile(join(path, 'format'), 'latin1'), 'svc state, format 1\nand more\n');
});

test('a format file that is garbled or cannot be read is damage', async () => {
  const path = await temporaryDirectory();
  await (await openStateDirectory(path)).close();
  for (const text of ['', 'svc state, format 2', 'svc state, format 0\n', 'svc state, format x\n', '\0\0\0\0']) {
    await writeFile(join(path, 'format'), text);
    await refused(path, 'state-corrupt', [join(path, 'format'), JSON.stringify(text)]);
  }
  await rm(join(path, 'format'));
  await mkdir(join(path, 'format'));
  await refused(path, 'state-corrupt', [join(path, 'format'), 'EISDIR']);
});

test('a directory that cannot be written, or made, is told in the words of the system', async (t) => {
  const root = await temporaryDirectory();
  const path = join(root, 'state');
  await mkdir(path);
  await chmod(root, 0o755);
  await chmod(path, 0o555);
  // The superuser may write everywhere: so that process belongs to another user.
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  for (const directory of [path, join(path, 'deeper')]) {
    const { said } = await runStateProcess(t, 'hold', directory, user);
    assert.match(said, /^refused state-unwritable .*EACCES: permission denied/);
    assert.ok(said.includes(directory), said);
  }
});

test("another user's state that is closed is refused with both users and the fix", async (t) => {
  const root = await temporaryDirectory();
  const path = join(root, 'state');
  await (await openStateDirectory(path)).close();
  await chmod(root, 0o755);
  if (process.getuid?.() === 0) {
    const { said } = await runStateProcess(t, 'hold', path, { uid: 65_534, gid: 65_534 });
    assert.match(said, /^refused state-unwritable /);
    const fix = `it belongs to user 0, and this is user 65534: start as its owner, or hand it over (chown -R 65534 ${path})`;
    assert.ok(said.includes(`the state directory ${path} cannot be read: ${fix}`), said);
  }
  // Without the superuser there is no second user: an owner who has shut himself out.
  const told = await unreadable(join(path, 'format'), Object.assign(new Error('EACCES: x'), { code: 'EACCES' }));
  assert.equal(told.code, 'state-unwritable');
  assert.ok(
    told.message.endsWith('this user may not read there: give it the right to, or name another directory (EACCES: x)'),
  );
});

test('while a live process has the directory, it is refused with the process and its time', async (t) => {
  const path = await temporaryDirectory();
  const { child, said } = await runStateProcess(t, 'hold', path);
  assert.equal(said, 'ready');
  await refused(path, 'state-locked', [`in use by process ${child.pid} since 2`, path]);
  await refused(path, 'state-locked', [`in use by process ${child.pid} since 2`]);
  // The remains of a killed process are no lock.
  await killed(child);
  const state = await openStateDirectory(path);
  assert.equal(state.found, FORMAT);
  const { said: refusal } = await runStateProcess(t, 'open', path);
  assert.match(refusal, new RegExp(`^refused state-locked .*in use by process ${process.pid} since `));
  await refused(path, 'state-locked', [`in use by process ${process.pid} since 2`]);
  await state.close();
  assert.equal((await runStateProcess(t, 'open', path)).said, 'ready');
});

test('the number of a process that ended and was given to another is no lock', async () => {
  const path = await temporaryDirectory();
  const state = await openStateDirectory(path);
  const lock = await readFile(join(path, 'lock'), 'utf8');
  await state.close();
  const { pid, started, processStart } = JSON.parse(lock) as Record<string, unknown>;
  assert.equal(typeof processStart, 'string');
  // This process lives, but the process with its number that took the lock began at another time.
  await writeFile(join(path, 'lock'), JSON.stringify({ pid, started, processStart: `${String(processStart)}0` }));
  await (await openStateDirectory(path)).close();
  // If the system did not tell the time, the number decides.
  await writeFile(join(path, 'lock'), JSON.stringify({ pid, started, processStart: null }));
  await refused(path, 'state-locked', [`process ${process.pid}`]);
  await writeFile(join(path, 'lock'), JSON.stringify({ pid: 2 ** 22 + 1, started, processStart: null }));
  await (await openStateDirectory(path)).close();
});

test("a lock that is garbled is nobody's", async () => {
  const path = await temporaryDirectory();
  await (await openStateDirectory(path)).close();
  for (const text of ['', '{', 'null', '[]', '{"pid":-1,"started":"x"}', '{"pid":"1","started":"x"}', '\0\0']) {
    await writeFile(join(path, 'lock'), text);
    const state = await openStateDirectory(path);
    assert.equal((JSON.parse(await readFile(join(path, 'lock'), 'utf8')) as { pid: number }).pid, process.pid);
    await state.close();
  }
  assert.deepEqual((await readdir(path)).toSorted(), ['format', 'log', 'modules', 'motoko', 'tables']);
});

test('of many that open it at once, one gets it, also over the lock of a killed process', async (t) => {
  const path = await temporaryDirectory();
  const { child } = await runStateProcess(t, 'hold', path);
  await killed(child);
  // As left by a process that was killed while it replaced a stale lock.
  await copyFile(join(path, 'lock'), join(path, 'lock.next'));
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => openStateDirectory(path)));
  const opened = results.filter((result) => result.status === 'fulfilled').map(({ value }) => value);
  assert.equal(opened.length, 1);
  for (const result of results) {
    if (result.status === 'rejected') assert.equal((result.reason as ServerError).code, 'state-locked');
  }
  await Promise.all(opened.map((state) => state.close()));
  assert.deepEqual((await readdir(path)).toSorted(), ['format', 'log', 'modules', 'motoko', 'tables']);
});

test('closing leaves the lock of whoever has it by now', async () => {
  const path = await temporaryDirectory();
  const state = await openStateDirectory(path);
  await writeFile(join(path, 'lock'), 'of another');
  await state.close();
  assert.equal(await readFile(join(path, 'lock'), 'utf8'), 'of another');
});
