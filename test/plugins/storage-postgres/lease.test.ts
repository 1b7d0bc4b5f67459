/**
 * The shipped lease of an owner and of a standby over a clock that is moved by hand and a database that goes away at
 * random: for all of them or for one, by refusing connections, by not answering, by taking no writes; and the owner
 * dies, or stands still for a while.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Lease } from '../../../plugins/storage-postgres/lease.ts';
import { type Seen, Watch, type WatchOptions } from '../../../plugins/storage-postgres/watch.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { FakeDatabase, opening, type Outage, ProcessClock } from '../../support/lease-database.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

const STEP_MS = 25;
type Who = 'owner' | 'standby';

interface Plan {
  readonly leaseMs: number;
  readonly outages: readonly Outage<Who>[];
  /** Milliseconds that it takes to make a connection. */
  readonly connectMs: Readonly<Record<Who, number>>;
  readonly dies?: number;
  readonly pause?: readonly [fromMs: number, untilMs: number];
  readonly untilMs: number;
}

interface Played {
  /** Time at which the standby took the namespace; undefined: never. */
  readonly takenMs: number | undefined;
  readonly lostMs: number | undefined;
  /** Log lines of the standby. */
  readonly logged: readonly string[];
}

async function play(plan: Plan, makeWatch: (options: WatchOptions) => Watch): Promise<Played> {
  const clock = new FakeClock();
  const database = new FakeDatabase(clock, plan.outages);
  const clocks = { owner: new ProcessClock(clock), standby: new ProcessClock(clock) };
  const { leaseMs, connectMs, dies, pause, untilMs } = plan;
  const logged: string[] = [];
  const say = (who: Who) => (line: string) => void (who === 'standby' && logged.push(line));
  const leaseOf = (who: Who): Lease => {
    const log = { info: say(who), warn: say(who) };
    const options = { url: 'postgres://host/svc', namespace: 'svc', leaseMs, clock: clocks[who], log };
    return new Lease({
      ...options,
      watch: makeWatch({ ...options, title: 'standby: it' }),
      open: opening(database, who, clocks[who], connectMs[who]),
    });
  };
  const owner = leaseOf('owner');
  const standby = leaseOf('standby');
  const abort = new AbortController();
  const starting = { readiness: { waiting: () => undefined }, signal: abort.signal };
  let lostMs: number | undefined;
  await advance(
    owner.acquire(starting, () => (lostMs ??= database.nowMs)),
    clock,
  );
  let isTaken = false;
  void standby
    .acquire(starting, () => undefined)
    .then(
      () => (isTaken = true),
      () => undefined,
    );
  for (let isStopped = false; database.nowMs < untilMs;) {
    const { nowMs } = database;
    if (dies !== undefined && nowMs >= dies) clocks.owner.stop();
    const isPaused = pause !== undefined && pause[0] <= nowMs && nowMs < pause[1];
    if (isPaused && !isStopped) clocks.owner.stop();
    if (!isPaused && isStopped) clocks.owner.goOn();
    isStopped = isPaused;
    clock.advance(STEP_MS);
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    assert.ok(!(isTaken && owner.holds), `at ${database.nowMs} ms the owner answers what another may have changed`);
  }
  abort.abort();
  owner.abandon();
  standby.abandon();
  clock.dropTimers();
  return { takenMs: database.takenMs[1], lostMs, logged };
}

async function advance(work: Promise<void>, clock: FakeClock): Promise<void> {
  let isDone = false;
  void work.then(() => (isDone = true));
  while (!isDone) {
    clock.advance(STEP_MS);
    await nextTurn();
  }
}

const LEASES_MS = [2_000, 5_000, 20_000] as const;

