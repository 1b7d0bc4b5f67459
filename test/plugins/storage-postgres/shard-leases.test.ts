/**
 * The shipped leases of processes that want the shards of one namespace, over a clock that is moved by hand and a
 * database that goes away at random; processes die, and others wait for what they leave.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Lease } from '../../../plugins/storage-postgres/lease.ts';
import { shardsOf } from '../../../plugins/storage-postgres/shards.ts';
import { Watch } from '../../../plugins/storage-postgres/watch.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { FakeDatabase, opening, type Outage, ProcessClock } from '../../support/lease-database.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

const STEP_MS = 25;
const LEASE_MS = 2_000;

interface Plan {
  readonly shards: number;
  /** Processes, each with the time at which it starts, and dies if it does. */
  readonly processes: readonly {
    readonly startsMs: number;
    readonly diesMs?: number;
    readonly connectMs: number;
    /** Number of its node's first process; default: its own. */
    readonly group?: number;
  }[];
  readonly outages: readonly Outage[];
  readonly untilMs: number;
}

interface Process {
  readonly lease: Lease;
  readonly clock: ProcessClock;
  state: 'waits' | 'owns' | 'lost' | 'dead';
}

/** Plays a plan, and returns its processes. `sharedWatch`: a mistake, one watch for all shards. */
async function play({ shards, processes, outages, untilMs }: Plan, sharedWatch = false): Promise<readonly Process[]> {
  const clock = new FakeClock();
  const namespaces = shardsOf('svc', shards).map(({ namespace }) => namespace);
  const database = new FakeDatabase(clock, outages, namespaces);
  const abort = new AbortController();
  const starting = { readiness: { waiting: () => undefined }, signal: abort.signal };
  const played = processes.map(({ connectMs }, index): Process => {
    const own = new ProcessClock(clock);
    const log = { info: () => undefined, warn: () => undefined };
    const options = { url: 'postgres://host/svc', namespace: 'svc', shards, leaseMs: LEASE_MS, clock: own, log };
    const watch = sharedWatch ? { watch: new Watch({ ...options, title: 'any of them' }) } : {};
    const open = opening(database, `process ${index}`, own, connectMs);
    return { lease: new Lease({ ...options, ...watch, open }), clock: own, state: 'waits' };
  });
  for (const [index, { group = index }] of processes.entries())
    played[index]?.lease.processes?.join(played[group]?.lease.owner ?? assert.fail('a group has a first process'));
  const start = (process: Process): void => {
    const lost = (): void => void (process.state = 'lost');
    process.lease.acquire(starting, lost).then(
      () => void (process.state = process.state === 'waits' ? 'owns' : process.state),
      () => undefined,
    );
  };
  while (database.nowMs < untilMs) {
    const beforeMs = database.nowMs;
    clock.advance(STEP_MS);
    for (const [index, { startsMs, diesMs = Infinity }] of processes.entries()) {
      const process = played[index] ?? assert.fail('each has one');
      if (beforeMs <= startsMs && startsMs < database.nowMs) start(process);
      if (beforeMs <= diesMs && diesMs < database.nowMs) {
        process.clock.stop();
        process.state = 'dead';
      }
    }
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    const held = played.filter(({ lease }) => lease.holds).map(({ lease }) => lease.shard.index);
    assert.equal(new Set(held).size, held.length, `at ${database.nowMs} ms two answer for a shard: ${held.join()}`);
  }
  abort.abort();
  for (const { lease } of played) lease.abandon();
  clock.dropTimers();
  return played;
}

const shardsOwned = (processes: readonly Process[]): readonly number[] =>
  processes
    .filter(({ state }) => state === 'owns')
    .map(({ lease }) => lease.shard.index)
    .toSorted((a, b) => a - b);

