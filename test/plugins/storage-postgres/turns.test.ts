/** Turns of processes at free shards: worked out by each process for itself, from what all see. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turnOf } from '../../../plugins/storage-postgres/turns.ts';
import type { WaitingProcess } from '../../../subsystems/cluster/index.ts';
import { seeded } from '../../support/seeded.ts';

const waiting = (process: string, group: string): WaitingProcess => ({ process, group, holder: process });

const GROUPS: readonly (readonly [string, ...string[]])[] = [['a'], ['a', 'b'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd']];

test('free shards go to different processes, and to those whose groups have the fewest', () => {
  const random = seeded(7);
  for (let round = 0; round < 2_000; round++) {
    const groups = GROUPS[random.below(GROUPS.length)] ?? assert.fail('there is one');
    const owned = Array.from({ length: random.below(8) }, () => random.pick(groups));
    const processes = Array.from({ length: random.below(8) }, (_none, at) => waiting(`p${at}`, random.pick(groups)));
    const freeCount = random.below(6);
    const places = processes.map(({ process }) => turnOf(process, freeCount, { groups: owned, waiting: processes }));
    const taken = places.filter((place) => place !== undefined);
    const count = Math.min(freeCount, processes.length);
    assert.deepEqual(
      taken.toSorted((a, b) => a - b),
      Array.from({ length: count }, (_none, at) => at),
    );
    // Nobody who was left out belongs to a group that would have been better off by more than one.
    const after = new Map(groups.map((group) => [group, owned.filter((each) => each === group).length]));
    for (const [at, { group }] of processes.entries())
      if (places[at] !== undefined) after.set(group, (after.get(group) ?? 0) + 1);
    for (const [winner, { group }] of processes.entries())
      for (const [loser, { group: other }] of processes.entries())
        if (places[winner] !== undefined && places[loser] === undefined)
          assert.ok(
            (after.get(group) ?? 0) - 1 <= (after.get(other) ?? 0),
            JSON.stringify({ owned, processes, freeCount }),
          );
  }
});

test('the first process of a group comes before those that it has started', () => {
  const both = [waiting('a', 'z'), waiting('z', 'z')];
  assert.equal(turnOf('z', 1, { groups: [], waiting: both }), 0);
  assert.equal(turnOf('a', 1, { groups: [], waiting: both }), undefined);
  assert.equal(turnOf('nobody', 1, { groups: [], waiting: both }), undefined);
});
