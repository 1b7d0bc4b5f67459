import assert from 'node:assert/strict';
import { readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pruneCache } from '../../kernel/index.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const HOUR_S = 3600;

test('a cache keeps what was used last, below its bound, and what is not its own', async () => {
  const directory = await temporaryDirectory();
  const nowS = Date.now() / 1000;
  const files: readonly (readonly [name: string, bytes: number, ageS: number])[] = [
    ['old.entry', 40, 300],
    ['used.entry', 40, 100],
    ['new.entry', 40, 10],
    ['.abandoned', 500, 2 * HOUR_S],
    ['.under-way', 500, 5],
    ['notes.txt', 500, 3 * HOUR_S],
  ];
  for (const [name, bytes, ageS] of files) {
    await writeFile(join(directory, name), new Uint8Array(bytes));
    await utimes(join(directory, name), nowS - ageS, nowS - ageS);
  }
  const kindOf = (name: string): 'finished' | 'unfinished' | undefined => {
    if (name.endsWith('.entry')) return 'finished';
    return name.startsWith('.') ? 'unfinished' : undefined;
  };
  const names = async (): Promise<string[]> => (await readdir(directory)).toSorted();
  // The unfinished files count as well, but only finished and abandoned ones go.
  await pruneCache(directory, { bytesMax: 580, kindOf });
  assert.deepEqual(await names(), ['.under-way', 'new.entry', 'notes.txt', 'used.entry']);
  await pruneCache(directory, { bytesMax: 580, kindOf });
  assert.deepEqual(await names(), ['.under-way', 'new.entry', 'notes.txt', 'used.entry']);
  await pruneCache(directory, { bytesMax: 0, kindOf });
  assert.deepEqual(await names(), ['.under-way', 'notes.txt']);
  await assert.rejects(pruneCache(join(directory, 'nowhere'), { bytesMax: 0, kindOf }), { code: 'ENOENT' });
});