const all = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** Draws processes, one or two more than shards, of which as many may die, and outages of all of them. */
function drawn(random: Seeded): Plan {
  const shards = 2 + random.below(3);
  const spare = 1 + random.below(2);
  const outages: Outage[] = [];
  const names = all(shards + spare).map((index) => `process ${index}`);
  let atMs = 2 * LEASE_MS;
  for (let left = random.below(3); left > 0; left--) {
    const untilMs = atMs + Math.ceil(LEASE_MS * random.pick([0.05, 0.3, 0.8, 1.4, 3]));
    const trouble = random.pick(['refused', 'silent', 'readOnly', 'stuck'] as const);
    // One alone has an outage only if it can connect anew: otherwise it cannot be distinguished from a dead one.
    const whom = trouble === 'stuck' ? [names[random.below(names.length)] ?? ''] : names;
    outages.push({ fromMs: atMs, untilMs, whom, trouble });
    atMs = untilMs + LEASE_MS * random.pick([0.1, 1, 2]);
  }
  const dying = new Set(all(spare).map(() => random.below(names.length)));
  const processes = names.map((_name, index) => ({
    startsMs: random.below(500),
    connectMs: 10 + random.below(LEASE_MS / 5),
    ...(dying.has(index) && { diesMs: LEASE_MS + random.below(Math.ceil(atMs)) }),
  }));
  return { shards, processes, outages, untilMs: atMs + 6 * LEASE_MS };
}

describe('leases of shards', () => {
  test('are had by one process each, and none that lives loses its own, whatever becomes of the others', async () => {
    for (const seed of new ProofSeeds(12, 5)) {
      const plan = drawn(seeded(seed));
      const played = await play(plan);
      const said = `seed ${seed}: ${JSON.stringify(plan)}`;
      assert.deepEqual(shardsOwned(played), all(plan.shards), said);
      assert.ok(!played.some(({ state }) => state === 'lost'), said);
    }
  });

  test('are taken at once by processes that start together, and by the next ones when these die', async () => {
    for (const shards of [2, 5]) {
      const processes = all(2 * shards).map((index) => ({
        startsMs: index < shards ? 0 : LEASE_MS / 2,
        connectMs: 50,
        ...(index < shards && { diesMs: 2 * LEASE_MS }),
      }));
      const early = await play({ shards, processes, outages: [], untilMs: 1.5 * LEASE_MS });
      assert.deepEqual(shardsOwned(early.slice(0, shards)), all(shards));
      assert.ok(early.slice(shards).every(({ state }) => state === 'waits'));
      const late = await play({ shards, processes, outages: [], untilMs: 3 * LEASE_MS + 1_000 });
      assert.deepEqual(shardsOwned(late.slice(shards)), all(shards), 'within the lease and a second');
    }
  });

  test('of a node that is lost go to the others side by side, to each its part', async () => {
    const [starts, dies] = [LEASE_MS, 4 * LEASE_MS];
    const connectMs = 40;
    // Nodes 0, 1 and 2 own two shards each; then 0 is lost, and each of the others has two processes that wait.
    const owners = all(6).map((index) => ({ startsMs: 200 * index, connectMs, group: index % 3 }));
    const spares = [1, 1, 2, 2].map((group) => ({ startsMs: starts, connectMs, group }));
    const processes = [...owners, ...spares].map((each) => (each.group === 0 ? { ...each, diesMs: dies } : each));
    const played = await play({ shards: 6, processes, outages: [], untilMs: dies + LEASE_MS + 800 });
    assert.deepEqual(shardsOwned(played), all(6), 'within the lease and less than a second');
    const owning = spares.map((_none, at) => played[6 + at]?.state === 'owns');
    assert.deepEqual(
      [owning.slice(0, 2), owning.slice(2)].map((its) => its.filter(Boolean).length),
      [1, 1],
    );
  });

  test('stay where they were for ever if one watch is kept for all shards', async () => {
    let found = 0;
    for (let seed = 1; seed <= 8; seed++) {
      const plan = drawn(seeded(seed));
      const played = await play(plan, true);
      if (shardsOwned(played).length < plan.shards) found++;
    }
    assert.ok(found >= 2, `${found} of 8`);
  });
});
