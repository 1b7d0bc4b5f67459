/**
 * Tests the parts of a program besides imported sources: blobs, interfaces of principals, packages that serve without
 * an import.
 */
import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { readCorePackage } from '../../../subsystems/compiler/core-package.ts';
import { importedActors, NO_ACTORS } from '../../../subsystems/compiler/imported-actors.ts';
import { compilerArgsOf } from '../../../subsystems/compiler/mops/compiler-args.ts';
import type { SourceClosure } from '../../../subsystems/compiler/closure.ts';
import { collectClosure } from '../../../subsystems/compiler/source-closure.ts';
import { diskSources, memorySources, NotedSources } from '../../../subsystems/compiler/source-reader.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

type Files = Readonly<Record<string, string | Uint8Array>>;

function collect(files: Files, args: readonly string[] = []): Promise<SourceClosure> {
  return collectClosure('/p/src/Main.mo', memorySources(new Map(Object.entries(files))), {
    mops: { stores: [], environment: 'local', ceiling: '/p' },
    args: compilerArgsOf({ args: args }, '/p/mops.toml'),
    builtIn: new Map([['aaaaa-aa', 'service : { built : () -> () }']]),
  });
}
const messagesOf = ({ problems }: SourceClosure): readonly string[] => problems.first.map(({ message }) => message);
const NUL = Uint8Array.of(0, 255, 10);

describe('blobs', () => {
  it('are files beside the importing one, of the closure and of its root, in packages too', async () => {
    const closure = await collect({
      '/p/src/Main.mo': 'import L "sub/L"; import A "blob:file:../assets/a b.bin"; import P "mo:p"; actor {}',
      '/p/src/sub/L.mo':
        'import A "blob:file:../../assets/./a b.bin"; import B "blob:file:b"; import M "Main2"; module {}',
      '/p/src/sub/b': NUL,
      '/p/src/sub/Main2.mo': 'import S "blob:file:L.mo"; module {}',
      '/p/assets/a b.bin': NUL,
      '/p/mops.toml': '[dependencies]\np = "1.0.0"\n',
      '/p/.mops/p@1.0.0/src/lib.mo': 'import D "blob:file:../data/d"; module {}',
      '/p/.mops/p@1.0.0/data/d': 'text',
    });
    assert.deepEqual(messagesOf(closure), []);
    assert.equal(closure.root, '/p');
    assert.deepEqual([...closure.blobs.keys()].toSorted(), ['assets/a b.bin', 'mo:p@1.0.0/data/d', 'src/sub/b']);
    assert.deepEqual(closure.blobs.get('src/sub/b'), NUL);
    assert.equal(closure.places.get('mo:p@1.0.0/data/d')?.package?.name, 'p');
    assert.deepEqual(closure.external, []);
  });

  it('that cannot be had are named with their place and the reason', async () => {
    const closure = await collect({
      '/p/src/Main.mo': [
        ...['file:gone', 'file:/etc/passwd', 'file:', 'file:sub/', 'http://x', 'file:sub'].map(
          (path, k) => `import B${k} "blob:${path}";`,
        ),
        'import P "mo:p"; actor {}',
      ].join('\n'),
      '/p/src/sub/x': 'x',
      '/p/mops.toml': '[dependencies]\np = "1.0.0"\n',
      '/p/.mops/p@1.0.0/src/lib.mo': 'import D "blob:file:../../../secret"; module {}',
      '/p/secret': 'x',
    });
    assert.deepEqual(messagesOf(closure), [
      'import "blob:file:gone" finds no file: there is no gone',
      'blobs are relative to the importing file; absolute paths are not supported: import "blob:file:/etc/passwd" in Main.mo:2',
      'a blob is a file; name one ("blob:file:data.txt"): import "blob:file:" in Main.mo:3',
      'a blob is a file; name one ("blob:file:data.txt"): import "blob:file:sub/" in Main.mo:4',
      'the only blobs are files ("blob:file:data.txt"): import "blob:http://x" in Main.mo:5',
      'import "blob:file:sub" finds no file: there is no sub',
      'import "blob:file:../../../secret" leaves the package p',
    ]);
    assert.deepEqual([...closure.blobs], []);
    const huge = await collect({ '/p/src/Main.mo': 'import B "blob:file:b"; actor {}', '/p/src/b': new Uint8Array(1) });
    assert.equal(huge.blobs.size, 1);
  });

  it('are watched, also one that is not there yet, and so are interfaces', async () => {
    const reader = new NotedSources(
      memorySources(new Map([['/p/src/Main.mo', 'import B "blob:file:b"; import I "ic:aaaaa-aa"; actor {}']])),
    );
    await collectClosure('/p/src/Main.mo', reader, {
      args: compilerArgsOf({ args: ['--actor-idl=idl'] }, '/p/mops.toml'),
    });
    assert.deepEqual(reader.sources().toSorted(), ['/p/idl/aaaaa-aa.did', '/p/src/Main.mo', '/p/src/b']);
  });
});

