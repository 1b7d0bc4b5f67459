/**
 * Runs the tests that the arguments name (options with `=` of `node --test`, and globs), and runs the files of failed
 * tests once more, by themselves. Such tests are told by name: one that passes alone is a fault to mend as well.
 *
 * A change that breaks something fails both times. More than `FILES_MAX` failed files are no accident of a busy
 * machine, even of one that is half as fast as it was an hour before, and are not run again. Ends with the summary and
 * the exit code of the last run.
 */
import { existsSync, globSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const FILES_MAX = 6;
/** Files at once: on two cores, with two, a third of the time was spent waiting. */
const CONCURRENCY = 3;
/** Modules that each test file is run with; their heads say why. */
const BEFORE_FILES = ['untracked-promises', 'bundled-threads', 'file-deadline'].map(
  (name) => `--import=${new URL(`../test/support/${name}.js`, import.meta.url).href}`,
);
/**
 * Files that take longest, the longest first. They begin before all others, which begin in the order of their names: a
 * long one that begins late would run alone at the end.
 */
const LONGEST = [
  'postgres-nodes',
  'package',
  'soak',
  'create-svc',
  'inspector',
  'administration',
  'packed-plugins',
].map((name) => {
  const path = resolve(import.meta.dirname, `../test/system/${name}.test.ts`);
  if (!existsSync(path)) throw new Error(`${path} is one of the longest test files, and is not there`);
  return path;
});

interface FailedTest {
  /** Path of the file. */
  readonly file: string;
  readonly name: string;
}

/** Returns the paths of the files that these globs name, in the order in which they begin. */
function filesOf(globs: readonly string[]): readonly string[] {
  const paths = new Set(globSync(globs, { exclude: (name) => name === 'node_modules' }).map((file) => resolve(file)));
  if (paths.size === 0) throw new Error(`no file is named ${globs.join(' or ')}`);
  const long = LONGEST.filter((file) => paths.has(file));
  return [...long, ...[...paths].filter((file) => !long.includes(file)).toSorted()];
}

/** Runs files with at most that many at once; tells exit code and failed tests. */
async function runFiles(
  files: readonly string[],
  concurrency: number,
): Promise<{ readonly code: number; readonly failed: readonly FailedTest[] }> {
  const events = run({
    files,
    concurrency,
    signal: stopping.signal,
    execArgv: [...BEFORE_FILES, ...options],
    ...(globalSetup !== undefined && { globalSetupPath: globalSetup }),
  });
  const failed: FailedTest[] = [];
  let code = 1;
  events.on('test:fail', ({ file, name, todo }) => {
    // A file that could not be run is a test whose name is its path.
    if (todo === undefined) failed.push({ file: file ?? name, name });
  });
  events.on('test:summary', ({ file, success }) => {
    if (file === undefined) code = success ? 0 : 1;
  });
  const printed = events.compose(spec);
  printed.pipe(process.stdout, { end: false });
  await finished(printed);
  return { code, failed };
}

const stopping = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort());
const GLOBAL_SETUP = /^--test-global-setup=(.*)$/;
const args = process.argv.slice(2);
const globalSetup = args.map((arg) => GLOBAL_SETUP.exec(arg)?.[1]).find((path) => path !== undefined);
const options = args.filter((arg) => arg.startsWith('-') && !GLOBAL_SETUP.test(arg));
const first = await runFiles(filesOf(args.filter((arg) => !arg.startsWith('-'))), CONCURRENCY);
let { code } = first;
const files = [...new Set(first.failed.map(({ file }) => resolve(file)))];
if (code !== 0 && !stopping.signal.aborted && files.length > 0 && files.length <= FILES_MAX) {
  const names = first.failed.map(({ file, name }) => `  ${relative('.', file)}: ${name}`).join('\n');
  process.stdout.write(`
These tests failed. Their files are run once more, alone; a test that passes then failed for what ran beside it, and is
to be mended all the same:
${names}

`);
  ({ code } = await runFiles(files, 1));
}
process.exitCode = code;
