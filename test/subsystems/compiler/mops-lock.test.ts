/** Rules by which mops 3 accepts a `mops.lock`, and the packages of a project whose lock is not accepted. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { SourceClosure } from '../../../subsystems/compiler/closure.ts';
import { readCorePackage } from '../../../subsystems/compiler/core-package.ts';
import { collectClosure } from '../../../subsystems/compiler/source-closure.ts';
import { memorySources } from '../../../subsystems/compiler/source-reader.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

type Table = Readonly<Record<string, string>>;
type Files = Readonly<Record<string, string>>;

const sha = (text: string): string => createHash('sha256').update(text).digest('hex');
const sorted = (table: Table): Table =>
  Object.fromEntries(Object.entries(table).toSorted(([a], [b]) => (a < b ? -1 : 1)));
const rootHash = (deps: Table): string => sha(JSON.stringify(sorted(deps)));
const localHash = (locals: Readonly<Record<string, Table | string | null>>): string =>
  sha(
    JSON.stringify(
      Object.entries(locals)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([path, deps]) => [path, deps !== null && typeof deps === 'object' ? sorted(deps) : deps]),
    ),
  );
const treeHash = (files: Files): string =>
  sha(JSON.stringify(Object.entries(files).map(([path, text]) => [path, sha(text)])));
const toml = (deps: Table): string =>
  `[dependencies]\n${Object.entries(deps)
    .map(([name, value]) => `"${name}" = "${value}"\n`)
    .join('')}`;
const main = (...packages: readonly string[]): string =>
  `${packages.map((name, k) => `import P${k} "mo:${name}";\n`).join('')}actor {}`;
const MODULE = 'module {}';
const github = (ref: string): string => `https://github.com/o/g#${ref}`;

interface Project {
  readonly deps: Table;
  readonly dev?: Table;
  readonly imports: readonly string[];
  /** Changes of a valid lock; a text is the file itself. */
  readonly lock?: Readonly<Record<string, unknown>> | string;
  readonly files?: Files;
  readonly environment?: string;
}

function filesOf({ deps, dev, imports, lock, files = {} }: Project): Files {
  const text =
    typeof lock === 'object'
      ? JSON.stringify({ version: 3, mopsTomlDepsHash: rootHash({ ...deps, ...dev }), hashes: {}, ...lock }, null, 2)
      : lock;
  return {
    '/p/mops.toml': toml(deps) + (dev ? toml(dev).replace('dependencies', 'dev-dependencies') : ''),
    '/p/Main.mo': main(...imports),
    ...(text !== undefined && { '/p/mops.lock': text }),
    ...Object.fromEntries(Object.entries(files).map(([path, content]) => [`/p/${path}`, content])),
  };
}
function collect(project: Project): Promise<SourceClosure> {
  const mops = { stores: [], environment: project.environment ?? 'local', ceiling: '/p' };
  return collectClosure('/p/Main.mo', memorySources(new Map(Object.entries(filesOf(project)))), { mops });
}
const messagesOf = ({ problems }: SourceClosure): readonly string[] => problems.first.map(({ message }) => message);
const namesOf = ({ files, main: entry }: SourceClosure): readonly string[] =>
  [...files.keys()].filter((name) => name !== entry).toSorted();
const noteOf = ({ notes }: SourceClosure): string => notes.map(({ file, text }) => `${file}: ${text}`).join('\n');

/** Returns the files of a package: its module, and its manifest if it has dependencies. */
function fetched(id: string, deps?: Table, module = MODULE): Files {
  return { [`.mops/${id}/src/lib.mo`]: module, ...(deps && { [`.mops/${id}/mops.toml`]: toml(deps) }) };
}

