/**
 * More actors than may be live: each waiting actor gets its turn within a round of all of them, whatever their sizes.
 * Heartbeats and timers get theirs, too, without taking the time of waiting actors.
 *
 *     npm run prove -- schedules 300        the long form
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { TickGate } from '../../subsystems/scheduler/tick-gate.ts';
import { Falling } from '../../subsystems/scheduler/falling.ts';
import { LivePlaces } from '../../subsystems/scheduler/live-places.ts';
import { type Lane, LANES, WakingLine } from '../../subsystems/scheduler/waking-line.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { type Crowd, simulateCrowd } from './crowded-host.ts';

const SEEDS = 12;
/** A planted bug is found within this many seeds, beginning with one near the finding one. */
const SEEDS_UNTIL_FOUND = 40;

test('whoever waits gets its turn in a round, and heartbeats and timers take a bounded share', async () => {
  const seeds = new ProofSeeds(SEEDS);
  const seen: Crowd[] = [];
  for (const seed of seeds) seen.push(await simulateCrowd(seed));
  const sum = (of: (crowd: Crowd) => number): number => seen.reduce((total, crowd) => total + of(crowd), 0);
  const counts = {
    answers: sum(({ answers }) => answers),
    loads: sum(({ loads }) => loads),
    tickLoads: sum(({ tickLoads }) => tickLoads),
    slept: sum(({ slept }) => slept),
    oversized: sum(({ oversized }) => oversized),
    withCap: sum(({ isCapped }) => (isCapped ? 1 : 0)),
    withoutCap: sum(({ isCapped }) => (isCapped ? 0 : 1)),
  };
  seeds.saw(counts);
  seeds.did(seen);
  if (seeds.count < SEEDS) return;
  const missing = Object.entries(counts).filter(([, count]) => count === 0);
  assert.deepEqual(missing, [], `these have not been drawn: ${JSON.stringify(counts)}`);
});

test('a place that was given up for one who lacks more is none that heartbeats take freely', async () => {
  // Timers of one of 556 units took 7.9 of 10 s: they took the place that was made for a small one, which lacked bytes.
  await simulateCrowd(385);
});

const PLANTED: Readonly<Record<string, readonly [from: number, plant: () => unknown]>> = {
  'a line in which large ones let all others pass': [
    1,
    () => {
      // Takes the lanes in their order, the oversized one last, whichever actor came first.
      mock.method(WakingLine.prototype, 'first', function (this: WakingLine, closed: ReadonlySet<Lane>) {
        const open = LANES.filter((lane) => !closed.has(lane));
        return open.map((lane) => this.headOf(lane)).find((head) => head !== undefined);
      });
    },
  ],
  'one larger than the bound that counts among the bytes': [
    1,
    () => mock.method(LivePlaces.prototype, 'isOversized', () => false),
  ],
  'an actor that keeps a place while its executor drops it': [
    600,
    () => mock.method(Falling.prototype, 'has', () => false),
  ],
  'a gate that never closes': [
    126,
    () => {
      mock.method(TickGate.prototype, 'close', () => undefined);
      mock.method(TickGate.prototype, 'ended', () => undefined);
    },
  ],
  'a gate that does not open again': [130, () => mock.method(TickGate.prototype, 'ended', () => undefined)],
};

for (const [bug, [from, plant]] of Object.entries(PLANTED)) {
  test(`the simulation finds ${bug}`, async () => {
    let found: unknown;
    let seed = from;
    plant();
    try {
      for (; found === undefined && seed < from + SEEDS_UNTIL_FOUND; seed++)
        await simulateCrowd(seed).catch((error: unknown) => (found = error));
    } finally {
      mock.restoreAll();
    }
    assert.ok(found, `nothing was found in ${SEEDS_UNTIL_FOUND} seeds`);
    // Without the planted bug, the same seed must pass.
    await simulateCrowd(seed - 1);
  });
}
