/** Stacks of long messages: as large as a message may need, and freed when it has ended. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LongStacksReport } from './long-stacks-process.ts';

test('a thousand stacks leave neither address space nor memory behind, and one of them is a million levels deep', async () => {
  const script = fileURLToPath(new URL('long-stacks-process.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script]);
  const report = JSON.parse(stdout) as LongStacksReport;
  assert.equal(report.levels, 1_000_000);
  // Each stack may grow to 257 MiB; the deep one has 72 MB.
  assert.ok(report.addressBytes < 300 * 2 ** 20, stdout);
  assert.ok(report.residentBytes < 150 * 2 ** 20, stdout);
});
