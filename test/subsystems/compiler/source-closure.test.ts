import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { collectClosure } from '../../../subsystems/compiler/source-closure.ts';
import type { SourceClosure } from '../../../subsystems/compiler/closure.ts';
import { diskSources, memorySources, readBounded } from '../../../subsystems/compiler/source-reader.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

function collect(files: Readonly<Record<string, string>>): Promise<SourceClosure> {
  return collectClosure(Object.keys(files)[0] ?? '/', memorySources(new Map(Object.entries(files))));
}

async function project(t: TestContext, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'svc-closure-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
  return root;
}

const messages = (closure: SourceClosure): readonly string[] => closure.problems.first.map(({ message }) => message);

test('relative imports are followed to files and to folders with lib.mo, each once', async () => {
  const closure = await collect({
    '/p/src/Main.mo': 'import A "A"; import B "./deep/B"; import Text "mo:core/Text"; import P "mo:⛔"; actor {}',
    '/p/src/A.mo': 'import C "../C"; import Map "mo:core/pure/Map"; module {}',
    '/p/src/deep/B/lib.mo': 'import C "../../../C"; import A "../../A"; module {}',
    '/p/C.mo': 'module {}',
    '/p/unused.mo': 'import X "mo:foo/X"; module {}',
  });
  assert.equal(closure.root, '/p');
  assert.equal(closure.main, 'src/Main.mo');
  assert.deepEqual([...closure.files.keys()], ['src/Main.mo', 'src/A.mo', 'C.mo', 'src/deep/B/lib.mo']);
  assert.deepEqual([...closure.coreModules.keys()], ['pure/Map', 'Text']);
  assert.equal(closure.problems.count, 0);
});

test('the closure does not depend on where the project lies', async () => {
  const at = (root: string): Promise<SourceClosure> =>
    collect({
      [`${root}/Main.mo`]: 'import L "./lib"; import M "mo:core/Map"; actor {}',
      [`${root}/lib.mo`]: 'module {}',
    });
  const { root: here, places: _, ...first } = await at('/a');
  const { root: there, places: _elsewhere, ...second } = await at('/somewhere/else');
  assert.notEqual(here, there);
  assert.deepEqual(first, second);
});

test('X.mo goes before X/lib.mo, and a trailing slash means the folder', async () => {
  const files = { '/X.mo': 'module {}', '/X/lib.mo': 'module {}' };
  assert.ok((await collect({ '/M.mo': 'import X "X"; actor {}', ...files })).files.has('X.mo'));
  assert.ok((await collect({ '/M.mo': 'import X "X/"; actor {}', ...files })).files.has('X/lib.mo'));
});

test('each import that cannot be resolved is named with its place and the way out', async () => {
  const closure = await collect({
    '/Main.mo': `import A "mo:foo/Bar";
      import B "./Lib"; import C "ic:aaaaa-aa";
      import D "./nope"; import E "./Lib.mo";
      import F "mo:base/Text"; import G "blob:file:x"; import H "https://x"; import I "/abs"; import J ""; import K "mo:core";
      actor {}`,
    '/Lib.mo': 'module {}',
  });
  assert.deepEqual(messages(closure), [
    'no mops.toml says where the package foo is',
    'import "ic:aaaaa-aa" needs an interface: write args = ["--actor-idl=idl"] below [moc] in mops.toml, ' +
      'and put it into idl/aaaaa-aa.did; an actor of the manifest is imported as "canister:<name>"',
    'import "./nope" finds no file: there is neither nope.mo nor nope/lib.mo',
    'import "./Lib.mo" finds no file: there is neither Lib.mo.mo nor Lib.mo/lib.mo; write "./Lib", without .mo',
    'mo:base does not come with the compiler, which bundles its successor mo:core ' +
      '(the same modules under "mo:core/…"); or add base to mops.toml: import "mo:base/Text" in Main.mo:4',
    'import "blob:file:x" finds no file: there is no x',
    'unknown kind of import (known are "./path", "mo:package/Module", "canister:name", "ic:principal" and ' +
      '"blob:file:path"): import "https://x" in Main.mo:4',
    'imports are relative to the importing file; absolute paths are not supported: import "/abs" in Main.mo:4',
    'an import needs a path: import "" in Main.mo:4',
    'name the module of mo:core ("mo:core/Text"): import "mo:core" in Main.mo:4',
  ]);
  assert.deepEqual(closure.problems.first[1]?.start, { line: 1, byte: 33 });
  assert.deepEqual(closure.problems.first[1]?.end, { line: 1, byte: 46 });
});

test('of very many imports that cannot be resolved the first are worked out, and all are counted', async () => {
  const usedBefore = process.cpuUsage();
  for (const between of ['\n', ' ']) {
    const imports = (scheme: string): string =>
      Array.from({ length: 60_000 }, (_, k) => `import A${k} "${scheme}${k}";`).join(between);
    const { problems, missing } = await collect({ '/Main.mo': `${imports('blob:f')}${between}actor {}` });
    assert.deepEqual([problems.first.length, problems.count, missing.length], [50, 60_000, 60_000]);
    assert.match(problems.first[49]?.message ?? '', between === '\n' ? /"blob:f49" in Main\.mo:50$/ : /Main\.mo:1$/);
  }
  // Each of 300 files imports itself and all files that import it.
  const chain = Array.from({ length: 300 }, (_, k) => {
    const before = Array.from({ length: k + 1 }, (_other, at) => `import L${at} "./F${at}";`).join('\n');
    return [`/F${k}.mo`, `${before}\nimport Next "./F${k + 1}"; module {}`] as const;
  });
  const { problems, missing } = await collect(Object.fromEntries(chain));
  assert.deepEqual([problems.count, missing.length], [(300 * 301) / 2 + 1, 1]);
  assert.match(problems.first[2]?.message ?? '', /^import cycle: F1\.mo → F1\.mo;/);
  // If the text were read anew for each cycle, this would take minutes.
  assert.ok(process.cpuUsage(usedBefore).user < 15_000_000);
});

