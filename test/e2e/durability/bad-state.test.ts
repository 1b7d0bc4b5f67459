/**
 * Unusable state directories: a clear message, exit code 1, nothing touched. A full disk: nothing acknowledged is lost.
 */
import assert from 'node:assert/strict';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';
import { hashesOf } from './damage.ts';
import { compileActor, Deployment } from './deployment.ts';
import { assertRefused, checkAfterFullDisk, fillUp } from './refusals.ts';
import { dump, WITNESS } from './witness.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

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
      /state cannot be the state directory: \S+state is a file; name a directory/,
    );
    assert.equal(await readFile(deployment.state, 'utf8'), 'a file');
  });

  test('that a newer or older version wrote, whose format file is damaged, or that another process uses; afterwards it is served', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { witness: WITNESS } });
    let host = await deployment.start();
    await host.server.post('/call/witness/write', 'kept');
    const written = await dump(host, 'witness');

    const { pid } = host.server.process;
    assertRefused(
      await deployment.refused(),
      new RegExp(`in use by process ${pid} since \\d{4}-.*; stop that process first`),
    );
    assert.equal(await dump(host, 'witness'), written);
    await host.server.post('/call/witness/write', 'more');
    const more = await dump(host, 'witness');
    await deployment.stop();

    const format = join(deployment.state, 'format');
    const text = await readFile(format, 'utf8');
    const files = await hashesOf(deployment.state);
    await writeFile(format, text.replace(/format \d+/, 'format 99'));
    assertRefused(await deployment.refused(), /has format 99, written by a newer svc; .*upgrade svc/);
    await writeFile(format, text.replace(/format \d+/, 'format 1'));
    assertRefused(
      await deployment.refused(),
      /has format 1, written by an older svc; .*go on with the svc that wrote it/,
    );
    await writeFile(format, text.replace('svc', 'SVC'));
    assertRefused(await deployment.refused(), /format is damaged: .*restore it from a backup/);
    await writeFile(format, text);
    assert.deepEqual(await hashesOf(deployment.state), files);
    // Without its format file, the directory is not ours.
    await rename(format, `${deployment.folder}/format`);
    assertRefused(await deployment.refused(), /not a state directory of svc/);
    await rename(`${deployment.folder}/format`, format);

    // The lock that a killed process has left does not prevent a start.
    host = await deployment.start();
    await deployment.kill();
    host = await deployment.start();
    assert.equal(await dump(host, 'witness'), more);
    await deployment.stop();
  });
});

suite('a full disk', () => {
  test('files that may not grow any more: the same', async (t: TestContext) => {
    const deployment = await Deployment.create(t, { modules: { keeper, other: keeper } });
    // The limit counts blocks of 1 KiB: a segment of the step log fits, and RocksDB's own log does until the tables
    // have grown much.
    const limit = ['bash', '-c', `trap '' XFSZ; ulimit -f 33000; exec "$@"`, 'limited'];
    let host = await deployment.start([], 'ready', limit);
    await host.call(await host.find('other'), 'append', [1]);
    const acknowledged = await fillUp(deployment);
    assert.ok(acknowledged > 10, `${acknowledged} fitted`);
    host = deployment.host;
    await checkAfterFullDisk(deployment, acknowledged);
  });
});
