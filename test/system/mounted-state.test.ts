/**
 * State directories on file systems of their own: a read-only one and a full one. Mounting needs root, as installing
 * packages does.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { compileActor, Deployment } from '../e2e/durability/deployment.ts';
import { assertRefused, checkAfterFullDisk, fillUp } from '../e2e/durability/refusals.ts';
import { dump, WITNESS } from '../e2e/durability/witness.ts';
import { EXAMPLES } from '../support/server.ts';

const MAIN = resolve(import.meta.dirname, '../../config/svc.js');

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

function mount(t: TestContext, directory: string, options: string): void {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory]);
  assert.equal(status, 0, `mounting needs root: ${String(stderr)}`);
  t.after(() => void spawnSync('umount', ['--lazy', directory]));
}

test('a state directory that is read-only is refused', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { witness: WITNESS } });
  await mkdir(deployment.state);
  mount(t, deployment.state, 'size=256m');
  await deployment.start();
  await deployment.host.server.post('/call/witness/write', 'kept');
  const written = await dump(deployment.host, 'witness');
  await deployment.stop();
  assert.equal(spawnSync('mount', ['-o', 'remount,ro', deployment.state]).status, 0);
  assertRefused(
    await deployment.refused(),
    /the state directory .*state cannot be written: its file system is read-only: .*\(EROFS/,
  );
  // A missing directory is refused in the same way: Node by itself only says that there is no such directory.
  const below = startRefused(deployment.state);
  assert.match(below, /state\/new cannot be written: its file system is read-only/);
  assert.equal(spawnSync('mount', ['-o', 'remount,rw', deployment.state]).status, 0);
  assert.equal(await dump(await deployment.start(), 'witness'), written);
  await deployment.stop();
});

function startRefused(state: string): string {
  const args = [MAIN, '--manifest', EXAMPLES, '--listen', '127.0.0.1:0', '--state', join(state, 'new')];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(status, 1);
  return stderr;
}

test('a file system without room: the server ends, and serves everything when there is room again', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { keeper, other: keeper } });
  await mkdir(deployment.state);
  mount(t, deployment.state, 'size=16m');
  assertRefused(await deployment.refused(), /cannot be written: .*ENOSPC|no space/i);
  assert.equal(spawnSync('mount', ['-o', 'remount,size=190m', deployment.state]).status, 0);
  const host = await deployment.start();
  await host.call(await host.find('other'), 'append', [1]);
  const acknowledged = await fillUp(deployment);
  assert.ok(acknowledged > 20, `${acknowledged} fitted`);
  assert.equal(spawnSync('mount', ['-o', 'remount,size=800m', deployment.state]).status, 0);
  await checkAfterFullDisk(deployment, acknowledged);
});
