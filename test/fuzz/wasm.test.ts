/** A short run of the fuzzing that `test/prove/fuzz-modules.ts` does with a million inputs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkInput, inputOf, newTally } from './wasm-properties.ts';
import { seeds } from './wasm-seeds.ts';

const SEED = 1;
const MS = 8000;
const INPUTS_MIN = 1000;

test('the modules that fuzzing begins with are taken', async () => {
  const { modules } = await seeds();
  for (const [index, bytes] of modules.entries()) {
    const tally = newTally();
    checkInput(bytes, tally, true);
    assert.equal(tally.taken, 1, `seed module ${index}: ${JSON.stringify([...tally.refused])}`);
  }
});

test(`mutated modules are refused with a reason, or taken and made into modules that V8 takes (seed ${SEED})`, async (t) => {
  const { modules, wholeCount } = await seeds();
  const tally = newTally();
  const end = performance.now() + MS;
  for (let index = 0; performance.now() < end || index < INPUTS_MIN; index++) {
    const bytes = inputOf(modules, wholeCount, SEED, index);
    try {
      checkInput(bytes, tally, index % 50 === 0);
    } catch (error) {
      throw new Error(
        `seed ${SEED}, input ${index} (${bytes.length} bytes): ${Buffer.from(bytes.subarray(0, 4000)).toString('base64')}`,
        { cause: error },
      );
    }
  }
  t.diagnostic(
    `${tally.inputs} inputs, ${tally.taken} taken, ${tally.ran} run, slowest ${Math.round(tally.slowestMs)} ms`,
  );
  assert.ok(
    tally.taken > tally.inputs / 50 && tally.taken < tally.inputs,
    `${tally.taken} of ${tally.inputs} were taken`,
  );
  assert.ok(tally.ran > 0);
});
