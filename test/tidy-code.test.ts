/**
 * Files, functions, comments and exports of the tree, each against a rule. Lists of exceptions may only shrink: an
 * exception that is not needed any more fails its test, too.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  codeWords,
  linesOver,
  longComments,
  longFunctions,
  unknownNames,
  vagueComments,
} from './support/code-rules.ts';
import { files, read, serverSources, sources } from './support/source-tree.ts';
import { unusedExports } from './support/unused-exports.ts';

/** Files with more than 500 lines, each with the lines that it has at most. */
const LONG_FILES: Readonly<Record<string, number>> = {
  // One instance and its journal: what reads or undoes memory needs all private fields of it.
  'subsystems/execution/engine/instance.ts': 885,
  // One thread's loop and the commands that it takes in.
  'subsystems/execution/thread/executor-thread.ts': 750,
};

/** Functions with more than 70 lines. */
const LONG_FUNCTIONS: readonly string[] = [
  // Closures over what was compiled once, on the codec's hot path.
  'subsystems/codec/encode-json.ts: recordEncoder',
  'subsystems/codec/encode-lossless.ts: losslessVariant',
  // One transaction, top to bottom: each step may be the last, and undoes those before it.
  'subsystems/execution/engine/change-code.ts: upgrade',
  'subsystems/execution/engine/run-callback.ts: runCallback',
  'subsystems/execution/engine/run-callback.ts: runCompositeCallback',
];

/** Words in backticks that are names elsewhere: of V8, wat, grammars, the compiler, the system, or examples. */
const FOREIGN_NAMES = [
  '$mark',
  'BudgetScaleFactor',
  'LetD',
  '_123_',
  'clientError',
  'name_2',
  'name_3',
  'no_region',
  'printDeps',
  'pwrite',
  'tchar',
];

/** Files that no import statement loads: the command imports a bundle or its source, the runner a path. */
const IMPORTED_BY_PATH = ['config/main.ts', 'test/support/global-setup.ts'];

/** Fixtures are inputs, not code of this tree; a baseline is code of before. */
const own = sources.filter((file) => !/^(?:test\/fixtures|benchmarks\/baseline)\//.test(file));
/** Contract suites are tests. */
const shipped = serverSources.filter((file) => !file.startsWith('plugins/api/contracts/'));

test('a file of the server has at most 500 lines', () => {
  for (const file of shipped) {
    const lines = linesOver(read(file));
    const exception = LONG_FILES[file];
    assert.equal(lines !== undefined, exception !== undefined, `${file}: ${lines ?? 'at most 500'} lines`);
    if (lines !== undefined && exception !== undefined) assert.ok(lines <= exception, `${file}: ${lines} lines`);
  }
  for (const file of Object.keys(LONG_FILES)) assert.ok(shipped.includes(file), `there is no ${file}`);
});

test('a function of the server has at most 70 lines', () => {
  const found = shipped.flatMap((file) => longFunctions(file, read(file)).map((name) => `${file}: ${name}`));
  assert.deepEqual(found.toSorted(), LONG_FUNCTIONS);
});

test('a comment begins with its verb or noun, and says what it speaks of', () => {
  const found = own.flatMap((file) => vagueComments(read(file)).map((place) => `${file}:${place}`));
  assert.deepEqual(found, []);
});

test('a line with a comment has at most 120 characters', () => {
  const found = own.flatMap((file) => longComments(read(file)).map((line) => `${file}:${line}`));
  assert.deepEqual(found, []);
});

test('an identifier in backticks in a comment is one of the code', () => {
  const withNames = [...own, ...files(['config'], '*.js')].filter((file) => file !== 'test/tidy-code.test.ts');
  const code = new Set(withNames.flatMap((file) => codeWords(read(file))));
  for (const name of FOREIGN_NAMES) assert.ok(!code.has(name), `${name} is a name of ours now`);
  const found = own.flatMap((file) => unknownNames(read(file), code).map((name) => ({ file, name })));
  assert.deepEqual(
    found.filter(({ name }) => !FOREIGN_NAMES.includes(name)).map(({ file, name }) => `${file}: ${name}`),
    [],
  );
  assert.deepEqual([...new Set(found.map(({ name }) => name))].toSorted(), FOREIGN_NAMES);
});

test('an export is imported by some other file', () => {
  const texts = new Map([...sources, ...files(['config', '.ci'], '*.js')].map((file) => [file, read(file)]));
  const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, string | { types: string }> };
  const entries = Object.values(exports).map((entry) => (typeof entry === 'string' ? entry : entry.types));
  const published = new Set(entries.map((path) => path.replace('./dist/', '').replace(/\.d\.ts$/, '.ts')));
  assert.ok(published.has('plugins/api/plugin.ts'));
  const isPublic = (file: string): boolean => published.has(file) || IMPORTED_BY_PATH.includes(file);
  const found = unusedExports(texts, isPublic).filter((each) => own.includes(each.split(': ')[0] ?? ''));
  assert.deepEqual(found, []);
});

