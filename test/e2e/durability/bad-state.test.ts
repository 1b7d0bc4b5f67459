/** State directories that cannot be used: a clear message, exit code 1, nothing touched. A full disk: nothing acknowledged is lost. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';
import { hashesOf } from './damage.ts';
import { type Refusal, compileActor, Deployment } from './deployment.ts';
import { dump, WITNESS } from './witness.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

function assertRefused({ code, stdout, stderr }: Refusal, message: RegExp): void {
  assert.equal(code, 1, `${stdout}${stderr}`);
  assert.doesNotMatch(stdout, /^ready/m);
  assert.match(stderr, message);
  // One line for the operator, and no stack.
  assert.doesNotMatch(stderr, /^\s+at /m);
}

/** A file system of its own for the state; false: this process may not mount one. */
function mounted(t: TestContext, directory: string, options: string): boolean {
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory]).status !== 0) return false;
  t.after(() => void spawnSync('umount', ['--lazy', directory]));
  return true;
}

suite('a state directory is refused', () => {
  test('that holds something else; it stays as it was', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    await mkdir(join(deployment.state, 'photographs'), { recursive: true });
    await writeFile(join(deployment.state, 'photographs', 'one.jpg'), 'not ours');
    await writeFile(join(deployment.state, 'letter.txt'), 'not ours either');
    const files = await hashesOf(deployment.state);
    assertRefused(
      await deployment.refused(),
      /is not empty and not a state directory of svc: it holds letter\.txt, photographs/,
    );
    assert.deepEqual(await hashesOf(deployment.state), files);
  });

  test('that is a file', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    await writeFile(deployment.state, 'a file');
    assertRefused(
      await deployment.refused(),
      /state cannot be the state directory: it, or a part of its path, is a file/,
    );
    assert.equal(await readFile(deployment.state, 'utf8'), 'a file');
  });

  test('that a newer version wrote, whose format file is damaged, or that another process uses; afterwards it is served', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { witness: WITNESS } });
    let host = await deployment.start();
    await host.server.post('/call/witness/write', 'kept');
    const written = await dump(host, 'witness');

    const { pid } = host.server.process;
    assertRefused(await deployment.refused(), new RegExp(`in use by process ${pid} since \\d{4}-.*; stop it first`));
    assert.equal(await dump(host, 'witness'), written);
    await host.server.post('/call/witness/write', 'more');
    const more = await dump(host, 'witness');
    await deployment.stop();

    const format = join(deployment.state, 'format');
    const text = await readFile(format, 'utf8');
    const files = await hashesOf(deployment.state);
    await writeFile(format, text.replace('format 1', 'format 2'));
    assertRefused(await deployment.refused(), /has format 2, written by a newer svc; .*upgrade svc/);
    await writeFile(format, text.replace('svc', 'SVC'));
    assertRefused(await deployment.refused(), /format is damaged: .*restore it from a backup/);
    await writeFile(format, text);
    assert.deepEqual(await hashesOf(deployment.state), files);
    // Without its format file it is not ours.
    await rename(format, `${deployment.folder}/format`);
    assertRefused(await deployment.refused(), /not a state directory of svc/);
    await rename(`${deployment.folder}/format`, format);

    // What a killed process has left of its lock is no hindrance.
    host = await deployment.start();
    await deployment.kill();
    host = await deployment.start();
    assert.equal(await dump(host, 'witness'), more);
    await deployment.stop();
  });

  test('that is read-only', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { witness: WITNESS } });
    await mkdir(deployment.state);
    if (!mounted(t, deployment.state, 'size=256m')) {
      t.skip('needs to mount a file system: run as root');
      return;
    }
    await deployment.start();
    await deployment.host.server.post('/call/witness/write', 'kept');
    const written = await dump(deployment.host, 'witness');
    await deployment.stop();
    assert.equal(spawnSync('mount', ['-o', 'remount,ro', deployment.state]).status, 0);
    assertRefused(await deployment.refused(), /the state directory .*state cannot be written: EROFS/);
    assert.equal(spawnSync('mount', ['-o', 'remount,rw', deployment.state]).status, 0);
    assert.equal(await dump(await deployment.start(), 'witness'), written);
    await deployment.stop();
  });
});

suite('a full disk', () => {
  /** Sends what grows until the server ends; returns how many were acknowledged. */
  async function fillUp(deployment: Deployment): Promise<number> {
    const { server } = deployment.host;
    const argument = JSON.stringify([Buffer.alloc(1_000_000, 'y').toString('base64')]);
    for (let count = 0; count < 400; count++) {
      const answer = await server.post('/call-json/keeper/keep', argument).catch(() => undefined);
      if (answer?.status !== 200) return count;
    }
    return assert.fail('the disk was never full');
  }

  async function check(deployment: Deployment, acknowledged: number): Promise<void> {
    const { server } = deployment.host;
    await new Promise((resolve) => {
      if (server.process.exitCode === null) server.process.once('exit', resolve);
      else resolve(undefined);
    });
    assert.equal(server.process.exitCode, 1);
    assert.match(server.output.stderr, /cannot be written|no space left/i);
    const host = await deployment.start();
    const kept = await host.query(await host.find('keeper'), 'size');
    assert.ok(kept === acknowledged || kept === acknowledged + 1, `${acknowledged} acknowledged, ${String(kept)} kept`);
    assert.deepEqual(await host.query(await host.find('other'), 'all'), [1]);
    assert.equal(await host.call(await host.find('other'), 'append', [2]), 2);
    await deployment.stop();
  }

  test('a file system without room: the server ends, and serves everything when there is room again', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { keeper, other: keeper } });
    await mkdir(deployment.state);
    if (!mounted(t, deployment.state, 'size=16m')) {
      t.skip('needs to mount a file system: run as root');
      return;
    }
    assertRefused(await deployment.refused(), /cannot be written: .*ENOSPC|no space/i);
    assert.equal(spawnSync('mount', ['-o', 'remount,size=190m', deployment.state]).status, 0);
    const host = await deployment.start();
    await host.call(await host.find('other'), 'append', [1]);
    const acknowledged = await fillUp(deployment);
    assert.ok(acknowledged > 20, `${acknowledged} fitted`);
    assert.equal(spawnSync('mount', ['-o', 'remount,size=800m', deployment.state]).status, 0);
    await check(deployment, acknowledged);
  });

  test('files that may not grow any more: the same', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { keeper, other: keeper } });
    // Blocks of 1 KiB: a segment of the step log fits, and RocksDB's own log does until the tables have taken a lot.
    const limit = ['bash', '-c', `trap '' XFSZ; ulimit -f 33000; exec "$@"`, 'limited'];
    let host = await deployment.start([], 'ready', limit);
    await host.call(await host.find('other'), 'append', [1]);
    const acknowledged = await fillUp(deployment);
    assert.ok(acknowledged > 10, `${acknowledged} fitted`);
    host = deployment.host;
    await check(deployment, acknowledged);
  });
});