/** Draws outages that both or one of them see, one after another, from the shortest to many leases long. */
function drawn(random: Seeded): Plan {
  const leaseMs = random.pick(LEASES_MS);
  const fraction = (): number => random.below(1000) / 1000;
  const outages: Outage<Who>[] = [];
  let atMs = leaseMs * (1 + fraction());
  for (let left = random.below(3) + 1; left > 0; left--) {
    const untilMs = atMs + Math.ceil(leaseMs * random.pick([0.05, 0.3, 0.8, 1.1, 1.4, 3]) * (0.8 + 0.4 * fraction()));
    const trouble = random.pick(['refused', 'silent', 'readOnly', 'stuck'] as const);
    const both = ['owner', 'standby'] as const;
    // The owner alone has an outage only if it can connect anew: otherwise it cannot be distinguished from a dead one.
    const whom = random.pick([both, both, trouble === 'stuck' ? (['owner'] as const) : both, ['standby'] as const]);
    outages.push({ fromMs: atMs, untilMs, whom, trouble });
    atMs = untilMs + leaseMs * random.pick([0.1, 0.5, 1, 2]) * fraction();
  }
  const slow = (): number => Math.ceil(leaseMs * 0.2 * fraction());
  return { leaseMs, outages, connectMs: { owner: slow(), standby: slow() }, untilMs: atMs + 3 * leaseMs };
}

const shipped = (options: WatchOptions): Watch => new Watch(options);

/** The former mistake: counts the time in which the database was away. */
class CountingOn extends Watch {
  readonly #options: WatchOptions;
  #beat = '';
  #sinceMs = 0;

  constructor(options: WatchOptions) {
    super(options);
    this.#options = options;
  }

  override beginAnew(): void {
    // Does not begin anew.
  }

