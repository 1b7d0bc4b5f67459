import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { recordingFlushes, SlowFlushes } from './slow-flushes.ts';

test('an answer is excused for as long as a flush was under way meanwhile, and for no longer', () => {
  const slow = new SlowFlushes([
    { fromMs: 1000, ms: 300 },
    { fromMs: 1310, ms: 40 },
  ]);
  assert.equal(slow.within(900, 1400), 340);
  assert.equal(slow.within(1200, 1330), 120, 'it came while one was under way, and waited for a part of the next');
  assert.equal(slow.within(1100, 1200), 100);
  assert.equal(slow.within(1400, 1900), 0, 'who waits for something else is not excused');
  assert.equal(slow.longestMs, 300);
});

test('flushes in a thread of a process that is to record them are written down when they are slow', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-flushes-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'flushes');
  // A descriptor that never was: this one's flush takes as long as it is told to, and the recorder is loaded around it.
  const slowDisk = `import fs from 'node:fs'; import { isMainThread } from 'node:worker_threads';
    if (!isMainThread) fs.fdatasyncSync = (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);`;
  const work = `import { isMainThread, Worker } from 'node:worker_threads'; import * as fs from 'node:fs';
    if (isMainThread) new Worker(new URL(import.meta.url)); else { fs.fdatasyncSync(1); fs.fdatasyncSync(60); }`;
  const url = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`;
  const env = recordingFlushes(file);
  const NODE_OPTIONS = `--import ${url(slowDisk)} ${env['NODE_OPTIONS'] ?? ''}`;
  await promisify(execFile)(process.execPath, ['--import', url(work), '--eval', ''], {
    env: { ...process.env, ...env, NODE_OPTIONS },
  });
  const slow = await SlowFlushes.read(file);
  assert.ok(slow.longestMs >= 60, `${slow.count} flushes, the longest ${slow.longestMs} ms`);
});
