/**
 * The guest's stack ends by a rule of the module's (guest-stack.ts), never by V8's stack: a thread whose stack is
 * `threadStackMb` of it does not overflow, on either tier, whatever shape the functions have. This test compares V8's
 * frames with that rule.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { threadStackMb } from '../../../subsystems/instrument/index.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { randomStackShape } from './random-stack-shape.ts';
import { STACK_SHAPES } from './stack-shapes.ts';
import type { StackJob, StackResult } from './stack-worker.ts';

const SEEDS = new ProofSeeds(24);

function run(job: StackJob, stackSizeMb: number): Promise<readonly StackResult[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./stack-worker.ts', import.meta.url), {
      workerData: job,
      resourceLimits: { stackSizeMb },
    });
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

function assertOurs(results: readonly StackResult[]): void {
  for (const { shape, kinds, frames, isOurs } of results) {
    assert.deepEqual(kinds, ['stackOverflow', 'stackOverflow'], shape);
    assert.deepEqual(isOurs, [true, true], `${shape}: V8's stack ended first`);
    assert.equal(frames[0], frames[1], `${shape}: as deep optimised as not`);
  }
}

describe('the stack budget', () => {
  it('stops recursion of every shape on both tiers at the same depth, before V8 does', async () => {
    const stackBytes = 4 << 20;
    const results = await run({ stackBytes, shapes: STACK_SHAPES }, threadStackMb(stackBytes));
    assert.equal(results.length, Object.keys(STACK_SHAPES).length);
    assertOurs(results);
    for (const { shape, frames } of results) assert.ok((frames[0] ?? 0) > 5000, `${shape}: ${frames[0]} frames`);
  });

  it('stops recursion of random shapes likewise', async () => {
    const stackBytes = 1 << 20;
    const shapes = Object.fromEntries(Array.from(SEEDS, (seed) => [`seed ${seed}`, randomStackShape(seed)]));
    const results = await run({ stackBytes, shapes }, threadStackMb(stackBytes));
    assert.equal(results.length, SEEDS.count);
    assertOurs(results);
    SEEDS.saw({ frames: results.reduce((sum, { frames: [first = 0] }) => sum + first, 0) });
  });

  it('is not what V8 has: with too little of that the message traps all the same', async () => {
    for (const { shape, kinds } of await run({ stackBytes: 64 << 20, shapes: STACK_SHAPES }, 4))
      assert.deepEqual(kinds, ['stackOverflow', 'stackOverflow'], shape);
  });
});
