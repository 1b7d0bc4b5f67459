/**
 * Runs the tests that the arguments name (options with `=` of `node --test`, and globs), and runs the files of failed
 * tests once more, by themselves. Such tests are told by name: one that passes alone is a fault to mend as well.
 *
 * A change that breaks something fails both times. More than `FILES_MAX` failed files are no accident of a busy
 * machine, and are not run again. Ends with the summary and the exit code of the last run.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FailedTest } from './failed-tests.ts';

const FILES_MAX = 3;
/** Files at once: on two cores, with two, a third of the time was spent waiting. */
const CONCURRENCY = 3;
/** Modules that each test file is run with; their heads say why. */
const BEFORE_FILES = ['untracked-promises', 'bundled-threads'].map(
  (name) => new URL(`../test/support/${name}.js`, import.meta.url),
);
const OPTIONS = [...BEFORE_FILES.map(({ href }) => `--import=${href}`), '--test', '--test-reporter=spec'];
const REPORTER = fileURLToPath(new URL('./failed-tests.ts', import.meta.url));

/** Runs the tests with at most that many files at once; tells exit code and failed tests. */
async function run(
  args: readonly string[],
  concurrency: number,
): Promise<{ readonly code: number; readonly failed: readonly FailedTest[] }> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-tests-'));
  try {
    const failures = join(directory, 'failed');
    const reporters = ['--test-reporter-destination=stdout', `--test-reporter=${REPORTER}`];
    const options = [...OPTIONS, ...reporters, `--test-reporter-destination=${failures}`];
    const child = spawn(process.execPath, [...options, `--test-concurrency=${concurrency}`, ...args], {
      stdio: 'inherit',
    });
    const forward = (signal: NodeJS.Signals) => void child.kill(signal);
    process.once('SIGTERM', forward).once('SIGINT', forward);
    const [code] = (await once(child, 'exit')) as [number | null];
    process.off('SIGTERM', forward).off('SIGINT', forward);
    // A runner that a signal ended has said nothing that could be asked again.
    if (code === null) return { code: 1, failed: [] };
    const lines = (await readFile(failures, 'utf8')).split('\n').filter(Boolean);
    return { code, failed: lines.map((line) => JSON.parse(line) as FailedTest) };
  } finally {
    await rm(directory, { recursive: true });
  }
}

const args = process.argv.slice(2);
const first = await run(args, CONCURRENCY);
process.exitCode = first.code;
const files = [...new Set(first.failed.map(({ file }) => file))];
if (first.code !== 0 && files.length > 0 && files.length <= FILES_MAX) {
  const names = first.failed.map(({ file, name }) => `  ${relative('.', file)}: ${name}`).join('\n');
  process.stdout.write(`
These tests failed. Their files are run once more, alone; a test that passes then failed for what ran beside it, and is
to be mended all the same:
${names}

`);
  const options = args.filter((arg) => arg.startsWith('-'));
  process.exitCode = (await run([...options, ...files], 1)).code;
}
