import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Hindrances, readSpans, recordingFlushes, type Span, startBystander } from './hindrances.ts';

const span = (fromMs: number, ms: number): Span => ({ fromMs, ms });
const url = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`;
const NONE = { flushes: [], bystanderFlushes: [], stolen: [], late: [] };

test('a flush excuses an answer for as long as a bystander waited for the disk as well, and for no longer', () => {
  const flushes = [span(1000, 300), span(1310, 40), span(2000, 500)];
  const bystanderFlushes = [span(1100, 220), span(3000, 400)];
  const hindrances = new Hindrances({ ...NONE, flushes, bystanderFlushes });
  assert.equal(hindrances.within(900, 1400), 210);
  assert.equal(
    hindrances.within(1200, 1315),
    105,
    'it came while one was under way, and waited for a part of the next',
  );
  assert.equal(hindrances.within(1000, 1100), 0, 'only the server waited: that is its own');
  assert.equal(hindrances.within(1900, 2600), 0);
  assert.equal(hindrances.within(3000, 3400), 0, 'only the bystander waited');
});

test('what holds an answer up at the same time counts once', () => {
  const late = [span(100, 50), span(300, 20)];
  const stolen = [span(120, 60), span(300, 10)];
  const flushes = [span(90, 40)];
  const hindrances = new Hindrances({ flushes, bystanderFlushes: [span(80, 30)], stolen, late });
  assert.equal(hindrances.within(0, 1000), 110);
  assert.equal(hindrances.within(140, 150), 10);
  assert.equal(hindrances.totalMs, 110);
});

test('a bystander tells of slow flushes, but not while the server writes much, or nobody knows how much', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-bystander-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  // What the server of this test has written grows by so much with each look.
  const disk = (bytes: number): string[] => [
    '--import',
    url(`import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
      const { readFileSync } = fs; let written = 0;
      fs.readFileSync = (path, ...rest) => path === '/proc/7/io' ? 'write_bytes: ' + (written += ${bytes}) + '\\n' : readFileSync(path, ...rest);
      fs.fdatasyncSync = () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30);
      syncBuiltinESMExports();`),
  ];
  const tells = async (pid: number, bytes: number): Promise<readonly Span[]> => {
    const out = join(folder, `out-${pid}-${bytes}`);
    const end = startBystander(folder, pid, out, disk(bytes));
    for (let n = 0; n < 100 && !(pid === 7 && bytes < 2 ** 20 && (await readSpans(out, 'flush')).length > 2); n++)
      await sleep(15);
    await end();
    return readSpans(out, 'flush');
  };
  const [little, much, unknown] = await Promise.all([tells(7, 1000), tells(7, 5 * 2 ** 20), tells(0, 0)]);
  assert.ok(little.length > 0 && little.every(({ ms }) => ms >= 20), JSON.stringify(little));
  assert.deepEqual([much, unknown], [[], []]);
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
  const env = recordingFlushes(file);
  const NODE_OPTIONS = `--import ${url(slowDisk)} ${env['NODE_OPTIONS'] ?? ''}`;
  await promisify(execFile)(process.execPath, ['--import', url(work), '--eval', ''], {
    env: { ...process.env, ...env, NODE_OPTIONS },
  });
  const longestMs = Math.max(...(await readSpans(file, 'flush')).map(({ ms }) => ms));
  assert.ok(longestMs >= 60, `the longest took ${longestMs} ms`);
});
