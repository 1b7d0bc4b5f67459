/** Folders as they may be found: names, links, files that are none, files that change. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { FileChanged } from '../../../subsystems/assets/faults.ts';
import { AssetFolder, PIECE_BYTES, piecesOf } from '../../../subsystems/assets/folder.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(await temporaryDirectory(), 'dist');
  await mkdir(folder);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}

const keysOf = (folder: string): readonly string[] => new AssetFolder(folder).read().map(({ key }) => key);

function refusal(folder: string): string {
  try {
    new AssetFolder(folder).read();
  } catch (error) {
    assert.ok(error instanceof ServerError, String(error));
    assert.equal(error.code, 'assets-folder');
    return error.message.replaceAll(folder, 'dist');
  }
  return assert.fail('it was read');
}

suite('folders of websites', () => {
  test('names as they are; those that begin with a dot are left out, .well-known is not', async () => {
    const files = ['a%20b.txt', 'a b.txt', 'Case.txt', 'case.txt', 'ü/ñ.html', 'x\ny', '.well-known/acme', 'empty'];
    const hidden = ['.git/config', '.env', 'ü/.hidden', '.well-known/.x'];
    const folder = await folderOf(Object.fromEntries([...files, ...hidden].map((name) => [name, name])));
    assert.deepEqual(keysOf(folder), files.map((name) => `/${name}`).toSorted());
    for (const { key, sha256, size } of new AssetFolder(folder).read()) {
      assert.equal(sha256, createHash('sha256').update(key.slice(1)).digest('base64'));
      assert.equal(size, Buffer.byteLength(key.slice(1)));
    }
  });

  test('links within are followed; those that lead out, to nothing or in a circle are refused by name', async () => {
    const folder = await folderOf({ 'a.txt': 'a', 'sub/b.txt': 'b', '../secret': 's', '../distant/c': 'c' });
    await symlink('../a.txt', join(folder, 'sub/link.txt'));
    await symlink('sub', join(folder, 'again'));
    assert.deepEqual(keysOf(folder), ['/a.txt', '/again/b.txt', '/again/link.txt', '/sub/b.txt', '/sub/link.txt']);
    // The folder may be a link itself.
    await symlink(folder, `${folder}-link`);
    assert.equal(keysOf(`${folder}-link`).length, 5);
    const refused: readonly (readonly [string, RegExp])[] = [
      ['../secret', /^dist\/sub\/bad is a link to nothing/],
      ['../../secret', /^dist\/sub\/bad is a link that leads out of the folder, to .*secret: copy the file/],
      ['../../distant', /leads out of the folder/],
      ['..', /^dist\/sub\/bad is a link to a folder that it is in/],
      ['bad', /is a link to nothing/],
    ];
    for (const [target, message] of refused) {
      await symlink(target, join(folder, 'sub/bad'));
      assert.match(refusal(folder), message, target);
      execFileSync('rm', [join(folder, 'sub/bad')]);
    }
  });

  test('what is no file, has a name that is no text, or is not there', async () => {
    const folder = await folderOf({ 'a.txt': 'a' });
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    assert.match(refusal(folder), /^dist\/pipe is no file and no folder/);
    execFileSync('rm', [join(folder, 'pipe')]);
    await writeFile(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x61, 0xff])]), 'x');
    assert.match(refusal(folder), /has a name that is not UTF-8/);
    assert.match(refusal(join(folder, 'nowhere')), /cannot be read: ENOENT/);
    assert.match(refusal(join(folder, 'a.txt')), /is no folder/);
  });

  test('a file that changes while it is read is told, and a file as it was is not read again', async () => {
    const folder = await folderOf({ 'a.txt': 'a'.repeat(PIECE_BYTES + 5) });
    const read = new AssetFolder(folder);
    const [file] = read.read();
    assert.ok(file);
    const sizes: number[] = [];
    for (const piece of piecesOf(file)) sizes.push(piece.length);
    assert.deepEqual(sizes, [PIECE_BYTES, 5]);
    const changing = (): void => {
      for (const piece of piecesOf(file)) if (piece.length > 5) appendFileSync(file.path, 'b');
    };
    assert.throws(changing, FileChanged);
    assert.throws(() => piecesOf(file).next(), FileChanged);
    // The hash is new, also at the same size and with a time that was put back.
    await writeFile(file.path, 'c'.repeat(PIECE_BYTES + 5));
    await utimes(file.path, new Date(0), new Date(0));
    const [again] = read.read();
    assert.notEqual(again?.sha256, file.sha256);
  });
});