describe('interfaces of principals', () => {
  const OTHER = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
  const MAIN = `import A "ic:aaaaa-aa"; import B "ic:${OTHER}"; import C "canister:led"; actor {}`;

  it('are of the folder that --actor-idl names, relative to mops.toml; that of the system is built in', async () => {
    const files = { '/p/src/Main.mo': MAIN, [`/p/idl/${OTHER}.did`]: 'service : { other : () -> () }' };
    const args = ['--actor-idl', 'idl', '--actor-alias', 'led', OTHER];
    const closure = await collect(files, args);
    assert.deepEqual(messagesOf(closure), []);
    const { actors, problems } = await importedActors(closure, NO_ACTORS);
    assert.equal(problems.count, 0);
    const candid = 'service : { other : () -> () }';
    assert.deepEqual(actors, [
      { name: 'led', principal: OTHER, candid },
      { principal: 'aaaaa-aa', candid: 'service : { built : () -> () }' },
    ]);
    assert.deepEqual(closure.places.get(`../idl/${OTHER}.did`), { path: `/p/idl/${OTHER}.did`, package: undefined });
    // A file of the project takes precedence over a built-in one.
    const own = await collect({ ...files, '/p/idl/aaaaa-aa.did': 'service : {}' }, args);
    assert.equal(own.principals.get('aaaaa-aa'), 'service : {}');
    // An answer for a name takes precedence over an alias.
    const known = await importedActors(closure, async () => ({
      principal: 'aaaaa-aa',
      candid: 'service : { mine : () -> () }',
    }));
    assert.deepEqual(
      known.actors.map(({ name, candid: text }) => [name, text]),
      [
        ['led', 'service : { mine : () -> () }'],
        [undefined, candid],
      ],
    );
  });

  it('that are missing, or no principals, are told with the way out', async () => {
    const files = { '/p/src/Main.mo': `import B "ic:${OTHER}"; import C "ic:bkyz2"; actor {}` };
    assert.deepEqual(messagesOf(await collect(files)), [
      `import "ic:${OTHER}" needs an interface: write args = ["--actor-idl=idl"] below [moc] in mops.toml, ` +
        `and put it into idl/${OTHER}.did; an actor of the manifest is imported as "canister:<name>"`,
      'that is no principal: import "ic:bkyz2" in Main.mo:1',
    ]);
    const closure = await collect(files, ['--actor-idl=idl']);
    assert.equal(messagesOf(closure)[0], `import "ic:${OTHER}" finds no interface: there is no ../idl/${OTHER}.did`);
    assert.deepEqual(closure.missing[0], { url: `ic:${OTHER}`, from: 'Main.mo' });
    const bytes = await collect({ ...files, [`/p/idl/${OTHER}.did`]: Uint8Array.of(255) }, ['--actor-idl=idl']);
    assert.match(messagesOf(bytes)[0] ?? '', /cannot read \/p\/idl\/.*\.did: it is not UTF-8 text/u);
  });
});

