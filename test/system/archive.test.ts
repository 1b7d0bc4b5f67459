/** An archive on a file system of its own that is full. Mounting needs root, as installing packages does. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { restoreArchive } from '../../subsystems/storage/restore-archive.ts';
import { compileActor, Deployment } from '../e2e/durability/deployment.ts';
import { note } from '../e2e/durability/noted-state.ts';
import { hashOfDirectory } from '../subsystems/archive/archived-state.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

function mount(args: readonly string[]): void {
  const { status, stderr } = spawnSync('mount', args);
  assert.equal(status, 0, `mounting needs root: ${String(stderr)}`);
}

test('a disk that is full: serving goes on, one line says so, and it goes on by itself', async (t) => {
  const folder = await temporaryDirectory();
  const archive = join(folder, 'archive');
  await mkdir(archive);
  mount(['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', archive]);
  t.after(() => void spawnSync('umount', ['--lazy', archive]));
  await writeFile(join(archive, 'filler'), Buffer.alloc(2_990_000));
  const deployment = await Deployment.create(t, {
    args: ['--archive', archive, '--archive-secs', '1'],
    modules: { one: await compileActor('Keeper') },
  });
  const { server } = await deployment.start();
  const one = await deployment.host.find('one');
  for (let n = 1; n <= 10; n++) await deployment.host.call(one, 'append', [n]);
  await until(async () => /^svc_archive_failures_total [2-9]/m.test((await server.get('/metrics')).body));
  const lines = (): number => server.output.stderr.match(/cannot be written: ENOSPC/g)?.length ?? 0;
  assert.equal(lines(), 1, server.output.stderr);
  assert.match((await server.get('/metrics')).body, /^svc_archive_lag_seconds [1-9]/m);
  await deployment.host.call(one, 'append', [11]);
  mount(['-o', 'remount,size=200m', archive]);
  await until(() => Promise.resolve(server.output.stderr.includes('is written again')));
  await until(async () => /^svc_archive_lag_seconds 0$/m.test((await server.get('/metrics')).body));
  const { unit, hash } = await note(server.origin, folder);
  await deployment.stop();
  const directory = join(folder, 'restored');
  await restoreArchive({ archive, directory, until: { kind: 'unit', unit }, follows: false });
  assert.equal(await hashOfDirectory(directory), hash);
});

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; !(await isSo()); waitedMs += 100) {
    assert.ok(waitedMs < 60_000, 'it does not come about');
    await sleep(100);
  }
}
