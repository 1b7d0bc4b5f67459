import assert from 'node:assert/strict';
import { chmod, mkdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { FileDisk } from '../../../subsystems/storage/file-disk.ts';
import { closeToOthers } from '../../../subsystems/storage/private-files.ts';
import { restoreBackup } from '../../../subsystems/storage/restore.ts';
import { openStateDirectory } from '../../../subsystems/storage/state-directory.ts';
import { exposedIn } from '../../support/file-rights.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { backupOf } from './backup-files.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';

const umask = process.umask(0);
after(() => process.umask(umask));

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

suite('a state directory is closed to other users', () => {
  test('from the beginning, whatever the umask is', async () => {
    const path = join(await temporaryDirectory(), 'deep', 'state');
    const state = await openStateDirectory(path);
    const disk = new FileDisk(state.log);
    disk.open('segment-0.log', { create: true }).close();
    assert.deepEqual(state.exposed, []);
    assert.deepEqual(await exposedIn(path), []);
    await state.close();
    assert.deepEqual(await exposedIn(path), []);
  });

  test('with everything of ours that was open before, and nothing else', async () => {
    const path = await temporaryDirectory();
    await (await openStateDirectory(path)).close();
    const elsewhere = await temporaryDirectory();
    await writeFile(join(elsewhere, 'letter'), '', { mode: 0o644 });
    await symlink(join(elsewhere, 'letter'), join(path, 'tables', 'link'));
    await writeFile(join(path, 'tables', '000009.sst'), '', { mode: 0o664 });
    await mkdir(join(path, 'motoko', 'deep'), { mode: 0o777 });
    await writeFile(join(path, 'motoko', 'deep', 'file'), '', { mode: 0o666 });
    await mkdir(join(path, 'lost+found'), { mode: 0o755 });
    for (const name of ['.', 'tables', 'log']) await chmod(join(path, name), 0o755);
    await chmod(join(path, 'format'), 0o644);
    const state = await openStateDirectory(path);
    assert.deepEqual(await exposedIn(path), ['lost+found 755', 'tables/link 777']);
    assert.equal(await modeOf(join(elsewhere, 'letter')), 0o644);
    await state.close();
  });

  test('also where one of its directories is a link to another disk', async () => {
    const path = await temporaryDirectory();
    const other = join(await temporaryDirectory(), 'tables');
    await mkdir(other, { mode: 0o755 });
    await writeFile(join(other, '000009.sst'), '', { mode: 0o644 });
    await (await openStateDirectory(path)).close();
    await symlink(other, join(path, 'elsewhere'));
    assert.deepEqual(await closeToOthers(path, ['elsewhere']), []);
    assert.deepEqual(await exposedIn(other), []);
  });

  test('one that is refused stays as it was', async () => {
    const path = await temporaryDirectory();
    await chmod(path, 0o755);
    await writeFile(join(path, 'letter'), '', { mode: 0o644 });
    await assert.rejects(openStateDirectory(path), { code: 'state-foreign' });
    assert.deepEqual([await modeOf(path), await modeOf(join(path, 'letter'))], [0o755, 0o644]);
  });

  test('what cannot be closed is named, unless nobody gets there', async () => {
    // The system does not allow changes of these files' rights.
    assert.deepEqual(await closeToOthers('/proc/self', ['status', 'no-such-file', 'task']), ['status', 'task']);
    const path = await temporaryDirectory();
    await symlink('/proc/self/status', join(path, 'status'));
    await chmod(path, 0o755);
    assert.deepEqual(await closeToOthers(path, ['status']), []);
    assert.equal(await modeOf(path), 0o700);
  });

  test('one that a backup is restored into', async () => {
    const folder = await temporaryDirectory();
    const file = join(folder, 'kept.backup');
    await writeFile(file, backupOf(new MemoryTables()));
    const path = join(folder, 'state');
    await restoreBackup(file, path);
    assert.equal(await modeOf(path), 0o700);
    await (await openStateDirectory(path)).close();
    assert.deepEqual(await exposedIn(path), []);
  });
});
