/**
 * Two servers with a shard each, whose actors pay each other, with the shipped schedulers and frames: accidents and
 * crashes of a seed (world.ts).
 *
 *     npm run prove -- shards 5000        the long form
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { MISTAKES } from './wire.ts';
import { simulate } from './world.ts';

function errorOf(error: unknown): Error {
  assert.ok(error instanceof Error);
  return error;
}

/** A planted mistake is found within this many seeds. */
const SEEDS_UNTIL_FOUND = 150;
/** The seed that is tried before all others for the rarest mistake. If it finds nothing, seeds are tried from 1 on. */
const FOUND_BY: Readonly<Record<string, number>> = { 'a call is accepted before it is durable': 35 };

test('calls between shards are executed and answered once, in the order of each pair, over crashes of either', async () => {
  const seeds = new ProofSeeds(60);
  const all: Record<string, number> = {};
  for (const seed of seeds) {
    const counts = await simulate(seed).catch((error: unknown) => {
      throw new Error(`seed ${seed}`, { cause: error });
    });
    for (const [what, count] of Object.entries(counts)) all[what] = (all[what] ?? 0) + count;
  }
  seeds.saw(all);
  for (const what of ['crashes', 'stops', 'late', 'doubled', 'notes', 'trapped', 'moves', 'brokenOff'])
    assert.ok((all[what] ?? 0) > 10, what);
});

for (const mistake of MISTAKES)
  test(`is found: ${mistake}`, async (t) => {
    const all = Array.from({ length: SEEDS_UNTIL_FOUND }, (_, at) => at + 1);
    for (const seed of new Set([FOUND_BY[mistake] ?? 1, ...all])) {
      const found = await simulate(seed, mistake).then(() => undefined, errorOf);
      if (found === undefined) continue;
      t.diagnostic(`seed ${seed}: ${found.message.split('\n')[0]}`);
      assert.ok(found instanceof assert.AssertionError, found);
      return;
    }
    assert.fail(`${SEEDS_UNTIL_FOUND} seeds do not find it`);
  });
