/** Samples of a message: where they are taken, what they stand for, and what happens when a stack is not noted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { profileOf } from '../../../subsystems/replay/message-profile.ts';
import { fakeAmbient } from '../../support/kernel.ts';

/** Begins with `outer` alone; `inner` is open in the second half, `deepest` in the last tenth. */
function stackAt(instruction: number, instructions: number): readonly string[] {
  if (instruction >= 0.9 * instructions) return ['outer', 'inner', 'deepest'];
  return instruction >= 0.5 * instructions ? ['outer', 'inner'] : ['outer'];
}

test('samples are in the order of execution, and together they are the message', async () => {
  for (const instructions of [1, 2, 3, 99, 500, 501, 10_007, 123_456_789, 4e10]) {
    const asked: number[] = [];
    const { samples, ...told } = await profileOf(
      instructions,
      async (at) => {
        asked.push(at);
        return stackAt(at, instructions);
      },
      fakeAmbient().clock,
    );
    assert.equal(told.instructions, instructions);
    assert.equal(new Set(asked).size, asked.length, 'no instruction is asked twice');
    assert.ok(
      asked.every((at) => Number.isInteger(at) && at >= 1 && at <= Math.max(1, instructions - 1)),
      `${instructions}`,
    );
    const executed = asked.reduce((sum, at) => sum + at, 0);
    assert.ok(asked.length === 1 || executed <= 8e10, `${executed} instructions for ${instructions}`);
    assert.equal(
      samples.reduce((sum, sample) => sum + sample.instructions, 0),
      instructions,
    );
    const order = samples.map(({ stack }) => stack.length);
    assert.deepEqual(
      order,
      order.toSorted((one, other) => one - other),
    );
    if (instructions < 1000 || instructions > 1e9) continue;
    assert.equal(samples.length, 500);
    const deepest = samples.filter(({ stack }) => stack.length === 3);
    assert.deepEqual(deepest[0]?.stack, ['outer', 'inner', 'deepest'], 'outermost first');
    const share = deepest.reduce((sum, sample) => sum + sample.instructions, 0) / instructions;
    assert.ok(Math.abs(share - 0.1) < 0.003, `${share}`);
  }
});

test('a message that takes long has fewer samples, which are spread over all of it', async () => {
  const clock = fakeAmbient().clock;
  const { samples } = await profileOf(
    100_000,
    async (at) => {
      clock.advance(1000);
      return stackAt(at, 100_000);
    },
    clock,
  );
  assert.equal(samples.length, 30);
  const deepest = samples.filter(({ stack }) => stack.length === 3);
  const share = deepest.reduce((sum, sample) => sum + sample.instructions, 0) / 100_000;
  assert.ok(Math.abs(share - 0.1) < 0.05, `${share}`);
});

test('a stack that was not noted is asked again, and one without functions is told', async () => {
  const clock = fakeAmbient().clock;
  let asked = 0;
  const profiling = profileOf(
    4,
    async (at) => {
      asked++;
      // One of three stacks is noted.
      if (asked % 3 !== 0) return undefined;
      return at === 1 ? [] : ['outer'];
    },
    clock,
  );
  let isDone = false;
  const done = profiling.finally(() => (isDone = true));
  while (!isDone) {
    clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { samples } = await done;
  assert.equal(asked, 9);
  assert.deepEqual(
    samples.map(({ stack }) => [stack.length, stack[0]]),
    [
      [0, undefined],
      [1, 'outer'],
      [1, 'outer'],
    ],
  );
});

test('without any stack there is a profile without samples', async () => {
  const clock = fakeAmbient().clock;
  const profiling = profileOf(2, async () => undefined, clock);
  let isDone = false;
  const done = profiling.finally(() => (isDone = true));
  while (!isDone) {
    clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(await done, { instructions: 2, samples: [] });
});