describe('the library that comes with the compiler', () => {
  const MAIN = 'import Map "mo:core/Map"; import S "mo:core@old/Set"; actor {}';

  it('is there without mops install where mops.toml, or a package, names that very version, also by another name', async () => {
    const { version } = await readCorePackage();
    const closure = await collect({
      '/p/src/Main.mo': MAIN,
      '/p/mops.toml': `[dependencies]\ncore = "${version}"\n"core@old" = "${version}"\n`,
    });
    assert.deepEqual(messagesOf(closure), []);
    assert.deepEqual([...closure.coreModules.keys()], ['Map', 'Set']);
    assert.deepEqual([...closure.packages], [['core@old', 'mo:core']]);
    const installed = await collect({
      '/p/src/Main.mo': 'import Map "mo:core/Map"; actor {}',
      '/p/mops.toml': `[dependencies]\ncore = "${version}"\n`,
      [`/p/.mops/core@${version}/src/Map.mo`]: 'module {}',
    });
    assert.equal(installed.coreModules.size, 0);
    const other = await collect({
      '/p/src/Main.mo': 'import M "mo:core/Map"; actor {}',
      '/p/mops.toml': '[dependencies]\ncore = "0.0.1"\n',
    });
    assert.deepEqual(messagesOf(other), [
      `the package core (0.0.1) is not installed; run mops install (core ${version} comes with the compiler and needs none)`,
    ]);
  });

  it('is imported by a module of it, whoever names it', async () => {
    const { version } = await readCorePackage();
    const own = `[dependencies]\ncore = "${version}"\n"core@old" = "${version}"\n`;
    for (const url of ['mo:core', 'mo:core/', 'mo:core@old', 'mo:core@old/']) {
      const [name] = url.slice('mo:'.length).split('/');
      for (const manifest of name === 'core' ? [own, ''] : [own]) {
        const files = { '/p/src/Main.mo': `import C "${url}"; actor {}`, '/p/mops.toml': manifest };
        const refusal = `name the module of mo:${name} ("mo:${name}/Text"): import "${url}" in Main.mo:1`;
        assert.deepEqual(messagesOf(await collect(files)), [refusal], manifest);
      }
    }
  });

  it('serves whole where it is implicit, and so does any package', async () => {
    const { modules } = await readCorePackage();
    const closure = await collect({ '/p/src/Main.mo': 'actor {}' }, ['--implicit-package=core']);
    assert.deepEqual([messagesOf(closure), closure.coreModules.size], [[], modules.length]);
    const package_ = {
      '/p/src/Main.mo': 'actor {}',
      '/p/mops.toml': '[dependencies]\nown = "./own"\n',
      '/p/own/src/A.mo': 'import B "deep/B"; module {}',
      '/p/own/src/deep/B.mo': 'module {}',
      '/p/own/src/Broken.mo': 'import N "Nowhere"; module {}',
      '/p/own/test/T.mo': 'module {}',
    };
    const own = await collect(package_, ['--implicit-package=own']);
    assert.deepEqual([...own.files.keys()].toSorted(), [
      'own/src/A.mo',
      'own/src/Broken.mo',
      'own/src/deep/B.mo',
      'src/Main.mo',
    ]);
    assert.deepEqual([...own.packages], [['own', 'own/src']]);
    assert.match(messagesOf(own).join(), /^import "Nowhere" finds no file/u);
    const unknown = await collect(package_, ['--implicit-package=gone']);
    assert.deepEqual(messagesOf(unknown), ['--implicit-package=gone: mops.toml has no package gone']);
    assert.deepEqual(unknown.missing, [{ url: '--implicit-package=gone', from: '../mops.toml' }]);
  });

  it('is listed from a disk without hidden folders and links, and within bounds', async () => {
    const root = await temporaryDirectory();
    for (const path of ['a.mo', 'b/c.mo', '.mops/x/d.mo', 'node_modules/e.mo', 'f.txt']) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), 'module {}');
    }
    await symlink(root, join(root, 'loop'));
    assert.deepEqual(await diskSources.list(root), [join(root, 'a.mo'), join(root, 'b/c.mo')]);
    await assert.rejects(diskSources.list(join(root, 'none')), { code: 'source-unreadable' });
  });
});

describe('a mops.lock of 10 MB', () => {
  it('is refused by name, with the way out', async () => {
    const root = await temporaryDirectory();
    await writeFile(join(root, 'Main.mo'), 'import A "mo:a"; actor {}');
    await writeFile(join(root, 'mops.toml'), '[dependencies]\na = "1.0.0"\n');
    await writeFile(join(root, 'mops.lock'), ' '.repeat(10_000_000));
    await assert.rejects(collectClosure(join(root, 'Main.mo'), diskSources), {
      message: /cannot read .*mops\.lock: it has more than 8388608 bytes; remove the file: then mops\.toml is read/u,
    });
  });
});

describe('migrations', () => {
  const PROJECT = {
    '/p/src/Main.mo': 'actor {}',
    '/p/src/Help.mo': 'module {}',
    '/p/migrations/1.mo': 'import H "../src/Help"; module {}',
    '/p/migrations/2.mo': 'import N "Nowhere"; module {}',
    '/p/migrations/deep/3.mo': 'module {}',
    '/p/migrations/note.txt': '',
  };

  it('are of the closure, with what they import, and not those of folders below', async () => {
    const closure = await collect(PROJECT, ['--enhanced-migration=migrations']);
    const files = ['migrations/1.mo', 'migrations/2.mo', 'src/Help.mo', 'src/Main.mo'];
    assert.deepEqual([closure.root, [...closure.files.keys()].toSorted()], ['/p', files]);
    assert.match(messagesOf(closure).join(), /^import "Nowhere" finds no file/u);
    assert.deepEqual([...(await collect(PROJECT)).files.keys()], ['Main.mo']);
  });

  it('are missed where their folder has none', async () => {
    for (const folder of ['gone', 'migrations/deep/empty']) {
      const closure = await collect(PROJECT, ['--enhanced-migration', folder]);
      assert.deepEqual(messagesOf(closure), [
        `--enhanced-migration=${folder}: there is no folder with migrations (.mo)`,
      ]);
    }
  });
});
