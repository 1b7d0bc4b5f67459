/**
 * The scheduler over the shipped placement, wire, gate and threads, whose engines draw the effects of messages, their
 * durations and the sizes of their payloads: calls, traps, stops, upgrades, deletions, deaths and crashes in any order.
 *
 * In every case each client gets one answer, and its own; cycles are neither made nor lost; calls between two actors
 * keep their order; no payload is damaged; no actor has two messages at once; and in the end nothing is left open. A
 * failing seed is named in the message.
 *
 *     npm run prove -- schedules 300        the long form
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { CALL_KINDS } from './books.ts';
import { LeakyGate } from './observed-gate.ts';
import { EMPTIED, LOST, OVERTAKING, swapped, TWICE } from './planted-recalls.ts';
import type { Mix, Planted } from './random-mix.ts';
import { simulateScheduler } from './random-world.ts';
import { Tally } from './tally.ts';

/** Seeds of the short form; further ones are drawn until all that must happen has happened. */
const SEEDS = 5;
const OPERATIONS = 250;
/** A planted bug is found within this many seeds, and everything is drawn; mostly ten are enough. */
const SEEDS_UNTIL_FOUND = 40;
/**
 * Seeds that are tried before all others, because they have found the rarer bugs. If a changed simulation makes one of
 * them useless, the seeds are tried from 1 on; the test tells.
 */
const FOUND_BY: Readonly<Record<string, number>> = {
  'a gate that lets it in only where nothing else waits, in memory': 35,
  'a reinstallation that ends no calls, in state that is kept': 5,
  'an upgrade that waits for no calls, in state that is kept': 5,
  'calls that overtake those of a message that makes many, in state that is kept': 35,
  'a unit that is sealed while calls of a message are being sent, in state that is kept': 13,
  'messages that come back in another order, in memory': 35,
};

/** Counts that must not be 0 in any mix. */
const ALWAYS = [
  'long',
  'endless',
  'tooLong',
  'suspended',
  'suspendedTogether',
  'bursts calls',
  'bursts bytes',
  'inTurns',
  'waited',
  'waitedLarge',
  ...['argument', 'reply', 'reject', 'trap', 'call', 'debug'].flatMap((kind) => [`large ${kind}`, `atBound ${kind}`]),
  ...['argument', 'reply', 'call', 'debug'].map((kind) => `empty ${kind}`),
  ...['capture', 'checkpoint', 'addCycles'].map((kind) => `command ${kind}`),
  'captures',
  'restores',
  'checkpoints',
];
const CHANGES = [
  'command install',
  'command configure',
  'upgrades',
  'pauses',
  'takenBack',
  'reinstalls',
  'across',
  ...CALL_KINDS.flatMap((kind) => [`ended ${kind}`, `survived ${kind}`]),
];
/** Without kept state, actors are also deleted. */
const DELETIONS = ['endedByForce'];
const DEATHS = ['deaths'];
const KEPT = ['crashes', 'diedSuspended', 'wakeUps', 'replays', 'large changes', 'atBound changes'];
const CAPPED = ['evictions', 'roused'];

/** Simulates the first seeds, or those in `drawnBy`, which draw in little time whatever must happen. */
async function simulate(mix: Mix, t?: TestContext, drawnBy?: readonly number[]): Promise<void> {
  const seeds = new ProofSeeds(drawnBy ?? SEEDS);
  const tally = new Tally();
  const cases: Record<string, number>[] = [];
  const drawn: number[] = [];
  for (const seed of seeds) {
    drawn.push(seed);
    const one = await simulateScheduler(seed, mix, OPERATIONS);
    tally.add(one);
    cases.push(one.flat());
  }
  const isDeleting = mix.hasChanges === true && mix.isKept !== true && mix.isDrained !== true;
  const expected = [
    ...ALWAYS,
    ...(mix.hasChanges === true ? CHANGES : []),
    ...(isDeleting ? DELETIONS : []),
    // Rare in seeds that are drained soon.
    ...(mix.hasChanges === true && mix.isDrained !== true ? ['framesLost'] : []),
    ...(mix.hasDeaths === true ? DEATHS : []),
    ...(mix.isKept === true ? KEPT : []),
    ...(mix.liveCap === undefined ? [] : CAPPED),
  ];
  const missing = (): readonly string[] => {
    const counts = tally.flat();
    return expected.filter((name) => (counts[name] ?? 0) === 0);
  };
  // A run of a few seeds is somebody's closer look at them.
  const isLook = seeds.count < (drawnBy?.length ?? SEEDS);
  for (let seed = 1; !isLook && missing().length > 0 && seed <= SEEDS_UNTIL_FOUND; seed++) {
    if (drawn.includes(seed)) continue;
    drawn.push(seed);
    tally.add(await simulateScheduler(seed, mix, OPERATIONS));
  }
  const seen = tally.flat();
  seeds.saw(seen);
  seeds.did(cases);
  if (isLook) return;
  if (drawnBy !== undefined && drawn.length > seeds.count)
    t?.diagnostic(`the chosen seeds do not draw everything any more: ${drawn.length} seeds were needed`);
  assert.ok(
    tally.entries > (drawn.length * OPERATIONS) / 2,
    `only ${tally.entries} entries: too little to say anything`,
  );
  assert.deepEqual(missing(), [], `these have not been drawn: ${JSON.stringify(seen)}`);
}

