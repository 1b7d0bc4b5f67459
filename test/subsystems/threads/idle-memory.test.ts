/** Threads without further work, with V8's own heaps. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createRing, RingProducer } from '../../../subsystems/threads/index.ts';
import type { IdleThreadData, IdleThreadHeap } from '../../support/idle-thread.ts';

/** Longest wait of a thread before it gives memory back, and the time for that on a busy machine. */
const IDLE_MS = 11_000;
const FEW = 1000;
/** Number of objects of 130 bytes each that exceeds the threshold of a collection. */
const MANY = 1_400_000;

async function idle(
  kept: number,
  idleMs: number,
  records = 0,
): Promise<{ before: IdleThreadHeap; after: IdleThreadHeap }> {
  const ring = createRing(64 * 1024);
  const workerData: IdleThreadData = { ring, kept, records };
  const worker = new Worker(new URL('../../support/idle-thread.ts', import.meta.url), { workerData });
  const answered = once(worker, 'message');
  const producer = new RingProducer(ring);
  for (let record = 0; record < records; record++) producer.reserve(1, 8);
  producer.publish();
  await sleep(idleMs);
  producer.reserve(1, 8);
  producer.publish();
  const [answer] = (await answered) as [{ before: IdleThreadHeap; after: IdleThreadHeap; stays: number }];
  assert.equal(answer.stays, kept);
  await worker.terminate();
  return answer;
}

const young = ({ young: bytes }: IdleThreadHeap): string => (bytes > 2 ** 21 ? 'large' : 'small');

test('a thread that little has come to gives its memory back, unless it has much, or something comes', async () => {
  const [blocking, large, waked, worked] = await Promise.all([
    idle(FEW, IDLE_MS, 100),
    idle(MANY, IDLE_MS),
    idle(FEW, 2_500),
    idle(FEW, IDLE_MS, 300),
  ]);
  assert.deepEqual([young(worked.before), young(worked.after)], ['large', 'large'], 'it has had work');
  assert.deepEqual([young(blocking.before), young(blocking.after)], ['large', 'small'], 'nothing comes');
  assert.deepEqual([young(large.before), young(large.after)], ['large', 'large'], 'it has a large heap');
  assert.deepEqual([young(waked.before), young(waked.after)], ['large', 'large'], 'something comes');
  assert.ok(blocking.after.old < 8 * 2 ** 20, 'pages of garbage go, too');
});

test('threads that collect garbage for the first time at the same moment all do', async () => {
  for (let round = 0; round < 10; round++) {
    const start = new SharedArrayBuffer(4);
    const script = new URL('../../support/collecting-thread.ts', import.meta.url);
    const workers = Array.from({ length: 4 }, () => new Worker(script, { workerData: start }));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    const collected = workers.map((worker) => once(worker, 'message'));
    Atomics.store(new Int32Array(start), 0, 1);
    Atomics.notify(new Int32Array(start), 0);
    // A thread that fails rejects this.
    await Promise.all(collected);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
});

test('a thread goes on where V8 has another name for its collection', () => {
  const index = new URL('../../../subsystems/threads/index.ts', import.meta.url).href;
  const program = `import { collectGarbage } from ${JSON.stringify(index)};
    for (const which of ['full', 'young', 'all-there-is']) collectGarbage(which);`;
  const args = ['--expose-gc-as=collect', '--input-type=module', '--eval', program];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 });
  assert.deepEqual([status, stderr], [0, '']);
});
