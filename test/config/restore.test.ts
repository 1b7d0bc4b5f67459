import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { constants, existsSync } from 'node:fs';
import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { restoreBackup } from '../../subsystems/storage/restore.ts';
import { openStateDirectory } from '../../subsystems/storage/state-directory.ts';
import { backupOf, filledTables } from '../subsystems/storage/backup-files.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'svc-restore-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

test('a backup that cannot be restored ends the start with exit code 1, the reason, and nothing left behind', async (t) => {
  const path = await folder(t);
  const file = join(path, 'cut.backup');
  const whole = backupOf(filledTables());
  await writeFile(file, whole.subarray(0, whole.length - 10));
  const args = [MAIN, '--listen', '127.0.0.1:0', '--state', join(path, 'state'), '--restore', file];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 });
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /error: cannot start: .*cut\.backup is not whole: it ends at byte \d+, within the block/);
  assert.deepEqual(await readdir(path), ['cut.backup']);
});

test('a disk that takes no more ends the start with its words, and nothing left behind', async (t) => {
  const path = await folder(t);
  const file = join(path, 'kept.backup');
  await writeFile(file, backupOf(filledTables()));
  const args = [MAIN, '--listen', '127.0.0.1:0', '--state', join(path, 'state'), '--restore', file];
  // No file may grow beyond 1 MiB: further writing fails, as on a full disk.
  const limited = ['-c', 'ulimit -f 1024 && exec "$@"', 'limited', process.execPath, ...args];
  const { status, stdout, stderr } = spawnSync('bash', limited, { encoding: 'utf8', timeout: 120_000 });
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /error: cannot start: the state in .* cannot be written: /);
  assert.deepEqual(await readdir(path), ['kept.backup']);
});

test('a restore that is killed in the middle leaves no state, and the next one begins anew', async (t) => {
  const path = await folder(t);
  const directory = join(path, 'state');
  const pipe = join(path, 'pipe');
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
  const whole = backupOf(filledTables());
  const args = [MAIN, '--listen', '127.0.0.1:0', '--state', directory, '--restore', pipe];
  const child = spawn(process.execPath, args, { stdio: 'ignore' });
  const exited = once(child, 'exit');
  // Opening a pipe for writing waits for a reader: if the child ends without having been one, this is the reader.
  void exited.then(async () => (await open(pipe, constants.O_RDONLY | constants.O_NONBLOCK)).close());
  {
    await using writer = await open(pipe, 'w');
    await writer.write(whole.subarray(0, 3_500_000));
    for (let waitedMs = 0; !existsSync(join(directory, 'unfinished-restore/tables/CURRENT')); waitedMs += 5) {
      assert.ok(waitedMs < 20_000 && child.exitCode === null, 'it did not begin');
      await sleep(5);
    }
    child.kill('SIGKILL');
    await exited;
  }
  await assert.rejects(openStateDirectory(directory), { code: 'state-foreign', message: /unfinished-restore/ });
  const file = join(path, 'kept.backup');
  await writeFile(file, whole);
  await restoreBackup(file, directory);
  const state = await openStateDirectory(directory);
  assert.notEqual(state.found, undefined);
  await state.close();
});
