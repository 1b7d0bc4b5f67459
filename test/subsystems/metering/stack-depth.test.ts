/**
 * The guest's stack is bounded by a budget of weighted frames, never by V8's stack. The weights are a model of V8's frames
 * (FRAME in analyze.ts); here it is held against V8 itself: a thread whose stack is `threadStackMb` of the budget never
 * overflows it, on either tier, whatever shape the functions have.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { threadStackMb } from '../../../subsystems/metering/instrument/index.ts';
import type { StackJob, StackResult } from './stack-worker.ts';

function run(stackBytes: number, stackSizeMb: number): Promise<readonly StackResult[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./stack-worker.ts', import.meta.url), {
      workerData: { stackBytes } satisfies StackJob,
      resourceLimits: { stackSizeMb },
    });
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

describe('the stack budget', () => {
  it('stops recursion of every shape on both tiers at the same depth, before V8 does', async () => {
    const stackBytes = 4 << 20;
    const results = await run(stackBytes, threadStackMb(stackBytes));
    assert.equal(results.length, 8);
    for (const { shape, kinds, frames, isOurs } of results) {
      assert.deepEqual(kinds, ['stackOverflow', 'stackOverflow'], shape);
      assert.deepEqual(isOurs, [true, true], `${shape}: V8's stack ended first`);
      assert.equal(frames[0], frames[1], `${shape}: as deep optimised as not`);
      assert.ok((frames[0] ?? 0) > 500, `${shape}: ${frames[0]} frames`);
    }
  });

  it('is not what V8 has: with too little of that the message traps all the same', async () => {
    for (const { shape, kinds } of await run(64 << 20, 4))
      assert.deepEqual(kinds, ['stackOverflow', 'stackOverflow'], shape);
  });
});
