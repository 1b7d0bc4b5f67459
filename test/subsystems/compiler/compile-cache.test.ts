import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { CompileCache } from '../../../subsystems/compiler/compile-cache.ts';

const ENTRY = {
  wasm: new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]),
  candid: 'service : { "é" : () -> () }',
  stableTypes: '// Version: 1.0.0\nactor {};',
  warnings: [],
};

/** Only Linux always has a file system in which no directory can be made: /proc. */
const LINUX = { timeout: 60_000, skip: process.platform !== 'linux' && 'there is no /proc' };

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'svc-cache-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

test('where no directory can be made, as below /proc, nothing is stored, and that is said at once', LINUX, async () => {
  assert.match(String(await new CompileCache('/proc/nowhere/motoko').write('a', ENTRY)), /mkdir '\/proc\/nowhere'/);
});

test('what was stored is read back, by another cache too, and nothing else lies around', async (t) => {
  const directory = join(await folder(t), 'made', 'on', 'demand');
  assert.equal(await new CompileCache(directory).read('a'), undefined);
  assert.equal(await new CompileCache(directory).write('a', ENTRY), undefined);
  assert.deepEqual(await new CompileCache(directory).read('a'), ENTRY);
  assert.equal(await new CompileCache(directory).read('b'), undefined);
  assert.deepEqual(await readdir(directory), ['a.motoko']);
});

test('an entry that is cut or changed anywhere is treated as absent', async (t) => {
  const directory = await folder(t);
  const cache = new CompileCache(directory);
  await cache.write('a', ENTRY);
  const file = join(directory, 'a.motoko');
  const good = await readFile(file);
  for (let length = 0; length < good.length; length += 7) {
    await writeFile(file, good.subarray(0, length));
    assert.equal(await cache.read('a'), undefined, `cut to ${length} bytes`);
  }
  for (let offset = 0; offset < good.length; offset += 3) {
    const bad = Buffer.from(good);
    bad[offset] = (bad[offset] ?? 0) ^ 1;
    await writeFile(file, bad);
    assert.equal(await cache.read('a'), undefined, `byte ${offset} changed`);
  }
  await writeFile(file, good);
  assert.deepEqual(await cache.read('a'), ENTRY);
});

test('what a killed process left unfinished is removed after a while, and foreign files never', async (t) => {
  const directory = await folder(t);
  const unfinished = (letter: string): string =>
    join(directory, `.${letter}.${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`);
  const longAgo = new Date(Date.now() - 2 * 60 * 60_000);
  for (const file of [unfinished('a'), unfinished('b'), join(directory, 'foreign')]) {
    await writeFile(file, 'x');
    if (file !== unfinished('b')) await utimes(file, longAgo, longAgo);
  }
  await new CompileCache(directory).write('c', ENTRY);
  const left = (await readdir(directory)).map((name) => name.split('.').slice(0, 2).join('.'));
  assert.deepEqual(left.toSorted(), ['.b', 'c.motoko', 'foreign']);
});

test('a folder that cannot be used is a reason, not an error', async (t) => {
  const directory = join(await folder(t), 'file');
  await writeFile(directory, 'not a folder');
  const cache = new CompileCache(directory);
  assert.equal(await cache.read('a'), undefined);
  assert.ok((await cache.write('a', ENTRY)) instanceof Error);
});
