/**
 * The corpus of hostile modules (test/fixtures/hostile), each through the real module worker and executor thread, all
 * in one other process: a module that ends the process fails here by name. `npm run prove` gives each a process of its
 * own.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { corpus } from '../../fixtures/hostile/corpus.ts';
import type { HostileModule } from '../../fixtures/hostile/entry.ts';
import { type Measured, PROGRAM, readReport } from '../../fixtures/hostile/report.ts';

/** `npm run prove` requires 2 s; here other tests run at the same time, and what waits for a core does not count. */
const MS_MAX = 10_000;
const PEAK_BYTES_MAX = 512 * 2 ** 20;
const MESSAGE_LENGTH_MAX = 500;

const results = new Map<string, Measured>();
let ending = '';

function run(): Promise<void> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 1 << 26, timeout: 180_000 };
    execFile(process.execPath, ['--expose-gc', fileURLToPath(PROGRAM)], options, (error, stdout, stderr) => {
      const { measured, unfinished } = readReport(stdout);
      for (const one of measured) results.set(one.name, one);
      ending = error === null ? '' : `the process ended at "${unfinished ?? 'the end'}": ${stderr.slice(-500)}`;
      resolve();
    });
  });
}

function check({ name, expected }: HostileModule): void {
  const measured = results.get(name);
  assert.ok(measured !== undefined, `not measured; ${ending}`);
  assert.deepEqual(measured.bugs, []);
  if ('refused' in expected) {
    const { refused } = measured;
    assert.ok(refused !== undefined, `not refused: ${JSON.stringify(measured)}`);
    assert.equal(refused.kind, 'invalid');
    assert.equal(refused.code, expected.refused, refused.message);
    assert.match(refused.message, expected.says);
    assert.ok(refused.message.length < MESSAGE_LENGTH_MAX, `a message of ${refused.message.length} characters`);
    assert.doesNotMatch(refused.message, /[\u0000-\u001f]/, 'control characters in a message');
  } else {
    assert.equal(measured.refused, undefined);
    assert.deepEqual(
      [measured.install?.kind, measured.go?.kind],
      [expected.install, expected.go],
      JSON.stringify(measured),
    );
  }
  assert.ok(measured.ownMs < MS_MAX, `${Math.round(measured.ownMs)} ms`);
  assert.ok(measured.peakBytes < PEAK_BYTES_MAX, `${measured.peakBytes >> 20} MiB`);
}

describe('hostile modules', () => {
  before(run, { timeout: 200_000 });

  for (const entry of corpus) {
    const fate =
      'refused' in entry.expected ? 'is refused' : `ends with ${entry.expected.go ?? entry.expected.install}`;
    test(`${entry.name}: ${fate} (attacks ${entry.attacks})`, () => check(entry));
  }

  test('the process survives all of them', () => assert.equal(ending, ''));

  test('names are different', () => assert.equal(new Set(corpus.map(({ name }) => name)).size, corpus.length));
});
