import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const RUN_TESTS = fileURLToPath(new URL('../../.ci/run-tests.ts', import.meta.url));
const TOLD = 'These tests failed. Their files are run once more, alone';

/** Each file notes that it ran; one that is to fail at first looks whether it is its first time. */
const BODIES = {
  passes: '',
  'fails at first': `assert.ok(ran > 0, 'the first time');`,
  fails: `assert.fail('each time');`,
  'never ends': `console.log('child', spawn('sleep', ['100']).pid); setInterval(() => {}, 1000);`,
  'leaves an error behind': `void Promise.resolve().then(() => { throw new Error('nobody awaits this'); });`,
} as const;

/** Runs such files; returns how often each ran, the exit code and what was printed. */
async function runFiles(
  bodies: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly printed: string; readonly runs: readonly number[] }> {
  const directory = await temporaryDirectory();
  const runs = join(directory, 'runs');
  await mkdir(runs);
  for (const [at, body] of bodies.entries()) {
    const source = `import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import test from 'node:test';
const ran = readdirSync(${JSON.stringify(runs)}).filter((name) => name.startsWith('${at}-')).length;
writeFileSync(\`${runs}/${at}-\${ran}\`, '');
test('test ${at}', () => { ${body} });
test('a bystander of ${at}', () => {});
`;
    await writeFile(join(directory, `file ${at}.test.mjs`), source);
  }
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, [RUN_TESTS, `${directory}/*.test.mjs`], {
    env: { ...env, ...settings },
    encoding: 'utf8',
  });
  const ran = readdirSync(runs);
  const count = (at: number) => ran.filter((name) => name.startsWith(`${at}-`)).length;
  return { code: status, printed: stdout, runs: bodies.map((_body, at) => count(at)) };
}

const { passes, fails } = BODIES;
const atFirst = BODIES['fails at first'];

test('tests that pass run once', async () => {
  const { code, printed, runs } = await runFiles([passes, passes]);
  assert.deepEqual([code, runs, printed.includes(TOLD)], [0, [1, 1], false]);
  assert.match(printed, /pass 4\n/);
});

test('a test that fails beside others and passes alone is told, and only its file runs again', async () => {
  const { code, printed, runs } = await runFiles([passes, atFirst]);
  assert.deepEqual([code, runs], [0, [1, 2]]);
  const told = printed.slice(printed.indexOf(TOLD));
  assert.match(told, /file 1\.test\.mjs: test 1\n/);
  assert.doesNotMatch(told, /bystander of 1\n\n|test 0/);
  // The summary at the end is the second run's.
  assert.match(told, /pass 2\n[^]*fail 0\n/);
});

test('a test that fails alone as well fails the run', async () => {
  const { code, runs } = await runFiles([passes, atFirst, fails]);
  assert.deepEqual([code, runs], [1, [1, 2, 2]]);
});

test('an error that nobody awaits fails its file', async () => {
  const { code, printed, runs } = await runFiles([passes, BODIES['leaves an error behind']]);
  assert.deepEqual([code, runs, printed.includes(TOLD)], [1, [1, 2], true]);
  assert.match(printed, /nobody awaits this/);
});

test('a file that cannot be loaded is one that fails', async () => {
  const { code, printed, runs } = await runFiles([passes, '}); throw new Error("not loaded"); (() => {']);
  assert.deepEqual([code, runs, printed.includes(TOLD)], [1, [1, 2], true]);
});

test('a file that does not end fails, its children end with it, and the others run', async () => {
  const { code, printed } = await runFiles([BODIES['never ends'], passes], { SVC_TEST_FILE_MS_MAX: '3000' });
  assert.equal(code, 1);
  assert.match(printed, /file 0\.test\.mjs has not ended within 3 s; it waits for: .*Timeout/);
  assert.match(printed, /✔ test 1 /);
  const children = [...printed.matchAll(/child (\d+)/g)].map(([, pid]) => Number(pid));
  assert.equal(children.length, 2);
  // One that was killed and that nobody has waited for yet has no command line any more.
  for (const pid of children) assert.equal(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''), '');
});

test('six failed files are run again, seven are not', async () => {
  const times = (count: number): readonly string[] => Array.from({ length: count }, () => atFirst);
  const six = await runFiles(times(6));
  assert.deepEqual([six.code, six.runs], [0, [2, 2, 2, 2, 2, 2]]);
  const seven = await runFiles(times(7));
  assert.deepEqual([seven.code, seven.runs, seven.printed.includes(TOLD)], [1, [1, 1, 1, 1, 1, 1, 1], false]);
});
