/** Rules about the tree as a whole, which no compiler checks. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { ALL, files, read, resolved, ROOT, SERVER, sources } from './support/source-tree.ts';

/**
 * Returns the files that a file names, by the pattern's first group; a name without an extension means a `.ts` file.
 */
function references(file: string, pattern: RegExp): readonly string[] {
  return [...read(file).matchAll(pattern)].map(([, specifier = '']) => {
    const target = resolved(file, specifier);
    return /\.\w+$/.test(target) ? target : `${target}.ts`;
  });
}

test('the tree is where this test looks for it', () => {
  assert.ok(sources.includes('kernel/index.ts') && sources.includes('test/tidy.test.ts'));
  assert.ok(files(SERVER, '**/*.ts').length > 50);
});

test('every source file of the server imports cleanly in Node', { timeout: 60_000 }, async () => {
  // Entries of threads need the data with which they are started; the code that starts them is tested with them.
  const threads = new Set(files(SERVER, '**/*.ts').flatMap((file) => references(file, /new URL\(\s*['`](\.[^'`$]+)/g)));
  const modules = files(SERVER, '**/*.ts').filter((file) => !threads.has(file));
  const urls = modules.map((file) => pathToFileURL(join(ROOT, file)).href);
  // The imports run in a thread of their own, so that imported code cannot disturb these tests.
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     (async () => {
       for (const url of workerData.urls) {
         try { await import(url); } catch (error) { parentPort.postMessage({ tidy: url + ': ' + (error.stack ?? error) }); }
       }
       parentPort.postMessage({ tidy: null });
     })();`,
    { eval: true, workerData: { urls }, stdout: true, stderr: true },
  );
  const failures: string[] = [];
  try {
    await new Promise<void>((done, fail) => {
      worker.on('error', fail);
      worker.on('exit', () => fail(new Error('a file ended the thread that imported it')));
      worker.on('message', (message: { readonly tidy?: string | null }) => {
        if (message.tidy === null) done();
        else if (message.tidy !== undefined) failures.push(message.tidy);
      });
    });
  } finally {
    await worker.terminate();
  }
  assert.deepEqual(failures, []);
});

test('no source file is an orphan', () => {
  const used = new Set(
    sources.flatMap((file) => references(file, /(?:from|import\(|import|new URL\()\s*['`](\.[^'`$]+)/g)),
  );
  // The command is plain JavaScript (config/svc.js).
  const scripts = ['package.json', '.ci/run', 'config/bundle.js'].map(read).join('\n');
  const isEntry = (file: string): boolean => /\.(test|bench)\.ts$/.test(file) || scripts.includes(file);
  // The bundler's entry point.
  const isPage = (file: string): boolean => file === 'subsystems/inspector/page/main.tsx';
  // Programs that benchmarks, tests and fixtures run by name.
  const isProgram = (file: string): boolean => /^(benchmarks|test\/fixtures)\//.test(file);
  const orphans = sources.filter((file) => !used.has(file) && !isEntry(file) && !isPage(file) && !isProgram(file));
  assert.deepEqual(orphans, []);
});

test('nothing is left for later: no fix-me marks, no test that runs alone or not at all', () => {
  const marks = new RegExp(
    `\\b(${['FIX', 'TO', 'XX'].map((half, index) => half + ['ME', 'DO', 'X'][index]).join('|')})\\b`,
  );
  const limited = /\b(?:test|it|describe|suite)\.(?:only|skip|todo)\b|\{\s*(?:only|skip|todo): (?:true|'|")/;
  const found = sources.filter((file) => marks.test(read(file)) || limited.test(read(file)));
  assert.deepEqual(found, []);
});

test('no test removes the directory of a server that runs: a hook that fails skips those behind it, and the file never ends', () => {
  const early =
    /await mkdtemp\((?:(?!\n\}).)*t\.after\(\(\) => rm\((?:(?!\n\}).)*(?:await startServer\(|startInProcess\()/s;
  const found = sources.filter((file) => early.test(read(file)));
  assert.deepEqual(found, []);
});

/** All files that people read. */
const texts = [
  ...sources,
  ...files(['docs', ...ALL], '**/*.{md,json,jsonc}'),
  ...globSync('*.{json,md}', { cwd: ROOT }),
  '.npmrc',
  '.ci/run',
  '.oxlintrc.json',
  '.oxfmtrc.json',
].filter((file) => !file.includes('node_modules'));

test('no file names a path of some machine or the host of a registry', () => {
  const machine = /(?:^|["'`\s(=:])\/(?:work|root|home|tmp|Users)\/\w/m;
  const registry = /https?:\/\/[^\s"'/]*(?:npmjs|registry|artifactory|verdaccio)/i;
  const found = texts.filter((file) => machine.test(read(file)) || registry.test(read(file)));
  assert.deepEqual(found, []);
});

interface NamedPage {
  readonly name: string;
  /** Undefined: the page is not in the repository. */
  readonly path: string | undefined;
  readonly section: string | undefined;
}

/**
 * Returns the pages that a file names: from the root or from the file's own folder, perhaps with a section in quotes
 * behind the name.
 */
function pagesNamedIn(file: string): readonly NamedPage[] {
  const pages = read(file).matchAll(/((?:[\w.-]+\/)*[\w.-]+\.md)\b(?:`?,? \(?"([^"\n]+)")?/g);
  return [...pages].map(([, name = '', section]) => ({
    name,
    path: [name, join(dirname(file), name)].find((candidate) => existsSync(join(ROOT, candidate))),
    section,
  }));
}

function sectionsOf(page: string): readonly string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title);
}

test('what comments and documents refer to is in the repository: pages, their sections, decisions', () => {
  const found: string[] = [];
  for (const file of texts) {
    for (const { name, path, section } of pagesNamedIn(file)) {
      if (path === undefined) found.push(`${file}: there is no page ${name}`);
      else if (section !== undefined && !sectionsOf(path).includes(section))
        found.push(`${file}: ${path} has no section "${section}"`);
    }
    for (const [, number = ''] of read(file).matchAll(/\bADR (\d+)\b/g)) {
      if (globSync(`docs/adr/${number.padStart(4, '0')}-*.md`, { cwd: ROOT }).length === 0)
        found.push(`${file}: there is no ADR ${number}`);
    }
  }
  assert.deepEqual(found, []);
});

test('every decision stands in the index of decisions', () => {
  const index = read('docs/adr/README.md');
  const pages = globSync('docs/adr/[0-9]*.md', { cwd: ROOT });
  assert.ok(pages.length > 30);
  for (const page of pages) {
    const [, number = '', title = ''] = /^# (\d+)\. (.*)$/m.exec(read(page)) ?? [];
    assert.ok(index.includes(`- [${number}. ${title}](${page.slice('docs/adr/'.length)})`), page);
  }
});

test('documents and comments name only files that are there; decisions may name what was', () => {
  const inRoom = /`((?:kernel|subsystems|plugins|config|api|loader|test|benchmarks|docs)\/[\w./-]*\w)`/g;
  const source = /[\w./-]+\.ts\b/g;
  const comment = /^\s*(?:\/?\*|\/\/).*$/gm;
  const isKnown = (name: string): boolean => sources.some((file) => `/${file}`.endsWith(`/${name}`));
  const found: string[] = [];
  for (const page of texts.filter((file) => file.endsWith('.md') && !file.startsWith('docs/adr/'))) {
    const text = read(page);
    for (const [, path = ''] of text.matchAll(inRoom)) {
      if (!existsSync(join(ROOT, path))) found.push(`${page}: ${path}`);
    }
    for (const [name] of text.matchAll(source)) if (!isKnown(name)) found.push(`${page}: ${name}`);
  }
  for (const file of files(SERVER, '**/*.ts')) {
    for (const [line] of read(file).matchAll(comment)) {
      for (const [name] of line.matchAll(source)) if (!isKnown(name)) found.push(`${file}: ${name}`);
    }
  }
  assert.deepEqual(found, []);
});

/** Files that pass a code through a variable; the other patterns find its possible values. */
const HANDED_THROUGH = [
  'subsystems/codec/lexer.ts',
  'subsystems/compiler/source-reader.ts',
  'subsystems/execution/pool/module-loader.ts',
  'subsystems/storage/commit-queue.ts',
  'subsystems/threads/job-failure.ts',
  'subsystems/wasm/refusal.ts',
];

test('the codes of errors and docs/errors.md are equal both ways', () => {
  const codes = new Set<string>();
  const variable = new Set<string>();
  for (const file of files(SERVER, '**/*.ts')) {
    const text = read(file);
    for (const [, code, other] of text.matchAll(/new ServerError\(\s*[^,()]+,\s*(?:'([^']+)'|([^\s']))/g)) {
      if (code !== undefined) codes.add(code);
      if (other !== undefined) variable.add(file);
    }
    for (const [, code = ''] of text.matchAll(/\b(?:refusal|refuse)\(\s*'([a-z-]+)'/g)) codes.add(code);
    for (const [, code = ''] of text.matchAll(/new Lexer\([^()]*,\s*'([a-z-]+)'\)/g)) codes.add(code);
    if (!text.includes('extends ServerError')) continue;
    for (const [, code = ''] of text.matchAll(/super\(\s*[^,()]+,\s*'([a-z-]+)'/g)) codes.add(code);
  }
  assert.deepEqual([...variable].toSorted(), HANDED_THROUGH);
  for (const code of codes) assert.match(code, /^[a-z]+(?:-[a-z]+)*$/);
  const documented = [...read('docs/errors.md').matchAll(/^\| `([^`]+)` \|/gm)].map(([, code]) => code);
  assert.deepEqual(documented, [...codes].toSorted(), 'docs/errors.md lists every code once, in alphabetical order');
});
