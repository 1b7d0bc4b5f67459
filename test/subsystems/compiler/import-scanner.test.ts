import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import fc from '../../support/properties.ts';
import { readCorePackage } from '../../../subsystems/compiler/core-package.ts';
import { scanImports } from '../../../subsystems/compiler/import-scanner.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

const urls = (source: string): readonly string[] => scanImports(source).map(({ url }) => url);

test('imports are found in every form the language has', () => {
  const source = `
    // import A "commented";
    /* import B "commented"; /* nested import C "commented"; */ still */
    import D "mo:core/Text"; import E = "./E"
    import { type F; g = h; // import "x"
      i } "../I";;
    import _ "sub/";
    persistent actor { let s = "import Z \\"no\\";" };
    import Y "too late";`;
  assert.deepEqual(urls(source), ['mo:core/Text', './E', '../I', 'sub/']);
});

test('escapes in a path are resolved', () => {
  assert.deepEqual(urls(String.raw`import A "\6cib\u{2f}\u{1_F600}\n"; import B "a\\\"b"`), ['lib/😀\n', 'a\\"b']);
});

test('the place of an import is that of its literal', () => {
  const source = '/* é */ import A "./x"; actor {}';
  const [found] = scanImports(source);
  assert.equal(source.slice(found?.start, found?.end), '"./x"');
});

test('what is no import ends the search, without an error', () => {
  for (const source of [
    '',
    'import',
    'import A',
    'import A "',
    'import A "x\n"',
    'import A "\\q"',
    '/* open',
    'importA "x"',
  ]) {
    assert.deepEqual(urls(source), [], source);
  }
  assert.deepEqual(urls('import A "a"; actor { import B "b" }'), ['a']);
});

test('arbitrary text neither throws nor takes long', () => {
  const hostile = [
    '/*'.repeat(200_000),
    '/* */'.repeat(200_000),
    'import A "a";'.repeat(100_000),
    `import ${'{'.repeat(500_000)}`,
  ];
  const cpuMs = startCpuTimer();
  for (const source of hostile) scanImports(source);
  assert.ok(cpuMs() < 2000, 'the scan is linear');
  const piece = fc.constantFrom('import', ' ', '"', '\\', '/*', '*/', '//', '\n', ';', '{', '}', 'x', 'u{41}', 'é');
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const source = pieces.join('');
      for (const { start, end } of scanImports(source)) assert.match(source.slice(start, end), /^"[^\n]*"$/);
    }),
  );
});

test('every module of mo:core imports what the compiler says it imports', async () => {
  interface Moc {
    parseMotokoWithDeps(recover: boolean, path: string, text: string): { code: { immediateImports: string[] } | null };
    saveFile(path: string, text: string): void;
    addPackage(name: string, folder: string): void;
  }
  const { Motoko } = createRequire(import.meta.url)('motoko/versions/latest/moc.min.js') as { Motoko: Moc };
  const core = await readCorePackage();
  const files = core.filesFor(core.modules);
  assert.ok(core.modules.length > 40);
  for (const [path, text] of files) Motoko.saveFile(path, text);
  for (const [path, text] of files) {
    const expected = Motoko.parseMotokoWithDeps(false, path, text).code?.immediateImports;
    // The compiler gives the built-in module's name, and other modules' files.
    const found = urls(text).map((url) =>
      url === 'mo:⛔' || url === 'mo:prim'
        ? '@prim'
        : `${new URL(url, `file:///${path.replace('mo:', '')}`).pathname.slice(1)}.mo`,
    );
    assert.deepEqual(new Set(found.map((file) => file.replace(/^core\//u, 'mo:core/'))), new Set(expected), path);
  }
});
