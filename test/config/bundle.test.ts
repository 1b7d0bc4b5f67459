import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { bundlesOf, type Current, CURRENT, findProgram, keyOf, PROGRAM, writeCurrent } from '../../config/bundle.js';
import { withSources } from '../../config/stacks.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

/** Makes a clone of one source with a bundle of it, without a bundler. */
async function clone() {
  const root = await temporaryDirectory();
  const source = join(root, 'config/main.ts');
  await write(source, 'export const run = 1;');
  // The time is older than the resolution of file systems.
  await utimes(source, new Date(0), new Date(0));
  const inputs = ['config/main.ts'];
  const key = await keyOf(root, inputs);
  const bundle = join(bundlesOf(root), key, PROGRAM);
  await write(bundle, 'export const run = 1;');
  writeCurrent(bundlesOf(root), { key, inputs });
  return { root, source, bundle, current: join(bundlesOf(root), CURRENT) };
}

async function programOf(root: string): Promise<string> {
  const { program, reason } = await findProgram(root);
  assert.equal(reason === undefined, program.href.endsWith('.mjs'));
  return fileURLToPath(program);
}

test('servers of this clone run from a bundle of its sources, which has all of them', async () => {
  const program = await programOf(ROOT);
  assert.ok(program.startsWith(bundlesOf(ROOT)), program);
  const { inputs } = JSON.parse(await readFile(join(bundlesOf(ROOT), CURRENT), 'utf8')) as Current;
  for (const file of [
    'config/main.ts',
    'package.json',
    'subsystems/storage/storage-thread.ts',
    'plugins/api/plugin.ts',
  ])
    assert.ok(inputs.includes(file), file);
});

test('installing a clone makes its bundle, and goes well where none can be made', async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const [program = '', ...args] = (scripts['prepare'] ?? '').split(' ');
  assert.equal(program, 'node');
  const { root, current } = await clone();
  await cp(join(ROOT, '.ci/prepare.js'), join(root, '.ci/prepare.js'));
  await cp(join(ROOT, 'config/bundle.js'), join(root, 'config/bundle.js'));
  await writeFile(join(root, 'package.json'), '{ "type": "module" }');
  const content = await readFile(current);
  await rm(current);
  const install = () => promisify(execFile)(process.execPath, args, { cwd: root });
  await install();
  assert.equal(existsSync(current), false, 'there is no bundler');
  await mkdir(join(root, 'node_modules/esbuild'));
  await write(
    join(root, '.ci/build-bundle.ts'),
    `import { writeFileSync } from 'node:fs';
writeFileSync(${JSON.stringify(current)}, ${JSON.stringify(content.toString())});`,
  );
  await install();
  const { key, inputs } = JSON.parse(await readFile(current, 'utf8')) as Current;
  // On a slow machine the file has a stamp by now.
  assert.deepEqual({ key, inputs }, JSON.parse(content.toString()));
});

test('a bundle is run while the sources have the content that it was made of, whatever their times', async () => {
  const { root, source, bundle } = await clone();
  assert.equal(await programOf(root), bundle);
  await utimes(source, new Date(1000), new Date(1000));
  assert.equal(await programOf(root), bundle);
  await writeFile(source, 'export const run = 2;');
  assert.equal(await programOf(root), source);
  await writeFile(source, 'export const run = 1;');
  assert.equal(await programOf(root), bundle);
});

test('a change is seen that leaves a source as long as it was and gives it its former time', async () => {
  const { root, source, bundle, current } = await clone();
  // The source's time of change is the present, whatever time it is given: so far no stamp can be trusted.
  await utimes(source, new Date(0), new Date(0));
  assert.equal(await programOf(root), bundle);
  assert.equal((JSON.parse(await readFile(current, 'utf8')) as Current).stamp, undefined);
  await writeFile(source, 'export const run = 2;');
  await utimes(source, new Date(0), new Date(0));
  assert.equal(await programOf(root), source);
});

test('without a bundler, and with damage to what says which bundle is current, the sources themselves run', async () => {
  const { root, source, bundle, current } = await clone();
  for (const text of ['', '{', 'null', '{"key":"../..","inputs":[]}', '{"key":"0","inputs":["no-such-file"]}']) {
    await writeFile(current, text);
    assert.equal(await programOf(root), source, text);
  }
  const { reason } = await findProgram(root);
  assert.match(reason ?? '', /esbuild/);
  assert.ok(existsSync(bundle));
});

test('a package runs the bundle that it brings', async () => {
  const root = await temporaryDirectory();
  assert.equal(await programOf(root), join(root, 'bundle', PROGRAM));
});

test('stacks of a bundle are told with places of the sources', async () => {
  const folder = await temporaryDirectory();
  const source = join(folder, 'source.ts');
  const outfile = join(folder, 'out', 'program.mjs');
  await write(
    source,
    'type Text = string;\n\nexport function fail(text: Text): never {\n  throw new Error(text);\n}\n',
  );
  await build({ entryPoints: [source], outfile, bundle: true, format: 'esm', sourcemap: 'linked' });
  const { fail } = (await import(pathToFileURL(outfile).href)) as { fail: (text: string) => never };
  const thrown = (): string => {
    try {
      return fail('on purpose');
    } catch (error) {
      return error instanceof Error ? (error.stack ?? '') : '';
    }
  };
  const stack = withSources(thrown());
  assert.ok(stack.includes(`at fail (${pathToFileURL(source).href}:4:9)`), stack);
  assert.ok(stack.includes('bundle.test.ts:'), 'what is no bundle stays as it is');
  assert.equal(withSources('at x (file:///nowhere/a.mjs:1:2)'), 'at x (file:///nowhere/a.mjs:1:2)');
});