test('calls between actors: one answer each, cycles conserved, order kept, nothing left open', async (t) => {
  await simulate({ lanes: 2 }, t, [10, 2, 3]);
});

test('with best-effort calls: deadlines end them, no cycles are made', async (t) => {
  await simulate({ lanes: 2, hasTimeouts: true }, t, [7, 2, 3]);
});

test('with stops, upgrades, uninstallations and deletions: cycles conserved, nothing left open', async () => {
  await simulate({ lanes: 2, hasChanges: true });
});

// Regression: cycles that were on their way ended last, after the recalled work, and the rest never got its turn.
test('what was taken back goes on, whatever ends last', { timeout: 60_000 }, async () => {
  for (const seed of [14, 58]) await simulateScheduler(seed, { lanes: 2, hasChanges: true }, OPERATIONS);
});

// Regression: the work came back in the order of the calls' numbers, which are reused.
test(
  'what an executor owes when it dies comes back in the order in which it was given',
  { timeout: 60_000 },
  async () => {
    const mix = { lanes: 3, isKept: true, hasDeaths: true, liveCap: 2, hasFailures: true };
    await simulateScheduler(12, mix, OPERATIONS);
  },
);

test('with dying executors: everybody is answered, nothing is left open', async () => {
  await simulate({ lanes: 3, hasChanges: true, hasTimeouts: true, hasDeaths: true });
});

test('a drain in the middle of everything answers everybody', async () => {
  await simulate({ lanes: 2, hasChanges: true, hasTimeouts: true, hasDeaths: true, isDrained: true });
});

test('with crashes of the host: calls happen once, cycles conserved, nothing left open or stored', async () => {
  await simulate({ lanes: 2, isKept: true });
});

test('with a drain and a start after it: clients are answered, and what they left goes on', async () => {
  await simulate({ lanes: 2, isKept: true, hasChanges: true, hasDeaths: true, isDrained: true });
});

test('with crashes, dying executors, a live cap and failing wakes: the same', async () => {
  await simulate({ lanes: 3, isKept: true, hasDeaths: true, liveCap: 2, hasFailures: true });
});

test('with crashes and best-effort calls under a live cap: no cycles are made', async (t) => {
  await simulate({ lanes: 2, isKept: true, hasTimeouts: true, liveCap: 1 }, t, [17, 10, 2]);
});

test('with everything at once: upgrades, stops, deaths, crashes, a live cap', async () => {
  await simulate({ lanes: 3, isKept: true, hasChanges: true, hasDeaths: true, liveCap: 3, hasFailures: true });
});

const IN_MEMORY: Mix = { lanes: 2, hasChanges: true };
const KEPT_WITH_ALL: Mix = { lanes: 2, isKept: true, hasChanges: true, hasDeaths: true };
const BOTH = [IN_MEMORY, KEPT_WITH_ALL];
const BUGS: readonly (readonly [bug: string, plant: () => Planted, mixes: readonly Mix[]])[] = [
  ['a gate that lets in what is large', () => ({ createGate: (seen) => new LeakyGate(seen) }), BOTH],
  [
    'a gate that lets it in only where nothing else waits',
    () => ({ createGate: (seen) => new LeakyGate(seen, true) }),
    BOTH,
  ],
  ['a reinstallation that ends no calls', () => ({ operators: 'reinstall-ends-nothing' }), BOTH],
  ['an upgrade that waits for no calls', () => ({ operators: 'upgrade-stops-nothing' }), BOTH],
  ['a message that is executed and taken back', () => ({ plant: TWICE }), [KEPT_WITH_ALL]],
  ['a message that is taken back and lost', () => ({ plant: LOST }), [KEPT_WITH_ALL]],
  ['a message that is taken back without its argument', () => ({ plant: EMPTIED }), [IN_MEMORY]],
  ['calls that overtake those of a message that makes many', () => ({ plant: OVERTAKING }), BOTH],
  ['a unit that is sealed while calls of a message are being sent', () => ({ sealsAmid: true }), [KEPT_WITH_ALL]],
  ['messages that come back in another order', () => ({ plant: swapped() }), [IN_MEMORY]],
];

for (const [bug, plant, mixes] of BUGS) {
  for (const mix of mixes) {
    const name = `${bug}, ${mix.isKept === true ? 'in state that is kept' : 'in memory'}`;
    test(`the simulation finds ${name}`, async (t) => {
      const all = Array.from({ length: SEEDS_UNTIL_FOUND }, (_, at) => at + 1);
      const { [name]: likely = 1 } = FOUND_BY;
      let found: unknown;
      for (const seed of new Set([likely, ...all])) {
        await simulateScheduler(seed, mix, OPERATIONS, plant()).catch((error: unknown) => (found = error));
        if (found === undefined) continue;
        if (seed !== likely) t.diagnostic(`seed ${likely} has found nothing, seed ${seed} has`);
        // Without the planted bug, the same seed must pass.
        await simulateScheduler(seed, mix, OPERATIONS);
        break;
      }
      assert.ok(found, `nothing was found in ${SEEDS_UNTIL_FOUND} seeds`);
    });
  }
}
