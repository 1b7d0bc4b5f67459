/**
 * Tests the parts of a program besides imported sources: blobs, interfaces of principals, packages that serve without
 * an import.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it, test } from 'node:test';
import { messageOf } from '../../../kernel/index.ts';
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
const problemsOf = ({ problems }: SourceClosure): readonly string[] => problems.first.map(({ message }) => message);
const NUL = Uint8Array.of(0, 255, 10);

test('an interface that is imported as a file is refused with what is needed, and what does instead', async () => {
  const closure = await collect({ '/p/src/Main.mo': 'import I "idl:x.did"; actor {}', '/p/src/x.did': 'service : {}' });
  assert.deepEqual(problemsOf(closure), [
    '"idl:" needs a newer Motoko compiler than the one that comes with this server; name a folder by ' +
      'args = ["--actor-idl=idl"] below [moc] in mops.toml, put the interface into it as <principal>.did, and import ' +
      '"ic:<principal>": import "idl:x.did" in Main.mo:1',
  ]);
});

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
    assert.deepEqual(problemsOf(closure), []);
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
    assert.deepEqual(problemsOf(closure), [
      'import "blob:file:gone" finds no file: there is no gone',
      'blobs are relative to the importing file; absolute paths are not supported: import "blob:file:/etc/passwd" in Main.mo:2',
      'a blob is a file; name one ("blob:file:data.txt"): import "blob:file:" in Main.mo:3',
      'a blob is a file; name one ("blob:file:data.txt"): import "blob:file:sub/" in Main.mo:4',
      'the only blobs are files ("blob:file:data.txt"): import "blob:http://x" in Main.mo:5',
      'import "blob:file:sub" finds no file: there is no sub (that is a folder)',
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
    assert.deepEqual(problemsOf(closure), []);
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
    assert.deepEqual(problemsOf(await collect(files)), [
      `import "ic:${OTHER}" needs an interface: write args = ["--actor-idl=idl"] below [moc] in mops.toml, ` +
        `and put it into idl/${OTHER}.did; an actor of the manifest is imported as "canister:<name>"`,
      'that is no principal: import "ic:bkyz2" in Main.mo:1',
    ]);
    const closure = await collect(files, ['--actor-idl=idl']);
    assert.equal(problemsOf(closure)[0], `import "ic:${OTHER}" finds no interface: there is no ../idl/${OTHER}.did`);
    assert.deepEqual(closure.missing[0], { url: `ic:${OTHER}`, from: 'Main.mo' });
    const bytes = await collect({ ...files, [`/p/idl/${OTHER}.did`]: Uint8Array.of(255) }, ['--actor-idl=idl']);
    assert.match(problemsOf(bytes)[0] ?? '', /cannot read \/p\/idl\/.*\.did: it is not UTF-8 text/u);
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
    assert.deepEqual(problemsOf(closure), []);
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
    assert.deepEqual(problemsOf(other), [
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
        assert.deepEqual(problemsOf(await collect(files)), [refusal], manifest);
      }
    }
  });

  it('serves whole where it is implicit, and so does any package', async () => {
    const { modules } = await readCorePackage();
    const closure = await collect({ '/p/src/Main.mo': 'actor {}' }, ['--implicit-package=core']);
    assert.deepEqual([problemsOf(closure), closure.coreModules.size], [[], modules.length]);
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
    assert.match(problemsOf(own).join(), /^import "Nowhere" finds no file/u);
    const unknown = await collect(package_, ['--implicit-package=gone']);
    assert.deepEqual(problemsOf(unknown), ['--implicit-package=gone: mops.toml has no package gone']);
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

describe('a file that is none', () => {
  const LOCK = 'remove it: then mops\\.toml is read, and mops install writes a lock';
  const FAULTS = {
    'a folder': ['it is a folder', 'put a file in its place', (path: string) => mkdir(path)],
    'a link to nothing': [
      'it is a link to gone, which is not there',
      'point it at a file',
      (path: string) => symlink('gone', path),
    ],
    'a loop of links': [
      'its symbolic links form a loop',
      'point them at a file',
      (path: string) => symlink(path, path),
    ],
    'a pipe': [
      'it is not a regular file',
      'put a file in its place',
      async (path: string) => execFileSync('mkfifo', [path]),
    ],
    'a device': ['it is not a regular file', 'put a file in its place', (path: string) => symlink('/dev/zero', path)],
    'no UTF-8': [
      'it is not UTF-8 text \\(line 2\\)',
      'save it as UTF-8',
      (path: string) => writeFile(path, 'x\né', 'latin1'),
    ],
    'too large': [
      'it has more than 8388608 bytes',
      'make it smaller',
      (path: string) => writeFile(path, ' '.repeat(10_000_000)),
    ],
  } as const;

  for (const [fault, [reason, fix, make]] of Object.entries(FAULTS)) {
    it(`is told with the way out: ${fault}, for a lock, a manifest, one of a package, a source, a blob`, async () => {
      const FILES = {
        'mops.toml': '[dependencies]\na = "1.0.0"\n',
        '.mops/a@1.0.0/mops.toml': '',
        'L.mo': 'module {}',
        'b.txt': 'x',
      };
      for (const name of ['mops.lock', ...Object.keys(FILES)]) {
        const root = await temporaryDirectory();
        const main = join(root, 'Main.mo');
        await writeFile(main, 'import A "mo:a"; import L "L"; import B "blob:file:b.txt"; actor {}');
        await mkdir(join(root, '.mops/a@1.0.0/src'), { recursive: true });
        await writeFile(join(root, '.mops/a@1.0.0/src/lib.mo'), 'module {}');
        for (const [path, text] of Object.entries(FILES)) if (path !== name) await writeFile(join(root, path), text);
        await make(join(root, name));
        const told = await collectClosure(main, diskSources).then(problemsOf, (error: unknown) => [messageOf(error)]);
        const isOfMops = /mops\.(?:lock|toml)$/u.test(name);
        if (name === 'b.txt' && fault === 'no UTF-8') assert.deepEqual(told, []);
        else if (fault === 'a folder' && !isOfMops)
          assert.match(told.join(), new RegExp(`${name} \\(that is a folder\\)`));
        else {
          const way = name === 'mops.lock' ? LOCK : name === 'L.mo' && fault === 'too large' ? 'split it into .*' : fix;
          assert.equal(told.length, 1, told.join());
          assert.match(told[0] ?? '', new RegExp(`^cannot read ${join(root, name)}: ${reason}; ${way}$`), name);
        }
      }
    });
  }

  it('is watched where it is a manifest: it may be mended', async () => {
    const root = await temporaryDirectory();
    await mkdir(join(root, 'mops.toml'));
    const reader = new NotedSources(diskSources);
    await assert.rejects(reader.read(join(root, 'mops.toml')));
    assert.deepEqual(reader.sources(), [join(root, 'mops.toml')]);
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
    assert.match(problemsOf(closure).join(), /^import "Nowhere" finds no file/u);
    assert.deepEqual([...(await collect(PROJECT)).files.keys()], ['Main.mo']);
  });

  it('are missed where their folder has none', async () => {
    for (const folder of ['gone', 'migrations/deep/empty']) {
      const closure = await collect(PROJECT, ['--enhanced-migration', folder]);
      assert.deepEqual(problemsOf(closure), [
        `--enhanced-migration=${folder}: there is no folder with migrations (.mo)`,
      ]);
    }
  });
});
