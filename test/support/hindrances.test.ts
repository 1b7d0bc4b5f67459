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

test('a bystander tells of slow flushes, but not of what the disk needs for all that is to be written', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-bystander-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  // A flush takes 200 ms, as the measured ones of 16 MiB do. So the disk is taken to need 50 ms for a MiB, or more.
  const disk = (grown: number, dirty: number): string[] => [
    '--import',
    url(`import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
      const { readFileSync } = fs; let written = 0;
      fs.readFileSync = (path, ...rest) => path === '/proc/7/io' ? 'write_bytes: ' + (written += ${grown}) + '\\n'
        : path === '/proc/meminfo' ? 'Dirty: ${dirty / 1024} kB\\nWriteback: 0 kB\\n' : readFileSync(path, ...rest);
      fs.fdatasyncSync = () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      syncBuiltinESMExports();`),
  ];
  const tells = async (name: string, pid: number, grown: number, dirty: number): Promise<readonly Span[]> => {
    const out = join(folder, name);
    const end = await startBystander(folder, pid, out, disk(grown, dirty));
    // Cases that must record nothing get the time of some flushes.
    const isToTell = name === 'little' || name === 'some';
    const looks = isToTell ? 2_000 : 100;
    for (let n = 0; n < looks && (await readSpans(out, 'flush')).length < 3; n++) await sleep(15);
    await end();
    return readSpans(out, 'flush');
  };
  const [little, some, much, meanwhile, unknown] = await Promise.all([
    tells('little', 7, 0, 0),
    tells('some', 7, 2 ** 18, 2 ** 18),
    tells('much', 7, 0, 2 ** 23),
    tells('meanwhile', 7, 2 ** 23, 0),
    tells('unknown', 0, 0, 0),
  ]);
  assert.ok(little.length > 2 && little.every(({ ms }) => ms >= 199), JSON.stringify(little));
  // Half a MiB: 25 ms of its flush are owed, or more if the measured flushes took longer.
  assert.ok(some.length > 2, JSON.stringify(some));
  assert.ok(Math.min(...some.map(({ ms }) => ms)) < Math.min(...little.map(({ ms }) => ms)) - 10);
  assert.deepEqual([much, meanwhile, unknown], [[], [], []]);
});

test('flushes in a thread of a process that is to record them are written down when they are slow', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-flushes-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'flushes');
  // A flush of a descriptor takes as many milliseconds as the descriptor's number, and the recorder is loaded around
  // it.
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
  assert.ok(longestMs >= 59, `the longest took ${longestMs} ms`);
});