  override saw(seen: Seen): 'free' | 'alive' {
    if (seen.owner === null) return 'free';
    const nowMs = this.#options.clock.nowMs();
    if (seen.beat !== this.#beat) this.#sinceMs = nowMs;
    this.#beat = seen.beat;
    return nowMs - this.#sinceMs >= seen.leaseMs ? 'free' : 'alive';
  }
}

describe('a lease', () => {
  test('of an owner that lives outlasts whatever becomes of the database', async () => {
    for (const seed of new ProofSeeds(16, 5)) {
      const plan = drawn(seeded(seed));
      const { takenMs, lostMs } = await play(plan, shipped);
      assert.deepEqual([takenMs, lostMs], [undefined, undefined], `seed ${seed}: ${JSON.stringify(plan)}`);
    }
  });

  for (const leaseMs of [2_000, 5_000])
    test(`of ${leaseMs} ms outlasts a connection that hangs while the database is there for everybody else`, async () => {
      const connectMs = { owner: leaseMs / 10, standby: 50 };
      // The outage begins at each part of the time between two beats.
      for (let part = 0; part < 8; part++) {
        const fromMs = 2 * leaseMs + (part * leaseMs) / 32;
        const outages = [3, 6].map((later) => ({
          fromMs: fromMs + later * leaseMs,
          untilMs: fromMs + later * leaseMs,
          whom: ['owner'] as const,
          trouble: 'stuck' as const,
        }));
        const played = await play({ leaseMs, outages, connectMs, untilMs: 11 * leaseMs }, shipped);
        assert.deepEqual([played.takenMs, played.lostMs], [undefined, undefined], `${part} of 8`);
      }
    });

  for (const leaseMs of [2_000, 5_000])
    test(`of ${leaseMs} ms outlasts half of it in which connections of its owner are made and carry nothing`, async () => {
      const connectMs = { owner: 50, standby: 50 };
      // The outage begins at each part of the time between two beats.
      for (let part = 0; part < 8; part++) {
        const fromMs = 2 * leaseMs + (part * leaseMs) / 32;
        const outages = [
          { fromMs, untilMs: fromMs + leaseMs / 2, whom: ['owner'] as const, trouble: 'silent' as const },
        ];
        const played = await play({ leaseMs, outages, connectMs, untilMs: 6 * leaseMs }, shipped);
        assert.deepEqual([played.takenMs, played.lostMs], [undefined, undefined], `${part} of 8`);
      }
    });

  test('has a standby that says once that the database is away or takes no writes, and once that it is back', async () => {
    const leaseMs = 2_000;
    const connectMs = { owner: 50, standby: 50 };
    for (const [trouble, away, back] of [
      ['refused', 'does not answer: terminated', 'answers again'],
      ['readOnly', 'takes no writes: cannot execute UPDATE in a read-only transaction', 'takes writes again'],
    ] as const) {
      const outage = { fromMs: 4_000, untilMs: 20_000, whom: ['owner', 'standby'] as const, trouble };
      const { logged } = await play({ leaseMs, outages: [outage], connectMs, untilMs: 24_000 }, shipped);
      const [, ...said] = logged;
      assert.deepEqual(said, [`the database host/svc ${away}`, `the database host/svc ${back}`]);
    }
  });

  test('is found to be lost by a standby that counts while the database is away', async () => {
    let lost = 0;
    for (let seed = 1; seed <= 24 && lost < 2; seed++) {
      const { takenMs } = await play(drawn(seeded(seed)), (options) => new CountingOn(options));
      if (takenMs !== undefined) lost++;
    }
    assert.ok(lost >= 2, `${lost} of 24`);
  });

  for (const leaseMs of LEASES_MS)
    test(`of ${leaseMs} ms ends by itself with its owner, within a second, and a lease behind an outage at the latest`, async () => {
      const connectMs = { owner: 50, standby: 50 };
      const dies = 2 * leaseMs + 333;
      const { takenMs = Infinity } = await play(
        { leaseMs, outages: [], connectMs, dies, untilMs: 4 * leaseMs },
        shipped,
      );
      assert.ok(takenMs - dies <= leaseMs + 1_000 && takenMs - dies >= leaseMs / 2, `after ${takenMs - dies} ms`);
      for (const trouble of ['refused', 'silent', 'readOnly'] as const) {
        const untilMs = dies + leaseMs;
        const outage = { fromMs: dies - 100, untilMs, whom: ['owner', 'standby'] as const, trouble };
        const played = await play({ leaseMs, outages: [outage], connectMs, dies, untilMs: 6 * leaseMs }, shipped);
        const behindMs = (played.takenMs ?? Infinity) - untilMs;
        // If only writes were refused, the standby could see that the owner was silent, and the owner has the rest of a
        // lease.
        const leastMs = trouble === 'readOnly' ? 0.4 * leaseMs : leaseMs;
        // A connection that does not answer is given up first.
        assert.ok(behindMs >= leastMs && behindMs <= 2 * leaseMs + 1_000, `${trouble}: after ${behindMs} ms`);
      }
    });

  test('is taken from an owner that is cut off or stands still for longer, and it knows before', async () => {
    const [leaseMs, fromMs] = [5_000, 10_000];
    const connectMs = { owner: 50, standby: 50 };
    for (const [forMs, isTaken] of [
      [2_000, false],
      [9_000, true],
    ] as const) {
      const untilMs = fromMs + forMs;
      for (const trouble of ['refused', 'silent', 'readOnly'] as const) {
        const outages = [{ fromMs, untilMs, whom: ['owner'] as const, trouble }];
        const { takenMs, lostMs } = await play({ leaseMs, outages, connectMs, untilMs: 30_000 }, shipped);
        assert.deepEqual(
          [takenMs !== undefined, lostMs !== undefined],
          [isTaken, isTaken],
          `${trouble} for ${forMs} ms`,
        );
      }
      const paused = await play(
        { leaseMs, outages: [], connectMs, pause: [fromMs, untilMs], untilMs: 30_000 },
        shipped,
      );
      assert.deepEqual([paused.takenMs !== undefined, paused.lostMs !== undefined], [isTaken, isTaken], `${forMs} ms`);
    }
  });
});
