/**
 * State directories that earlier versions wrote are served, whatever has been added since:
 *
 *     format-2-killed.tar.br   two actors with updates in the tables and, since the server was killed, in the log; the
 *                              tables do not say what the log must have, and everybody may read the files
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { Deployment } from './deployment.ts';
import { dump } from './witness.ts';

suite('a state directory of an earlier version', () => {
  test('that was killed: everything that it had answered is there, also after a kill of this one', async (t) => {
    const deployment = await Deployment.create(t);
    const packed = await readFile(new URL('../../fixtures/state/format-2-killed.tar.br', import.meta.url));
    const options = { input: brotliDecompressSync(packed), cwd: deployment.folder, encoding: 'utf8' } as const;
    const { status, stderr } = spawnSync('tar', ['-x', '-f', '-', '--no-same-owner'], options);
    assert.equal(status, 0, stderr);

    const numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    for (const next of [11, 12, 13]) {
      const host = await deployment.start();
      const actor = await host.find('keeper');
      assert.deepEqual(await host.query(actor, 'all'), numbers);
      const written = Buffer.from(await dump(host, 'witness'), 'hex').toString('latin1');
      // Two lines, each in heap and stable memory; a line has eight bytes of its message.
      assert.equal(written.split('before t').length - 1, 4);
      assert.equal(await host.call(actor, 'append', [next]), next);
      numbers.push(next);
      if (next === 12) await deployment.stop();
      else await deployment.kill();
    }
  });
});
