/**
 * Every file in a state directory is private to its user: RocksDB's files too, whatever the umask, and files that were
 * open to others before.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { exposedIn, rightsIn } from '../../support/file-rights.ts';
import { Deployment } from './deployment.ts';

const COUNTER = 'persistent actor { var n = 0; public func inc() : async Nat { n += 1; n } }';
const under = (umask: string): readonly string[] => ['bash', '-c', `umask ${umask}; exec "$@"`, 'under'];

suite('a state directory', () => {
  test('is closed to other users under any umask, after a stop, a kill, a restore, and when it had been opened', async (t) => {
    const deployment = await Deployment.create(t);
    await writeFile(join(deployment.folder, 'Counter.mo'), COUNTER);
    await writeFile(
      join(deployment.folder, 'actors.json'),
      JSON.stringify({ actors: { counter: { main: 'Counter.mo' } } }),
    );
    let count = 0;
    const inc = async (): Promise<void> => {
      const { host } = deployment;
      assert.equal(await host.call(await host.find('counter'), 'inc'), ++count);
    };

    for (const umask of ['000', '0777', '0022']) {
      await deployment.start([], 'ready', under(umask));
      await inc();
      assert.deepEqual(await exposedIn(deployment.state), [], `under ${umask}`);
      await (umask === '000' ? deployment.stop() : deployment.kill());
      assert.deepEqual(await exposedIn(deployment.state), [], `under ${umask}`);
    }
    const files = [...(await rightsIn(deployment.state)).keys()];
    for (const kind of [/^tables\/\d+\.sst$/, /^tables\/\d+\.log$/, /^log\/segment/, /^motoko\/./]) {
      assert.ok(
        files.some((file) => kind.test(file)),
        String(kind),
      );
    }

    assert.equal(spawnSync('chmod', ['-R', 'a+rwX', deployment.state]).status, 0);
    assert.ok((await exposedIn(deployment.state)).length > 10);
    await deployment.start([], 'ready', under('000'));
    await inc();
    assert.deepEqual(await exposedIn(deployment.state), []);
    const backup = join(deployment.folder, 'kept.backup');
    const response = await deployment.host.server.fetch('/backup');
    await writeFile(backup, Buffer.from(await response.arrayBuffer()));
    await deployment.stop();
    assert.equal(spawnSync('rm', ['-r', deployment.state]).status, 0);
    await deployment.start(['--restore', backup], 'ready', under('000'));
    await inc();
    assert.deepEqual(await exposedIn(deployment.state), []);
    await deployment.stop();
    assert.deepEqual(await exposedIn(deployment.state), []);
  });
});
