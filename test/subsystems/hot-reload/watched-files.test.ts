import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WatchedFiles } from '../../../subsystems/hot-reload/watched-files.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

interface Watching {
  readonly root: string;
  readonly files: WatchedFiles;
  readonly warnings: string[];
  /** Returns the owners reported since the last call; resolves when `owner` is among them. */
  readonly told: (owner: string) => Promise<readonly string[]>;
}

async function watching(t: TestContext, foldersMax?: number): Promise<Watching> {
  const told = new Set<string>();
  const warnings: string[] = [];
  const log = { warn: (text: string): void => void warnings.push(text) };
  const files = new WatchedFiles(log, (owner) => told.add(owner), foldersMax);
  t.after(() => files[Symbol.dispose]());
  return {
    root: await temporaryDirectory(),
    files,
    warnings,
    told: async (owner) => {
      while (!told.has(owner)) await sleep(1);
      const all = [...told];
      told.delete(owner);
      return all;
    },
  };
}

/** Saves a file as editors do: a draft, which is then renamed. */
function save(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}~`, text);
  renameSync(`${file}~`, file);
}

suite('files that are watched', { timeout: 120_000 }, () => {
  test('a save is told to all who have the file, and to nobody else', async (t) => {
    const { root, files, told } = await watching(t);
    const [own, shared, other] = ['own.mo', 'lib/shared.mo', 'other.mo'].map((name) => join(root, name));
    assert.ok(own !== undefined && shared !== undefined && other !== undefined);
    for (const file of [own, shared, other]) save(file, 'before');
    await files.set('one', [own, shared]);
    await files.set('two', [other, shared]);
    assert.equal(files.size, 2);
    save(join(root, 'nobodys.mo'), 'x');
    save(own, 'after');
    assert.deepEqual(await told('one'), ['one']);
    writeFileSync(own, 'in place');
    assert.deepEqual(await told('one'), ['one']);
    save(shared, 'after');
    await Promise.all([told('one'), sleep(1)]);
    save(other, 'after');
    await told('two');
  });

  test('a file that is not there, in a folder that is not there, is told when it comes', async (t) => {
    const { root, files, told } = await watching(t);
    const file = join(root, 'to/come/soon.mo');
    await files.set('one', [file]);
    mkdirSync(join(root, 'to/come'), { recursive: true });
    await told('one');
    await files.set('one', [file]);
    save(file, 'here');
    await told('one');
    rmSync(file);
    await told('one');
  });

  test('a folder that comes while its files are being looked for leads on', async (t) => {
    const { root, files, told } = await watching(t);
    const file = join(root, '.mops/a@1.0.0/src/lib.mo');
    const setting = files.set('one', [file]);
    mkdirSync(join(root, '.mops/a@1.0.0'), { recursive: true });
    await setting;
    save(file, 'here');
    await told('one');
  });

  test('a link to nothing is told when its target comes; a loop is told when it is undone', async (t) => {
    const { root, files, told } = await watching(t);
    for (const path of ['to', 'at']) mkdirSync(join(root, path));
    const links = { 'a.mo': 'to/b.mo', 'to/b.mo': '../at/c.mo', store: 'at/deep' };
    for (const [link, target] of Object.entries(links)) symlinkSync(target, join(root, link));
    symlinkSync('loop', join(root, 'loop'));
    await files.set('one', [join(root, 'a.mo')]);
    save(join(root, 'at/c.mo'), 'here');
    await told('one');
    await files.set('two', [join(root, 'store/src/lib.mo')]);
    mkdirSync(join(root, 'at/deep'));
    await told('two');
    await files.set('three', [join(root, 'loop/lib.mo'), join(root, 'loop')]);
    rmSync(join(root, 'loop'));
    await told('three');
  });

  test('a folder in whose place another one comes is watched again', async (t) => {
    const { root, files, told } = await watching(t);
    const file = join(root, 'dist/actor.wasm');
    save(file, 'first');
    await files.set('one', [file]);
    renameSync(join(root, 'dist'), join(root, 'old'));
    await told('one');
    save(file, 'second');
    await files.set('one', [file]);
    save(file, 'third');
    await told('one');
    assert.equal(files.size, 1);
  });

  test('what a link leads to is told', async (t) => {
    const { root, files, told } = await watching(t);
    const target = join(root, 'there/real.mo');
    save(target, 'before');
    symlinkSync(target, join(root, 'link.mo'));
    await files.set('one', [join(root, 'link.mo')]);
    save(target, 'after');
    await told('one');
  });

  test('folders without watchers are let go; beyond the bound the log names the way out', async (t) => {
    const { root, files, warnings, told } = await watching(t, 2);
    const [a, b, c] = ['a/x', 'b/x', 'c/x'].map((name) => join(root, name));
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
    for (const file of [a, b, c]) save(file, 'before');
    await files.set('one', [a, b, c]);
    assert.equal(files.size, 2);
    assert.match(warnings.join(), /cannot watch .*c: 2 folders are watched already; POST \/upgrade/);
    await files.set('one', [c]);
    assert.equal(files.size, 0, 'the new ones come first');
    await files.set('one', [c]);
    assert.equal(files.size, 1);
    save(c, 'after');
    await told('one');
  });
});