describe('a stale mops.lock', () => {
  const HELPER = { deps: { helper: './helper' }, imports: ['helper'] };
  const A = { deps: { a: '1.0.0' }, imports: ['a'] };
  const importing = (name: string): string => `import X "mo:${name}"; module {}`;
  const STALE: readonly (readonly [string, Project, readonly string[], RegExp])[] = [
    [
      'a local package has got a dependency since',
      {
        ...HELPER,
        lock: { localDepsHash: localHash({ './helper': {} }), deps: { helper: './helper' } },
        files: {
          'helper/mops.toml': toml({ extra: '../extra' }),
          'helper/src/lib.mo': importing('extra'),
          'extra/src/lib.mo': MODULE,
        },
      },
      ['extra/src/lib.mo', 'helper/src/lib.mo'],
      /local packages have other dependencies, or other paths/u,
    ],
    [
      'a local package asks for another version now',
      {
        ...HELPER,
        lock: {
          localDepsHash: localHash({ './helper': { x: '1.0.0' } }),
          deps: { helper: './helper', x: '1.0.0' },
          hashes: { 'x@1.0.0': {} },
        },
        files: {
          'helper/mops.toml': toml({ x: '2.0.0' }),
          'helper/src/lib.mo': importing('x'),
          ...fetched('x@1.0.0', {}),
          ...fetched('x@2.0.0', {}),
        },
      },
      ['helper/src/lib.mo', 'mo:x@2.0.0/src/lib.mo'],
      /local packages have other dependencies/u,
    ],
    [
      'it has a lower version than a local package asks for, though the hashes agree',
      {
        ...HELPER,
        lock: {
          localDepsHash: localHash({ './helper': { x: '2.0.0' } }),
          deps: { helper: './helper', x: '1.0.0' },
          hashes: { 'x@1.0.0': {} },
        },
        files: {
          'helper/mops.toml': toml({ x: '2.0.0' }),
          'helper/src/lib.mo': importing('x'),
          ...fetched('x@1.0.0', {}),
          ...fetched('x@2.0.0', {}),
        },
      },
      ['helper/src/lib.mo', 'mo:x@2.0.0/src/lib.mo'],
      /the local package helper has x = "2\.0\.0", and it has x = "1\.0\.0"/u,
    ],
    ...(
      [
        ['a version on GitHub', github('v1.0.0'), github('v2.0.0'), /it has g = ".*#v1\.0\.0";/u, 'mo:g#v2.0.0'],
        ['a GitHub version', github('main'), github('v0.1.0'), /it has g = ".*#main";/u, 'mo:g#v0.1.0'],
        ['a branch that nobody names', github('main'), github('dev'), /#main", which nobody names;/u, 'mo:g#dev'],
        ['a path that nobody names', './g1', '../g2', /it has g = "\.\/g1", which nobody names;/u, 'g2'],
        ['GitHub for a path', './g1', github('v2.0.0'), /it has g = "\.\/g1", which nobody names;/u, 'mo:g#v2.0.0'],
        ['a path for GitHub', github('main'), '../g2', /#main", which nobody names;/u, 'g2'],
        ['a version for GitHub', github('main'), '0.0.1', /it has g = ".*#main";/u, 'mo:g@0.0.1'],
        [
          'GitHub for a version',
          '1.0.0',
          github('v2.0.0'),
          /it has g = "1\.0\.0", which nobody names;/u,
          'mo:g#v2.0.0',
        ],
      ] as const
    ).map(([what, locked, wanted, says, taken]): (typeof STALE)[number] => {
      const isVersion = /^\d/u.test(locked);
      const locals = { './helper': { g: wanted }, ...(wanted === '../g2' && { './g2': null }) };
      const graph = { ...(isVersion && { 'g@1.0.0': {} }) };
      const lock = {
        localDepsHash: localHash(locals),
        deps: { helper: './helper', g: locked },
        hashes: graph,
        graph,
        ...(locked.startsWith('https') && { github: { g: { resolved: 'ab', hash: 'cd' } } }),
      };
      const folders = ['_github/g#v1.0.0', '_github/g#v2.0.0', '_github/g#main', '_github/g#dev', '_github/g#v0.1.0'];
      const files = {
        'helper/mops.toml': toml({ g: wanted }),
        'helper/src/lib.mo': importing('g'),
        ...fetched('g@0.0.1', {}),
        ...fetched('g@1.0.0', {}),
        'g1/src/lib.mo': MODULE,
        'g2/src/lib.mo': MODULE,
        ...Object.fromEntries(folders.map((folder) => [`.mops/${folder}/src/lib.mo`, MODULE])),
      };
      return [
        `it has less than a local package names: ${what}`,
        { ...HELPER, lock, files },
        ['helper/src/lib.mo', `${taken}/src/lib.mo`].toSorted(),
        says,
      ];
    }),
    [
      'it lacks what a local package has, though the hashes agree',
      {
        ...HELPER,
        lock: { localDepsHash: localHash({ './helper': { x: '2.0.0' } }), deps: { helper: './helper' } },
        files: {
          'helper/mops.toml': toml({ x: '2.0.0' }),
          'helper/src/lib.mo': importing('x'),
          ...fetched('x@2.0.0', {}),
        },
      },
      ['helper/src/lib.mo', 'mo:x@2.0.0/src/lib.mo'],
      /the local package helper has x = "2\.0\.0", and it has none/u,
    ],
    [
      'it says nothing of local packages',
      { ...HELPER, lock: { deps: { helper: './helper' } }, files: { 'helper/src/lib.mo': MODULE } },
      ['helper/src/lib.mo'],
      /says nothing of local packages/u,
    ],
    [
      'it is of local packages that are gone',
      {
        ...A,
        lock: { localDepsHash: localHash({}), deps: A.deps, hashes: { 'a@1.0.0': {} } },
        files: fetched('a@1.0.0'),
      },
      ['mo:a@1.0.0/src/lib.mo'],
      /is of local packages/u,
    ],
    [
      'it lost what a package of its graph depends on',
      {
        ...A,
        lock: { deps: A.deps, hashes: { 'a@1.0.0': {} }, graph: { 'a@1.0.0': { b: '1.0.0' } } },
        files: { ...fetched('a@1.0.0', { b: '1.0.0' }, importing('b')), ...fetched('b@1.0.0') },
      },
      ['mo:a@1.0.0/src/lib.mo', 'mo:b@1.0.0/src/lib.mo'],
      /a@1\.0\.0 depends on b, and it has none/u,
    ],
    [
      'it lost a dependency of the root',
      {
        deps: { a: '1.0.0', c: '1.0.0' },
        imports: ['a', 'c'],
        lock: { deps: { a: '1.0.0' }, hashes: { 'a@1.0.0': {} } },
        files: { ...fetched('a@1.0.0', {}), ...fetched('c@1.0.0', {}) },
      },
      ['mo:a@1.0.0/src/lib.mo', 'mo:c@1.0.0/src/lib.mo'],
      /mops\.toml has c = "1\.0\.0", and it has none/u,
    ],
    [
      'it has another version of a dependency of the root',
      {
        ...A,
        lock: { deps: { a: '2.0.0' }, hashes: { 'a@2.0.0': {} } },
        files: { ...fetched('a@1.0.0', {}), ...fetched('a@2.0.0', {}) },
      },
      ['mo:a@1.0.0/src/lib.mo'],
      /mops\.toml has a = "1\.0\.0", and it has a = "2\.0\.0"/u,
    ],
    [
      'it has the first of two sections, and the second wins',
      {
        ...A,
        dev: { a: '1.1.0' },
        lock: { deps: { a: '1.0.0' }, hashes: { 'a@1.0.0': {} } },
        files: { ...fetched('a@1.0.0', {}), ...fetched('a@1.1.0', {}) },
      },
      ['mo:a@1.1.0/src/lib.mo'],
      /mops\.toml has a = "1\.1\.0"/u,
    ],
    [
      'it was made from other dependencies',
      {
        ...A,
        lock: { mopsTomlDepsHash: rootHash({ a: '0.9.0' }), deps: { a: '0.9.0' }, hashes: { 'a@0.9.0': {} } },
        files: { ...fetched('a@1.0.0', {}), ...fetched('a@0.9.0', {}) },
      },
      ['mo:a@1.0.0/src/lib.mo'],
      /made from other dependencies than mops\.toml has, a = "1\.0\.0" for one/u,
    ],
    [
      'it was made under another MOPS_ENV',
      {
        deps: { cfg: './cfg-{MOPS_ENV}' },
        imports: ['cfg'],
        environment: 'prod',
        lock: { localDepsHash: localHash({ './cfg-local': null }), deps: { cfg: './cfg-local' } },
        files: { 'cfg-local/src/lib.mo': MODULE, 'cfg-prod/src/lib.mo': MODULE },
      },
      ['cfg-prod/src/lib.mo'],
      /other dependencies, or other paths/u,
    ],
    [
      'it has another path of the root, though the hashes agree',
      {
        deps: { cfg: './cfg-{MOPS_ENV}' },
        imports: ['cfg'],
        environment: 'prod',
        lock: { localDepsHash: localHash({ './cfg-prod': null }), deps: { cfg: './cfg-local' } },
        files: { 'cfg-local/src/lib.mo': MODULE, 'cfg-prod/src/lib.mo': MODULE },
      },
      ['cfg-prod/src/lib.mo'],
      /mops\.toml has cfg = "\.\/cfg-\{MOPS_ENV\}", and it has cfg = "\.\/cfg-local"/u,
    ],
    [
      'it has an absolute path, as mops 2.9 wrote them',
      {
        ...HELPER,
        lock: { localDepsHash: localHash({ './helper': null }), deps: { helper: '/p/helper' } },
        files: { 'helper/src/lib.mo': MODULE },
      },
      ['helper/src/lib.mo'],
      /has an absolute path \(helper = "\/p\/helper"\)/u,
    ],
    [
      'it has no hashes of a package',
      { ...A, lock: { deps: A.deps, hashes: {} }, files: fetched('a@1.0.0') },
      ['mo:a@1.0.0/src/lib.mo'],
      /has no hashes of a@1\.0\.0/u,
    ],
    [
      'it has hashes of another package',
      { ...A, lock: { deps: A.deps, hashes: { 'a@1.0.0': {}, 'z@1.0.0': {} } }, files: fetched('a@1.0.0') },
      ['mo:a@1.0.0/src/lib.mo'],
      /has hashes of z@1\.0\.0, which is not among its packages/u,
    ],
    ...(
      [
        ['it has no commit of a package', undefined, github('v1.0.0'), /has no commit of g$/u],
        ['a commit is another', { g: { resolved: 'ab', hash: 'x' } }, github('v1.0.0@cd'), /has the commit ab of g/u],
        [
          'it has a commit of another package',
          { g: { resolved: 'ab', hash: 'x' }, h: { resolved: 'ab', hash: 'x' } },
          github('v1.0.0'),
          /has a commit of h/u,
        ],
      ] as const
    ).map(
      ([what, commits, value, says]) =>
        [
          what,
          {
            deps: { g: value },
            imports: ['g'],
            lock: { deps: { g: value }, ...(commits && { github: commits }) },
            files: { [`.mops/_github/g#${value.split('#')[1]}/src/lib.mo`]: MODULE },
          },
          [`mo:g#${value.split('#')[1]}/src/lib.mo`],
          new RegExp(says.source.replace(/\$$/u, ''), 'u'),
        ] as const,
    ),
  ];
  for (const [what, project, names, says] of STALE) {
    it(`is not believed and told: ${what}`, async () => {
      const closure = await collect(project);
      assert.deepEqual(messagesOf(closure), []);
      assert.deepEqual(namesOf(closure), names);
      assert.match(noteOf(closure), says);
      assert.match(
        noteOf(closure),
        /^\/p\/mops\.lock: it is stale and was not used: .*; run mops install, which writes/u,
      );
      // Without the lock the result is the same.
      const { lock: _, ...without } = project;
      const bare = await collect(without);
      assert.deepEqual([namesOf(bare), bare.notes], [names, []]);
    });
  }

  const VALID = {
    version: 3,
    mopsTomlDepsHash: rootHash({ a: '1.0.0' }),
    deps: { a: '1.0.0' },
    hashes: { 'a@1.0.0': {} },
  };
  const written = (over: Readonly<Record<string, unknown>>): string => JSON.stringify({ ...VALID, ...over }, null, 2);
  for (const [what, lock, says] of [
    ['is empty', '', /it is not JSON: the file is empty \(line 1, column 1\)/u],
    ['is cut off', '{\n  "version": 3,', /it is not JSON: the file ends inside an object.* \(line 2, column 16\)/u],
    ['has marks of a merge', '{\n<<<<<<< HEAD\n}', /it is not JSON: .* \(line 2, column 1\)/u],
    ['is a list', '[]', /it is not a table \(line 1, column 1\)/u],
    ['is of no version', written({ version: undefined }), /its version is missing, and not 3/u],
    ['is of an older version', written({ version: 2 }), /its version is 2, and not 3 \(line 2, column 14\)/u],
    ['is of a later version', written({ version: 4 }), /its version is 4/u],
    ['has a text for a version', written({ version: '3' }), /its version is no number/u],
    ['has no hash of the root', written({ mopsTomlDepsHash: undefined }), /it has no mopsTomlDepsHash/u],
    ['has a number for a hash', written({ mopsTomlDepsHash: 7 }), /mopsTomlDepsHash is not a text \(line 3/u],
    ['has a list for a hash', written({ localDepsHash: [] }), /localDepsHash is not a text/u],
    ['has no hashes', written({ hashes: undefined }), /it has no hashes/u],
    ['has hashes that are a list', written({ hashes: [] }), /hashes is not a table/u],
    ['has hashes of no table', written({ hashes: { 'a@1.0.0': 'x' } }), /hashes\["a@1\.0\.0"\] is not a table/u],
    [
      'has a number of a file',
      written({ hashes: { 'a@1.0.0': { 'a/b': 7 } } }),
      /\["a@1\.0\.0"\]\["a\/b"\] is not a text/u,
    ],
    ['has an empty hash', written({ hashes: { 'a@1.0.0': { 'a/b': '' } } }), /\["a\/b"\] is empty/u],
    [
      'has a hash of another package',
      written({ hashes: { 'a@1.0.0': { 'b@1.0.0/src/lib.mo': 'f'.repeat(64) } } }),
      /hashes\["a@1\.0\.0"\]\["b@1\.0\.0\/src\/lib\.mo"\] is not of a@1\.0\.0/u,
    ],
    ['has no packages', written({ deps: undefined }), /it has no deps/u],
    ['has a table for a package', written({ deps: { a: {} } }), /deps\["a"\] is not a text \(line 5/u],
    ['has an empty version', written({ deps: { a: '' } }), /deps\["a"\] is empty/u],
    [
      'has a way out for a version',
      written({ deps: { a: '1/../..' } }),
      /deps\["a"\] is "1\/\.\.\/\.\.", which no package can be/u,
    ],
    ['has a way out for a name', written({ deps: { '../a': '1' } }), /deps\["\.\.\/a"\] is "1", which no package/u],
    [
      'has a key twice',
      written({}).replace('"a": "1.0.0"', '"a": "1.0.0", "a": "2.0.0"'),
      /deps has "a" twice \(line 5/u,
    ],
    ['has a commit that is no table', written({ github: { g: 7 } }), /github\["g"\] is not a table/u],
    [
      'has a commit without a hash',
      written({ github: { g: { resolved: 'a', hash: 1 } } }),
      /github\["g"\]\.hash is not a text/u,
    ],
    [
      'has too many packages',
      written({ deps: Object.fromEntries(Array.from({ length: 1001 }, (_, k) => [`a${k}`, '1'])) }),
      /deps has more than 1000 packages/u,
    ],
  ] as const) {
    it(`is one that ${what}, and its place is told`, async () => {
      const closure = await collect({ ...A, lock, files: fetched('a@1.0.0', {}) });
      assert.deepEqual(namesOf(closure), ['mo:a@1.0.0/src/lib.mo']);
      assert.match(noteOf(closure), says);
    });
  }

  it('is refused by name where it is too large to say what it means', async () => {
    for (const [lock, says] of [
      [
        `"${'x'.repeat(2 * 1024 * 1024)}"`,
        /cannot use \/p\/mops\.lock: .* 2097152 characters; remove the file: then mops\.toml/u,
      ],
      ['['.repeat(20_000), /more than 10000 lists and tables; remove the file/u],
    ] as const)
      await assert.rejects(collect({ ...A, lock }), { code: 'mops-invalid', message: says });
  });

  it('gives what packages depend on, also those whose manifests are not there', async () => {
    const graph = { 'a@1.0.0': { b: '1.0.0' }, 'b@1.0.0': { c: '1.1.0' }, 'c@1.1.0': {} };
    const project = {
      deps: { a: '1.0.0', z: '1.0.0' },
      imports: ['a'],
      files: {
        ...fetched('a@1.0.0', undefined, importing('b')),
        ...fetched('b@1.0.0', undefined, importing('c')),
        ...fetched('c@1.1.0'),
      },
    };
    const lock = { mopsTomlDepsHash: rootHash({}), deps: {}, graph };
    assert.deepEqual(messagesOf(await collect({ ...project, lock })), []);
    // A malformed graph counts as none, and so does one without its counterpart.
    for (const bad of [{ ...graph, 'd@1.0.0': 7 }, [], { ...graph, 'd@1.0.0': { e: '' } }]) {
      const [message = ''] = messagesOf(await collect({ ...project, lock: { ...lock, graph: bad } }));
      assert.match(
        message,
        /has no package b, .* as far as is known: the manifest of a@1\.0\.0 is not there; run mops install/u,
      );
    }
  });
});

describe('a valid mops.lock', () => {
  it('says all, and no manifest of a fetched package is asked', async () => {
    const deps = { a: '1.0.0', helper: './helper', g: github('main'), 'x@1': '1.0.0' };
    const lock = {
      localDepsHash: localHash({ './helper': { a: '0.9.0', up: '../up' }, './up': null }),
      deps: { ...deps, up: './up', b: '3.0.0' },
      hashes: { 'a@1.0.0': {}, 'b@3.0.0': {}, 'x@1.0.0': {} },
      graph: { 'a@1.0.0': { b: '5.0.0' } },
      github: { g: { resolved: 'abc', hash: treeHash({ 'src/lib.mo': MODULE }) } },
      later: 'field',
    };
    const files: Files = {
      ...fetched('a@1.0.0', { b: '9.0.0', gone: '1.0.0' }, 'import B "mo:b"; module {}'),
      ...fetched('b@3.0.0'),
      ...fetched('x@1.0.0'),
      '.mops/_github/g#main/src/lib.mo': MODULE,
      'helper/mops.toml': toml({ a: '0.9.0', up: '../up' }),
      'helper/src/lib.mo': MODULE,
    };
    const project = { deps, imports: ['a', 'helper', 'g', 'x@1'], files };
    const closure = await collect({ ...project, lock });
    assert.deepEqual(messagesOf(closure), []);
    // Local packages have no hashes, and one from GitHub has one for all.
    assert.equal(
      noteOf(closure),
      '/p/mops.lock: it has no hash of a@1.0.0/src/lib.mo and 2 other file(s), ' +
        'so nothing says that this is what was published; run mops install',
    );
    const named = (id: string): Table => ({ [`${id}/src/lib.mo`]: sha(files[`.mops/${id}/src/lib.mo`] ?? '') });
    const ids = ['a@1.0.0', 'b@3.0.0', 'x@1.0.0'];
    const hashed = { ...lock, hashes: Object.fromEntries(ids.map((id) => [id, named(id)])) };
    assert.deepEqual(noteOf(await collect({ ...project, lock: hashed })), '');
    const lacking = { ...lock, hashes: { ...hashed.hashes, 'b@3.0.0': {} } };
    assert.match(noteOf(await collect({ ...project, lock: lacking })), /has no hash of b@3\.0\.0\/src\/lib\.mo, so/u);
    assert.deepEqual(namesOf(closure), [
      'helper/src/lib.mo',
      'mo:a@1.0.0/src/lib.mo',
      'mo:b@3.0.0/src/lib.mo',
      'mo:g#main/src/lib.mo',
      'mo:x@1.0.0/src/lib.mo',
    ]);
  });

  it('is believed where another package names what it has, and a local one names another', async () => {
    const deps = { one: './one', two: './two' };
    const [main1, dev] = [github('main'), github('dev')];
    const project = (locked: string): Project => ({
      deps,
      imports: ['one', 'two', 'g'],
      lock: {
        localDepsHash: localHash({ './one': { g: main1 }, './two': { g: dev } }),
        deps: { ...deps, g: locked },
        github: { g: { resolved: 'ab', hash: treeHash({ 'src/lib.mo': MODULE }) } },
      },
      files: {
        'one/mops.toml': toml({ g: main1 }),
        'two/mops.toml': toml({ g: dev }),
        'one/src/lib.mo': MODULE,
        'two/src/lib.mo': MODULE,
        '.mops/_github/g#main/src/lib.mo': MODULE,
        '.mops/_github/g#dev/src/lib.mo': MODULE,
      },
    });
    // The later one of two branches wins, and the lock knows which that is.
    for (const locked of [main1, dev]) assert.equal(noteOf(await collect(project(locked))), '');
  });

  it('names the folder of a package from GitHub that is another tree', async () => {
    const deps = { g: github('v1.0.0') };
    const tree = { 'README.md': 'g', 'src/lib.mo': MODULE };
    const project = (files: Files): Project => ({
      deps,
      imports: ['g'],
      lock: { deps, github: { g: { resolved: 'ab', hash: treeHash(tree) } } },
      files: Object.fromEntries(Object.entries(files).map(([path, text]) => [`.mops/_github/g#v1.0.0/${path}`, text])),
    });
    assert.equal(noteOf(await collect(project(tree))), '');
    for (const other of [
      { ...tree, 'src/lib.mo': 'module { }' },
      { ...tree, 'src/new.mo': '' },
      { 'src/lib.mo': MODULE },
    ])
      assert.match(
        noteOf(await collect(project(other))),
        /mops\.lock: _github\/g#v1\.0\.0 is used, and is not the tree that it means: .* run mops install$/u,
      );
  });

  it('holds for the library that comes with the compiler, too', async () => {
    const { version, textOf } = await readCorePackage();
    const deps = { core: version };
    const project = (hashes: Table): Project => ({
      deps,
      imports: ['core/Bool'],
      lock: { deps, hashes: { [`core@${version}`]: hashes }, graph: { [`core@${version}`]: {} } },
    });
    const name = `core@${version}/src/Bool.mo`;
    const good = await collect(project({ [name]: sha(textOf('Bool') ?? '') }));
    assert.deepEqual([messagesOf(good), [...good.coreModules.keys()]], [[], ['Bool']]);
    const [message = ''] = messagesOf(await collect(project({ [name]: 'f'.repeat(64) })));
    assert.match(
      message,
      /Bool\.mo, which comes with the compiler, is not the file that mops\.lock means: .*mops install$/u,
    );
  });

  it('without a graph is what an error names, since no manifest of a package was read', async () => {
    const deps = { a: '1.0.0' };
    const project = (graph: object | undefined): Project => ({
      deps,
      imports: ['a'],
      lock: { deps, hashes: { 'a@1.0.0': {} }, ...(graph && { graph }) },
      files: fetched('a@1.0.0', { b: '1.0.0' }, 'import B "mo:b"; module {}'),
    });
    assert.deepEqual(messagesOf(await collect(project(undefined))), [
      'mops.lock has no package b, and does not say what each of its packages depends on (graph); ' +
        'add b to mops.toml and run mops install',
    ]);
    assert.deepEqual(messagesOf(await collect(project({ 'a@1.0.0': {} }))), [
      'mops.lock has no package b; add b to mops.toml and run mops install',
    ]);
  });

  it('has hashes as mops writes them', () => {
    // The hashes are those of public locks, and of mops itself.
    assert.equal(rootHash({ core: '2.2.0' }), 'a82497d581efbd0ce845284ff64ff1d18e7277223c42720c6b478795b2fa0cb0');
    assert.equal(
      rootHash({ base: '0.14.0', dt: 'https://github.com/o/r#v1.0.0', lib: './lib' }),
      'd53eda88b6f1f417dc882fa6bd19dfbb24fc4490a76ccf134e6bf42e2fe902f4',
    );
    assert.equal(
      localHash({ './lib': { base: '0.13.0' } }),
      '3b7531b0657793a2675fd63ff5b235c56eb26fee206d763a8671e6cb329fc39e',
    );
  });

  it('knows local packages that have each other, the root, and what is above it', async () => {
    const deps = { l: './l' };
    const locals = { './l': { m: '../m', p: '../', q: '../../' }, './m': { l: '../l' }, './': deps, './..': null };
    const project = (hashed: Parameters<typeof localHash>[0]): Project => ({
      deps,
      imports: ['l'],
      lock: { localDepsHash: localHash(hashed), deps: { l: './l', m: './m', p: './', q: './..' } },
      files: { 'l/mops.toml': toml(locals['./l']), 'l/src/lib.mo': MODULE, 'm/mops.toml': toml(locals['./m']) },
    });
    assert.equal(noteOf(await collect(project(locals))), '');
    const { './..': _, ...without } = locals;
    assert.match(noteOf(await collect(project(without))), /local packages have other dependencies/u);
  });

  it('may be of a manifest that nobody can read, which is told where a package is imported', async () => {
    const deps = { l: './l' };
    const lock = { localDepsHash: localHash({ './l': 'unreadable' }), deps };
    const broken = collect({ deps, imports: ['l'], lock, files: { 'l/mops.toml': '[dep', 'l/src/lib.mo': MODULE } });
    await assert.rejects(broken, { code: 'mops-invalid', message: /\/p\/l\/mops\.toml: it is not TOML \(line 1/u });
  });
});

describe('packages without a lock', () => {
  it('are those of winning versions alone', async () => {
    const closure = await collect({
      deps: { t: '2.0.0', legacy: './legacy' },
      imports: ['t', 'old'],
      files: {
        'legacy/mops.toml': toml({ t: '1.0.0' }),
        ...fetched('t@2.0.0', {}),
        ...fetched('t@1.0.0', { old: '1.0.0' }),
        ...fetched('old@1.0.0', {}),
      },
    });
    assert.deepEqual(namesOf(closure), ['mo:t@2.0.0/src/lib.mo']);
    assert.deepEqual(messagesOf(closure), [
      'the package old is named by t@1.0.0 alone, whose place another version has taken; add old to mops.toml',
    ]);
  });

  const between = async (first: string, second: string): Promise<string> => {
    const folder = (value: string): Files =>
      value.startsWith('https:')
        ? { [`.mops/_github/x#${value.split('#')[1] ?? 'master'}/src/lib.mo`]: MODULE }
        : value.startsWith('.')
          ? { [`${value.slice('../'.length)}/src/lib.mo`]: MODULE }
          : fetched(`x@${value}`);
    const closure = await collect({
      deps: { one: './one', two: './two' },
      imports: ['x'],
      files: {
        'one/mops.toml': toml({ x: first }),
        'two/mops.toml': toml({ x: second }),
        ...folder(first),
        ...folder(second),
      },
    });
    assert.deepEqual(messagesOf(closure), []);
    return namesOf(closure)[0]?.replace(/^mo:x[@#]|\/src\/lib\.mo$/gu, '') ?? '';
  };
  for (const [lower, higher] of [
    ['1.9.0', '1.10.0'],
    ['1.2.0-rc.2', '1.2.0-rc.10'],
    ['1.2.0-rc.10', '1.2.0'],
    ['1.2.0-alpha', '1.2.0-alpha.1'],
    ['1.2.0-1', '1.2.0-a'],
    ['0.16.0', '0.16.1'],
    ['0.16', '0.16.1'],
    ['1.2.3rc1', '1.2.3'],
    ['main', '0.0.1'],
    ['v1.0.0', '1.0.1'],
    ['../some/where', '0.0.1'],
    [github('v9.0.0'), '0.0.1'],
    [github('v1.0.0-rc.2'), github('v1.0.0-rc.10')],
    [github('v1.0.0-rc.2'), github('release-v1.0.0')],
    [github('main'), github('v0.0.1')],
    [github('v100.1.2'), github('v0.0.1')],
    [github('1.2.0'), github('v0.0.1')],
  ] as const) {
    it(`${lower} gives way to ${higher} in either order`, async () => {
      const wins = higher.split('#')[1] ?? higher;
      assert.deepEqual([await between(lower, higher), await between(higher, lower)], [wins, wins]);
    });
  }
  for (const [first, second, wins] of [
    ['../f', '../g', 'f'],
    [github('main'), '../g', 'main'],
    ['../g', github('main'), 'g'],
    [github('main'), github('dev'), 'dev'],
    ['1.0.0+a', '1.0.0+b', '1.0.0+a'],
    ['0.16', '0.16.0', '0.16'],
    ['0.0.0', '../g', '0.0.0'],
  ] as const) {
    it(`of ${first} and then ${second} it is ${wins}`, async () => assert.equal(await between(first, second), wins));
  }

  it('from GitHub bring none of their own', async () => {
    const closure = await collect({
      deps: { g: github('main') },
      imports: ['g'],
      files: {
        '.mops/_github/g#main/src/lib.mo': 'import X "mo:x"; module {}',
        '.mops/_github/g#main/mops.toml': toml({ x: '1.0.0' }),
        ...fetched('x@1.0.0'),
      },
    });
    assert.deepEqual(messagesOf(closure), [
      'mops.toml has no package x, nor has a package of its packages (what comes from GitHub brings none); add x to mops.toml',
    ]);
  });

  it('end, and soon, whatever manifests and graphs name each other', async () => {
    const cpuMs = startCpuTimer();
    const graph = Object.fromEntries(
      Array.from({ length: 900 }, (_, k) => [
        `p${k}@1.0.0`,
        Object.fromEntries(Array.from({ length: 20 }, (_other, j) => [`p${(k * 7 + j) % 900}`, '1.0.0'])),
      ]),
    );
    const closure = await collect({ deps: { p0: '1.0.0' }, imports: ['p0'], lock: { deps: {}, graph } });
    assert.deepEqual(messagesOf(closure), ['the package p0 (1.0.0) is not installed; run mops install']);
    const hashes = Object.fromEntries(
      Array.from({ length: 14_000 }, (_, k) => [`a@1.0.0/src/some/folder/File${k}.mo`, 'ab'.repeat(32)]),
    );
    const large = { deps: { a: '1.0.0' }, hashes: { 'a@1.0.0': hashes } };
    await collect({ deps: { a: '1.0.0' }, imports: ['a'], lock: large, files: fetched('a@1.0.0') });
    assert.ok(cpuMs() < 5000);
  });
});
