/** Packages of mops: the folder that an import means, and compiled and running programs with packages. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compilerArgsOf } from '../../../subsystems/compiler/mops/compiler-args.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import type { SourceClosure } from '../../../subsystems/compiler/closure.ts';
import { collectClosure } from '../../../subsystems/compiler/source-closure.ts';
import { diskSources, memorySources } from '../../../subsystems/compiler/source-reader.ts';
import { MOTOKO_CACHE } from '../../support/caches.ts';

const compiler = createCompiler({ cacheDirectory: MOTOKO_CACHE, processesMax: 1 });
after(() => compiler.close());

const MAIN = fileURLToPath(new URL('../../fixtures/mops/src/Main.mo', import.meta.url));

function collect(files: Readonly<Record<string, string>>, stores: readonly string[] = []): Promise<SourceClosure> {
  const mops = { stores, environment: 'test' };
  return collectClosure('/p/src/Main.mo', memorySources(new Map(Object.entries(files))), { mops });
}
const namesOf = ({ files }: SourceClosure): readonly string[] => [...files.keys()].toSorted();
const messagesOf = ({ problems }: SourceClosure): readonly string[] => problems.first.map(({ message }) => message);
const manifest = (...dependencies: string[]): string => `[dependencies]\n${dependencies.join('\n')}\n`;
const main = (...urls: string[]): string => urls.map((url, k) => `import M${k} "${url}";\n`).join('');

describe('packages of mops', () => {
  it('are found where mops put them, local ones where their path says, and compile', async () => {
    const closure = await collectClosure(MAIN, diskSources);
    assert.deepEqual(closure.problems.first, []);
    assert.deepEqual(namesOf(closure), [
      'mo:greet@1.2.0/src/lib.mo',
      'mo:words@0.2.0/lib/lib.mo',
      'mo:words@0.3.1/src/deep/Polite.mo',
      'mo:words@0.3.1/src/lib.mo',
      'shapes/src/Square.mo',
      'src/Main.mo',
      'src/parts/Part.mo',
      'tools/Twice.mo',
    ]);
    assert.deepEqual(Object.fromEntries(closure.packages), {
      greet: 'mo:greet@1.2.0/src',
      shapes: 'shapes/src',
      tools: 'tools',
      words: 'mo:words@0.3.1/src',
      'words@0.2.0': 'mo:words@0.2.0/lib',
    });
    const { wasm, candid } = await compiler.compile(MAIN);
    assert.match(candid, /say: \(\) -> \(text\) query/u);
    assert.ok(wasm.length > 1000);
    // The compiler's own parser finds the same closure.
    const parsed = await collectClosure(MAIN, diskSources, { parser: compiler.imports });
    assert.deepEqual(parsed, closure);
    // --watch follows manifests, a lock and folders that may appear, and local packages, but no fetched packages.
    const { files } = await compiler.sourcesOf(MAIN);
    const root = dirname(dirname(MAIN));
    assert.deepEqual(files.map((path) => relative(root, path)).toSorted(), [
      '.mops/greet@1.0.0',
      '.mops/never@9.9.9',
      'mops.lock',
      'mops.toml',
      'shapes/mops.toml',
      'shapes/src/Square.mo',
      'src/Main.mo',
      'src/mops.toml',
      'src/parts/Part.mo',
      'tools/Twice.mo',
      'tools/mops.toml',
      'tools/src',
    ]);
  });

  it('may have a manifest that is nearer, which --watch waits for; without one it waits beside the source', async (t) => {
    const root = await mkdtemp(join(tmpdir(), 'svc-mops-'));
    t.after(() => rm(root, { recursive: true, force: true }));
    await mkdir(join(root, 'a/b'), { recursive: true });
    const file = join(root, 'a/b/Main.mo');
    await writeFile(file, 'persistent actor {}');
    const manifests = async (): Promise<readonly string[]> => {
      const { files } = await compiler.sourcesOf(file);
      return files.filter((path) => path.endsWith('/mops.toml')).map((path) => relative(root, path));
    };
    assert.deepEqual(await manifests(), ['a/b/mops.toml']);
    await writeFile(join(root, 'mops.toml'), '');
    assert.deepEqual((await manifests()).toSorted(), ['a/b/mops.toml', 'a/mops.toml', 'mops.toml']);
    await writeFile(join(root, 'a/mops.toml'), '');
    assert.deepEqual((await manifests()).toSorted(), ['a/b/mops.toml', 'a/mops.toml']);
  });

  it("the root's own version wins, else the higher one", async () => {
    const files = {
      '/p/mops.toml': manifest('a = "1.0.0"', 'b = "1.0.0"', 'd = "0.1.0"'),
      '/p/.mops/a@1.0.0/mops.toml': manifest('c = "1.9.0"', 'd = "5.0.0"'),
      '/p/.mops/b@1.0.0/mops.toml': manifest('c = "1.10.0"'),
      '/p/.mops/c@1.9.0/src/lib.mo': 'module {}',
      '/p/.mops/c@1.10.0/src/lib.mo': 'module {}',
      '/p/.mops/d@0.1.0/src/lib.mo': 'module {}',
      '/p/.mops/d@5.0.0/src/lib.mo': 'module {}',
      '/p/src/Main.mo': main('mo:c', 'mo:d'),
    };
    assert.deepEqual(namesOf(await collect(files)), ['Main.mo', 'mo:c@1.10.0/src/lib.mo', 'mo:d@0.1.0/src/lib.mo']);
  });

  it('a file of a package that is not the one in the lock file is refused by name, also its manifest', async () => {
    const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
    const dependencies = { a: '1.0.0' };
    const [library, toml] = ['import N "N"; module {}', '[package]\nbaseDir = "lib"\n'];
    const lock = {
      version: 3,
      mopsTomlDepsHash: hash(JSON.stringify(dependencies)),
      deps: dependencies,
      hashes: { 'a@1.0.0': { 'a@1.0.0/lib/lib.mo': hash(`\ufeff${library}`), 'a@1.0.0/mops.toml': hash(toml) } },
    };
    const files = {
      '/p/mops.toml': manifest('a = "1.0.0"'),
      '/p/mops.lock': JSON.stringify(lock),
      '/cache/a@1.0.0/mops.toml': toml,
      '/cache/a@1.0.0/lib/lib.mo': library,
      // The lock has no hash of this file.
      '/cache/a@1.0.0/lib/N.mo': 'module {}',
      '/p/src/Main.mo': main('mo:a'),
    };
    assert.deepEqual(messagesOf(await collect(files, ['/cache'])), []);
    const changed = async (path: string): Promise<readonly string[]> =>
      messagesOf(await collect({ ...files, [path]: `${library} ` }, ['/cache']));
    for (const path of ['/cache/a@1.0.0/lib/lib.mo', '/cache/a@1.0.0/mops.toml'])
      assert.match(
        (await changed(path)).join(),
        new RegExp(`^${path} is not the file that mops.lock means: its SHA-256 is`, 'u'),
      );
    // A lock file of other dependencies does not count at all.
    const stale = {
      ...files,
      '/p/mops.toml': manifest('a = "1.0.0"', 'b = "1.0.0"'),
      '/cache/a@1.0.0/lib/lib.mo': 'module { }',
    };
    assert.deepEqual(messagesOf(await collect(stale, ['/cache'])), []);
    const bad = { ...lock, hashes: { 'a@1.0.0': { 'a@1.0.0/lib/lib.mo': 'no hash' } } };
    const other = await collect({ ...files, '/p/mops.lock': JSON.stringify(bad) }, ['/cache']);
    assert.match(messagesOf(other).join(), /and not no hash…; run mops install$/u);
  });

  it('GitHub packages, paths with {MOPS_ENV}, and other stores are found', async () => {
    const files = {
      '/p/mops.toml': manifest(
        'g = "https://github.com/o/g#v1.0.0/x@abc"',
        'l = "../lib-{MOPS_ENV}"',
        's = "3.0.0"',
        'core = "1.0.0"',
      ),
      '/p/.mops/_github/g#v1.0.0___x@abc/src/A.mo': 'import B "B"; module {}',
      '/p/.mops/_github/g#v1.0.0___x@abc/src/B/lib.mo': 'import T "mo:core/Text"; module {}',
      '/lib-test/A.mo': 'module {}',
      '/cache/s@3.0.0/src/lib.mo': 'module {}',
      '/cache/core@1.0.0/src/Text.mo': 'module {}',
      '/p/src/Main.mo': main('mo:g/A', 'mo:l/A', 'mo:s'),
    };
    const closure = await collect(files, ['/cache']);
    assert.deepEqual(messagesOf(closure), []);
    assert.deepEqual(namesOf(closure), [
      'lib-test/A.mo',
      'mo:core@1.0.0/src/Text.mo',
      'mo:g#v1.0.0___x@abc/src/A.mo',
      'mo:g#v1.0.0___x@abc/src/B/lib.mo',
      'mo:s@3.0.0/src/lib.mo',
      'p/src/Main.mo',
    ]);
    // A project's own core takes precedence over the bundled one.
    assert.equal(closure.coreModules.size, 0);
  });

  it('what is missing is named where it is imported, and only that', async () => {
    const closure = await collect({
      '/p/mops.toml': manifest(
        'gone = "1.0.0"',
        'unused = "1.0.0"',
        'there = "1.0.0"',
        'odd = "1.0.0"',
        'way = "./no/such"',
      ),
      '/p/.mops/there@1.0.0/src/lib.mo': 'import X "../../../../src/Main"; module {}',
      '/p/.mops/odd@1.0.0/mops.toml': '[package]\nbaseDir = "../../src"',
      '/p/src/Main.mo': main(
        'mo:gone/A',
        'mo:there',
        'mo:there/No',
        'mo:there/../../up',
        'mo:odd',
        'mo:way',
        'mo:else',
      ),
    });
    assert.deepEqual(messagesOf(closure), [
      'the package gone (1.0.0) is not installed; run mops install',
      'import "../../../../src/Main" leaves the package there',
      'import "mo:there/No" finds no file: there is neither ../.mops/there@1.0.0/src/No.mo nor ../.mops/there@1.0.0/src/No/lib.mo',
      'mo:there/../../up leaves its package',
      'the package odd has a baseDir outside of itself (/p/.mops/odd@1.0.0/mops.toml)',
      'the package way is to be in "./no/such", and there is no such folder; correct the path in mops.toml',
      'mops.toml has no package else, nor has a package of its packages, as far as is known: ' +
        'the manifest of gone@1.0.0 is not there; run mops install',
    ]);
    assert.equal(closure.missing.length, 6);
    assert.deepEqual(closure.missing[0], { url: 'mo:gone/A', from: 'Main.mo' });
  });

  it('manifests that name each other in a circle end, and so do packages', async () => {
    const closure = await collect({
      '/p/mops.toml': manifest('a = "./a"'),
      '/p/a/mops.toml': manifest('b = "../b"', 'a = "."'),
      '/p/b/mops.toml': manifest('a = "../a"', 'p = ".."'),
      '/p/a/lib.mo': 'import B "mo:b"; module {}',
      '/p/b/lib.mo': 'import A "mo:a"; module {}',
      '/p/src/Main.mo': main('mo:a'),
    });
    assert.deepEqual(messagesOf(closure), [
      'import cycle: a/lib.mo → b/lib.mo → a/lib.mo; move what both need into a third file',
    ]);
  });

  for (const [what, toml, says] of [
    [
      'is not TOML',
      '[dependencies]\na = "1"\nb = }',
      /cannot use \/p\/mops\.toml: it is not TOML \(line 3, column 5\): invalid value$/u,
    ],
    ['is huge', `#${'x'.repeat(300_000)}`, /more than 262144 characters/u],
    ['is nested deeply', `a = ${'['.repeat(5000)}${']'.repeat(5000)}`, /cannot use \/p\/mops\.toml: it is not TOML/u],
    [
      'has a number for a version',
      manifest('b = "1"', 'a = 1'),
      /dependencies\.a \(line 3\) is not a text; write a = "/u,
    ],
    ['has a table for a version', '[dependencies.a]\nversion = "1"', /dependencies\.a \(line 1\) is not a text/u],
    [
      'has a version that is a path',
      manifest('"a" = "1/../../.."'),
      /dependencies\.a \(line 2\) is .*neither a version .*, a path .* nor a GitHub address/u,
    ],
    ['has a name that is a path', manifest('"../../a" = "1.0.0"'), /\(line 2\) is not a package name/u],
    [
      'has dependencies that are a list',
      '\ndependencies = []',
      /dependencies \(line 2\) is not a table; write \[depend/u,
    ],
    ['has a baseDir that is a number', '[package]\nbaseDir = 1', /package\.baseDir \(line 2\) is not a text/u],
    [
      'has too many packages',
      manifest(...Array.from({ length: 1001 }, (_, k) => `a${k} = "1.0.0"`)),
      /more than 1000 packages; remove/u,
    ],
  ] as const) {
    it(`a mops.toml that ${what} is refused by name where a package is imported, and else not read`, async () => {
      const files = { '/p/mops.toml': toml, '/p/src/Main.mo': main('mo:a') };
      await assert.rejects(collect(files), { code: 'mops-invalid', message: says });
      assert.deepEqual(messagesOf(await collect({ ...files, '/p/src/Main.mo': 'actor {}' })), []);
    });
  }

  it('packages that all have each other are looked for once each, and too many of such dependencies are refused', async () => {
    const filesOf = (count: number): Readonly<Record<string, string>> => {
      const packages = Array.from({ length: count }, (_, k) => `p${k}`);
      return {
        '/p/mops.toml': manifest(...packages.map((name) => `${name} = "./${name}"`)),
        ...Object.fromEntries(
          packages.map((each) => [
            `/p/${each}/mops.toml`,
            manifest(...packages.map((name) => `${name} = "../${name}"`)),
          ]),
        ),
        '/p/p0/lib.mo': 'module {}',
        '/p/src/Main.mo': main('mo:p0'),
      };
    };
    const files = filesOf(40);
    const looks = new Map<string, number>();
    const reader = {
      read: async (path: string) => {
        looks.set(path, (looks.get(path) ?? 0) + 1);
        return files[path];
      },
      isFolder: async (path: string) => /^\/p\/p\d+$/u.test(path),
      readBytes: async () => undefined,
      list: async () => [],
      readTree: async () => new Map(),
    };
    const closure = await collectClosure('/p/src/Main.mo', reader, { mops: { stores: [], environment: 'local' } });
    assert.deepEqual([...closure.files.keys()].toSorted(), ['p0/lib.mo', 'src/Main.mo']);
    assert.equal(looks.get('/p/p39/mops.toml'), 1);
    await assert.rejects(collect(filesOf(150)), {
      code: 'mops-invalid',
      message:
        /cannot use \/p\/mops\.toml: with the packages of its packages it has more than 20000 dependencies; remove/u,
    });
  });

  it('a package that is another folder in each of its packages comes to an end', async () => {
    const folders = Array.from(
      { length: 1002 },
      (_, k) => [`/p/f${k}/mops.toml`, manifest(`a = "../f${k + 1}"`)] as const,
    );
    const files = {
      '/p/mops.toml': manifest('a = "./f0"'),
      ...Object.fromEntries(folders),
      '/p/src/Main.mo': main('mo:a'),
    };
    await assert.rejects(collect(files), { code: 'mops-invalid', message: /more than 1000 packages/u });
  });

  it('large manifests of many packages are refused before all of them are parsed', async () => {
    const packages = Array.from({ length: 40 }, (_, k) => `p${k}`);
    const files = {
      '/p/mops.toml': manifest(...packages.map((name) => `${name} = "./${name}"`)),
      ...Object.fromEntries(packages.map((name) => [`/p/${name}/mops.toml`, `#${'x'.repeat(250_000)}`])),
      '/p/src/Main.mo': main('mo:p0'),
    };
    await assert.rejects(collect(files), {
      code: 'mops-invalid',
      message: /more than 8388608 characters in manifests/u,
    });
  });
});

describe('[moc] args of mops.toml', () => {
  const SOURCE = 'actor { var n = 0; public func inc() : async Nat { let spare = 1; n += 1; n } };\n';
  const said = (...args: readonly unknown[]): string => `[moc]\nargs = ${JSON.stringify(args)}\n`;

  it('hold for every main of the project, also without packages, and are a part of what a module is kept under', async () => {
    const compiled = (toml: string, persistence?: 'enhanced') =>
      compiler.compileText(
        new Map([
          ['src/Main.mo', SOURCE],
          ['mops.toml', toml],
        ]),
        { ...(persistence && { persistence }) },
      );
    const quiet = await compiled(said('--default-persistent-actors', '-A=M0194', '--incremental-gc'));
    assert.match(quiet.stableTypes, /stable var n : Nat/u);
    assert.deepEqual(quiet.warnings, []);
    const loud = await compiled(said('--default-persistent-actors', '-W', 'M0194'));
    assert.match(loud.warnings.join(), /unused/u);
    assert.deepEqual(loud.wasm, quiet.wasm);
    await assert.rejects(compiled(said('--default-persistent-actors', '-E', 'M0194')), {
      code: 'compile-failed',
      message: /M0194/u,
    });
    await assert.rejects(compiled(said('--default-persistent-actors', '-W=M0194', '-Werror')), {
      code: 'compile-failed',
      message: /error \[M0194\]/u,
    });
    const classical = await compiled(said('--default-persistent-actors', '--legacy-persistence'));
    assert.notEqual(classical.wasm.length, quiet.wasm.length);
    const wanted = await compiled(said('--default-persistent-actors', '--legacy-persistence', '-A=M0194'), 'enhanced');
    assert.deepEqual(wanted.wasm, quiet.wasm);
  });

  it('are the only ones: those of other commands are told, since they have no effect here', async () => {
    const others = '[build]\nargs = ["--release"]\n[canisters.backend]\nmain = "Main.mo"\nargs = ["-A=M0194"]\n';
    const compiled = async (toml: string): Promise<readonly string[]> => {
      const files = new Map([
        ['src/Main.mo', SOURCE],
        ['mops.toml', said('--default-persistent-actors', '-A=M0194') + toml],
      ]);
      return (await compiler.compileText(files, {})).warnings;
    };
    assert.deepEqual(await compiled(others), [
      'mops.toml: [build] args (line 4) is not used: flags for the compiler stand in [moc] args',
      'mops.toml: [canisters.backend] args (line 7) is not used: flags for the compiler stand in [moc] args',
    ]);
    assert.deepEqual(await compiled('[build]\nargs = []\n[canisters]\nbackend = "Main.mo"\n'), []);
    assert.deepEqual(
      await compiled('[canisters.backend]\nmain = "Main.mo"\n[canisters.backend.migrations]\nchain = "m"\n'),
      ['mops.toml: [canisters.backend] migrations (line 5) is not used: flags for the compiler stand in [moc] args'],
    );
  });

  it('are those of moc: passed on, without effect, or of another entry of moc.js', () => {
    const {
      file: _,
      refusal,
      ...args
    } = compilerArgsOf(
      {
        args: [
          '--legacy-actors --implicit-package=core --implicit-package core --implicit-derivation-depth 7',
          '-no-check-ir --all-libs --ai-errors --debug --error-recovery --print-source-on-error',
          '--error-detail 3 --error-format=json -A M0194 -W=M0223 -E=M0217,M0218',
          '--actor-idl src/idl --actor-alias led aaaaa-aa --public-metadata candid:service',
          '--legacy-persistence --generational-gc',
        ].flatMap((line) => line.split(' ')),
      },
      '/p/mops.toml',
    );
    assert.equal(refusal, undefined);
    assert.deepEqual(args, {
      flags: [
        '--legacy-actors',
        '--implicit-package=core',
        '--implicit-derivation-depth=7',
        '-A=M0194',
        '-W=M0223',
        '-E=M0217,M0218',
      ],
      persistence: 'classical',
      collector: 'generational',
      interfaces: '/p/src/idl',
      aliases: new Map([['led', 'aaaaa-aa']]),
      migrations: undefined,
      implicitPackages: ['core'],
      publicMetadata: ['candid:service'],
      unused: [],
    });
  });

  for (const [args, says] of [
    [['-W=M0194', '--enhanced-migration'], /"--enhanced-migration" in \[moc\] args needs a folder with migrations/u],
    [
      ['--enhanced-migration=m', '--legacy-persistence'],
      /"--enhanced-migration" in \[moc\] args is not for classical modules; remove it, or remove --legacy-persistence/u,
    ],
    [['--args', '/etc/passwd'], /"--args" in \[moc\] args reads flags from a file; write them here/u],
    [
      ['--release'],
      /"--release" .*moc\.js, whose modules keep `debug` expressions; remove it, or compile it elsewhere/u,
    ],
    [
      ['--package', 'a', './a'],
      /"--package" .* names a package; write it below \[dependencies\] as NAME = "\.\/FOLDER"/u,
    ],
    [['--actor-env-alias', 'a'], /is of a newer compiler than the bundled one; use --actor-idl/u],
    [['-c'], /"-c" .* says what is to be made, .*; remove it/u],
    [['-g'], /"-g" .* moc\.js, which writes no debug information; remove it/u],
    [
      ['--stable-regions'],
      /is not one that the bundled compiler \(moc\.js\) takes; remove it, or compile it elsewhere/u,
    ],
    [['--rts-stack-pages=4'], /"--rts-stack-pages=4" in \[moc\] args is not one/u],
    [['-A'], /"-A" in \[moc\] args needs codes of warnings/u],
    [['-E=all'], /"-E=all" in \[moc\] args needs codes/u],
    [['--actor-idl='], /"--actor-idl=" in \[moc\] args needs a folder with interfaces/u],
    [['--implicit-package'], /needs the name of a package/u],
    [['--actor-alias', 'a', 'b'], /"--actor-alias" in \[moc\] args needs a name and a principal/u],
    [['--implicit-derivation-depth=x'], /needs a number/u],
    [['--legacy-persistence', '--enhanced-orthogonal-persistence'], /contradicts the one before it/u],
    [['--copying-gc'], /"--copying-gc" .* is a collector of --legacy-persistence alone/u],
    [[7], /args in \[moc\] \(line 2\) is not a list of texts; write/u],
    [Array.from({ length: 257 }, () => '-Werror'), /more than 256 args/u],
  ] as const) {
    it(`${JSON.stringify(args).slice(0, 60)} is refused by name`, async () => {
      const files = new Map([
        ['Main.mo', SOURCE],
        ['mops.toml', said(...args)],
      ]);
      await assert.rejects(compiler.compileText(files), { code: 'mops-invalid', message: says });
    });
  }
});