suite('each rule finds what breaks it', () => {
  const lines = (count: number): string => '  work();\n'.repeat(count);

  test('lines of files and functions, on both sides of their bounds', () => {
    assert.equal(linesOver(lines(500)), undefined);
    assert.equal(linesOver(lines(501)), 501);
    const method = (count: number): string => `class A {\n  #long() {\n${lines(count - 2)}  }\n}\n`;
    assert.deepEqual(longFunctions('a.ts', method(70)), []);
    assert.deepEqual(longFunctions('a.ts', method(71)), ['long']);
    assert.deepEqual(longFunctions('a.ts', `const arrow = () => {\n${lines(70)}};\n`), ['arrow']);
    assert.deepEqual(longFunctions('a.tsx', `x;\nrun(function () {\n${lines(70)}});\n<a>b</a>;\n`), ['(line 2)']);
  });

  test('comments of every form that begin with such a word, and no strings', () => {
    const word = 'It';
    const text = `/** What it is. */
const a = '// How'; // Whether it is.
/*
 * ${word} is.
 */
const b = /\\/\\/ Of/; // Returns what it is.
// The head of a comment
// of two lines.
const c = \`/* Its */\`;
`;
    assert.deepEqual(vagueComments(text), ['1: What it is.', '2: Whether it is.', '3: It is.']);
  });

  test('lines of comments that are too long, and no lines of code', () => {
    const long = 'x'.repeat(120);
    const text = `const a = '${long}';\n// ${long}\n/**\n * ${long}\n */\n// ${long.slice(3)}\n`;
    assert.deepEqual(longComments(text), [2, 4]);
  });

  test('names that the code does not have', () => {
    const code = new Set(codeWords('const known = 1;\n// const unknown = 2;\n'));
    const text = '// Hands `known` to `unknown`, `#private` and `called()`, not to `a b`.\n';
    assert.deepEqual(unknownNames(text, code), ['unknown', 'private', 'called']);
  });

  test('exports that nobody imports, also where files pass them on', () => {
    const texts = new Map([
      ['a/one.ts', 'export const used = 1;\nexport type Unused = 2;\nexport function passed() {}\n'],
      ['a/index.ts', "export * from './one.ts';\nexport { used as other } from './one.ts';\n"],
      ['a/public.ts', "export { given } from './two.ts';\n"],
      ['a/two.ts', 'export const given = 1;\nconst hidden = 2;\nexport { hidden };\n'],
      ['b.ts', "import { passed } from './a/index.ts';\nconst { used } = await import('./a/index.ts');\n"],
      ['c.ts', "import type { hidden } from './a/none.ts';\nexport const alone = passed;\n"],
    ]);
    const withoutDynamic = new Map(texts).set('b.ts', "import { passed } from './a/index.ts';\n");
    const isPublic = (file: string): boolean => file === 'a/public.ts';
    assert.deepEqual(unusedExports(texts, isPublic), ['a/two.ts: hidden', 'c.ts: alone']);
    assert.deepEqual(unusedExports(withoutDynamic, isPublic), [
      'a/one.ts: used',
      'a/one.ts: Unused',
      'a/index.ts: used',
      'a/two.ts: hidden',
      'c.ts: alone',
    ]);
  });
});
