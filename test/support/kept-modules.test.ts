import assert from 'node:assert/strict';
import { readdirSync, statSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { CompileCache } from '../../subsystems/compiler/compile-cache.ts';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import { unpackModules } from './kept-modules.ts';
import { ANY_ACTOR } from './motoko.ts';
import { temporaryDirectory } from './temporary-directory.ts';

test('the modules that a clone brings are whole, and of the compiler that is installed', async () => {
  const directory = await temporaryDirectory();
  const count = await unpackModules(directory);
  const names = readdirSync(directory);
  assert.equal(names.length, count);
  const cache = new CompileCache(directory);
  for (const name of names) assert.ok(await cache.peek(basename(name, '.motoko')), `${name} is damaged`);
  const compiler = createCompiler({ cacheDirectory: directory, processesMax: 1 });
  const { isCached } = await compiler.compileText(new Map([['Main.mo', ANY_ACTOR]]));
  await compiler.close();
  assert.ok(isCached, 'another compiler made them: run npm test and npm run build:test-modules');
});

test('a module that is there stays, and one that is missing comes back', async () => {
  const directory = await temporaryDirectory();
  await unpackModules(directory);
  const [first = '', second = ''] = readdirSync(directory);
  truncateSync(join(directory, first));
  const { size } = statSync(join(directory, second));
  const other = await temporaryDirectory();
  await unpackModules(other);
  assert.equal(statSync(join(other, second)).size, size);
  await unpackModules(directory);
  assert.equal(statSync(join(directory, first)).size, 0);
});
