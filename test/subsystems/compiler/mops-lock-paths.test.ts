/** Files of packages that mops has fetched, imported by their paths: a lock that is believed holds for them, too. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { collectClosure } from '../../../subsystems/compiler/source-closure.ts';
import type { SourceClosure } from '../../../subsystems/compiler/closure.ts';
import { sha256, treeHashes } from '../../../subsystems/compiler/mops/mops-lock.ts';
import { memorySources } from '../../../subsystems/compiler/source-reader.ts';

const MODULE = 'module {}';
const DEPS = { a: '1.0.0', g: 'https://github.com/o/g#main' };
const FETCHED = {
  'a@1.0.0/src/lib.mo': MODULE,
  'a@1.0.0/src/Deep.mo': MODULE,
  'a@1.0.0/data.txt': 'x',
  '_github/g#main/src/lib.mo': MODULE,
};

interface Case {
  readonly main: string;
  /** Where packages are; the project is in `/p`. */
  readonly store?: string;
  /** Files of the store that are others than the lock means. */
  readonly changed?: Readonly<Record<string, string>>;
  readonly unhashed?: string | undefined;
}

async function collect({ main, store = '/p/.mops', changed = {}, unhashed }: Case): Promise<SourceClosure> {
  const hashes = Object.fromEntries(
    Object.entries(FETCHED)
      .filter(([path]) => path.startsWith('a@') && path !== unhashed)
      .map(([path, text]) => [path, sha256(text)]),
  );
  const tree = treeHashes(new Map([['src/lib.mo', Buffer.from(MODULE)]]))[0] ?? '';
  const lock = {
    version: 3,
    mopsTomlDepsHash: sha256(JSON.stringify(DEPS)),
    deps: DEPS,
    hashes: { 'a@1.0.0': hashes },
    github: { g: { resolved: 'ab', hash: tree } },
  };
  const toml = Object.entries(DEPS).map(([name, value]) => `${name} = "${value}"\n`);
  const files = {
    '/p/src/Main.mo': main,
    '/p/mops.toml': `[dependencies]\n${toml.join('')}`,
    '/p/mops.lock': JSON.stringify(lock),
    ...Object.fromEntries(
      Object.entries<string>({ ...FETCHED, ...changed }).map(([path, text]) => [`${store}/${path}`, text]),
    ),
  };
  return collectClosure('/p/src/Main.mo', memorySources(new Map(Object.entries(files))), {
    mops: { stores: ['/store'], environment: 'local', ceiling: '/p' },
  });
}
const told = ({ problems, notes }: SourceClosure): readonly string[] => [
  ...problems.first.map(({ message }) => message),
  ...notes.map(({ text }) => text),
];

describe('a file of a package, by its path', () => {
  for (const [store, up] of [
    ['/p/.mops', '../.mops'],
    ['/store', '../../store'],
  ] as const) {
    const IMPORTS = {
      'a@1.0.0/src/lib.mo': `import A "${up}/a@1.0.0/src"; actor {}`,
      'a@1.0.0/src/Deep.mo': `import D "${up}/a@1.0.0/src/Deep"; actor {}`,
      'a@1.0.0/data.txt': `import X "blob:file:${up}/a@1.0.0/data.txt"; actor {}`,
    };
    for (const [path, main] of Object.entries(IMPORTS)) {
      it(`is compared with the lock: ${path} in ${store}`, async () => {
        assert.deepEqual(told(await collect({ main, store })), []);
        const other = told(await collect({ main, store, changed: { [path]: 'module { }' } }));
        assert.equal(other.length, 1);
        assert.match(other[0] ?? '', /is not the file that mops\.lock means: its SHA-256 is .*; run mops install$/u);
        const [note] = told(await collect({ main, store, unhashed: path }));
        assert.equal(note?.startsWith(`it has no hash of ${path}, so nothing says`), true, note ?? '');
      });
    }

    it(`is compared as a tree where the package is from GitHub, once: in ${store}`, async () => {
      const main = `import A "${up}/_github/g#main/src"; import B "${up}/_github/g#main/src/lib"; actor {}`;
      assert.deepEqual(told(await collect({ main, store })), []);
      const notes = told(await collect({ main, store, changed: { '_github/g#main/new.mo': '' } }));
      assert.equal(notes.length, 1);
      assert.match(notes[0] ?? '', /^_github\/g#main is used, and is not the tree that it means/u);
    });
  }

  it('is compared, whoever reads it first', async () => {
    const [byPath, byName] = ['import A "../.mops/a@1.0.0/src/lib";', 'import P "mo:a";'];
    for (const main of [`${byPath} ${byName} actor {}`, `${byName} ${byPath} actor {}`]) {
      assert.deepEqual(told(await collect({ main })), []);
      const [problem] = told(await collect({ main, changed: { 'a@1.0.0/src/lib.mo': 'module { }' } }));
      assert.match(problem ?? '', /is not the file that mops\.lock means/u);
    }
  });
});
