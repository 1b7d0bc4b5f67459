import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tryAppending } from '../../kernel/index.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

test('what is there stays, and what is not there is gone again', async () => {
  const directory = await temporaryDirectory();
  const at = (name: string): string => join(directory, name);
  await writeFile(at('kept'), 'text');
  await symlink('target', at('link'));
  // Opening it would wait for a reader, or be refused without one.
  assert.equal(spawnSync('mkfifo', [at('pipe')]).status, 0);
  await mkdir(at('folder'));
  const before = (await readdir(directory)).toSorted();
  for (const name of ['kept', 'new', 'link', 'pipe']) await tryAppending(at(name));
  assert.deepEqual((await readdir(directory)).toSorted(), before);
  assert.equal(await readFile(at('kept'), 'utf8'), 'text');
  await assert.rejects(tryAppending(at('no/where')), { code: 'ENOENT', syscall: 'open' });
  await assert.rejects(tryAppending(at('folder')), { code: 'EISDIR' });
});