test('imported actors are found in every file, each with where it was first', async () => {
  const closure = await collect({
    '/p/Main.mo': 'import L "./Lib";\nimport Ledger "canister:ledger"; actor {}',
    '/p/Lib.mo':
      '// a library may import one too\nimport { get } "canister:ledger"; import O "canister:odd name"; module {}',
  });
  assert.equal(closure.problems.count, 0);
  assert.deepEqual(
    [...closure.actors].map(([name, { file, reference }]) => [name, file, reference.url]),
    [
      ['ledger', 'Lib.mo', 'canister:ledger'],
      ['odd name', 'Lib.mo', 'canister:odd name'],
    ],
  );
});

test('a cycle is shown from file to file', async () => {
  const cycle = await collect({
    '/Main.mo': 'import A "a/A"; actor {}',
    '/a/A.mo': 'import B "../B"; module {}',
    '/B.mo': 'import A "a/A"; module {}',
  });
  assert.deepEqual(messages(cycle), ['import cycle: a/A.mo → B.mo → a/A.mo; move what both need into a third file']);
  assert.equal(cycle.problems.first[0]?.file, 'B.mo');
  const self = await collect({ '/Main.mo': 'import M "./Main"; actor {}' });
  assert.match(messages(self)[0] ?? '', /^import cycle: Main\.mo → Main\.mo;/u);
});

test('a main file that is absent, a folder or a pipe is refused at once', async (t) => {
  const root = await project(t, { 'folder.mo/x': '' });
  execFileSync('mkfifo', [join(root, 'pipe.mo')]);
  for (const [name, reason] of [
    ['absent.mo', /no such file/u],
    ['folder.mo', /no such file/u],
    ['folder.mo/x/y.mo', /no such file/u],
    ['pipe.mo', /not a regular file/u],
  ] as const) {
    await assert.rejects(
      collectClosure(join(root, name), diskSources),
      { code: 'source-unreadable', message: reason },
      name,
    );
  }
});

test('symbolic links are followed, and a loop of them is refused', async (t) => {
  const root = await project(t, { 'real/Main.mo': 'import L "./L"; actor {}', 'real/L.mo': 'module {}' });
  await symlink('real', join(root, 'linked'));
  await symlink('loop.mo', join(root, 'loop.mo'));
  assert.equal((await collectClosure(join(root, 'linked/Main.mo'), diskSources)).files.size, 2);
  await assert.rejects(collectClosure(join(root, 'loop.mo'), diskSources), { message: /symbolic links form a loop/u });
  await writeFile(join(root, 'Main.mo'), 'import L "./loop"; actor {}');
  const closure = await collectClosure(join(root, 'Main.mo'), diskSources);
  assert.match(messages(closure)[0] ?? '', /cannot read .*loop\.mo: its symbolic links form a loop/u);
});

test('a file that is not UTF-8 is refused with its line, and a byte order mark is no part of the text', async (t) => {
  const root = await project(t, {
    'Latin.mo': Buffer.from('actor {\n let x = "é"\n}', 'latin1'),
    'Cut.mo': Buffer.from('actor {} // é').subarray(0, -1),
    'Mark.mo': '\ufeffactor {}',
  });
  await assert.rejects(collectClosure(join(root, 'Latin.mo'), diskSources), {
    code: 'source-unreadable',
    message: /not UTF-8 text \(line 2\)/u,
  });
  await assert.rejects(collectClosure(join(root, 'Cut.mo'), diskSources), { message: /not UTF-8/u });
  assert.equal((await collectClosure(join(root, 'Mark.mo'), diskSources)).files.get('Mark.mo'), 'actor {}');
});

test('a file that grows between a look at its length and the reading is read to its end', async (t) => {
  const root = await project(t, { 'Main.mo': '' });
  const path = join(root, 'Main.mo');
  const bytes = await readBounded(path, async (_file, when) => {
    if (when === 'opened') await writeFile(path, 'actor {}');
  });
  assert.equal(Buffer.from(bytes ?? []).toString(), 'actor {}');
});

test('huge files and endless imports are bounded', async (t) => {
  const root = await project(t, { 'Huge.mo': '' });
  await truncate(join(root, 'Huge.mo'), 2 ** 40);
  const cpuMs = startCpuTimer();
  await assert.rejects(collectClosure(join(root, 'Huge.mo'), diskSources), { message: /more than 8388608 bytes/u });
  const endless = {
    isFolder: async () => false,
    readBytes: async () => undefined,
    list: async () => [],
    readTree: async () => new Map(),
    read: async (path: string) => `import N "${Number.parseInt(path.slice(1), 10) + 1}"; module {}`,
  };
  await assert.rejects(collectClosure('/0.mo', endless), {
    code: 'source-too-large',
    message: /more than 5000 files/u,
  });
  assert.ok(cpuMs() < 2000);
});
