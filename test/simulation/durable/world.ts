/**
 * One seed: a host, its clients, its operators and its disk, over several lives that end with a crash or a stop.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { at, ServerError } from '../../../kernel/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import type { WriteOut } from '../../../subsystems/storage/tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { Crash as DiskCrash, FaultyDisk } from '../../support/faulty-disk.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { Crash as TablesCrash, type FaultyTables, LastingTables } from '../../support/faulty-tables.ts';
import { SeededRandom } from '../../support/kernel.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { checkLooks, checkMemories, checkMessages, checkModules, checkPayloads, checkTimers } from './checks.ts';
import { Clients } from './clients.ts';
import { ledgerModule } from './ledger-module.ts';
import { describe, type Described, type Ledger, readLedger } from './ledger-state.ts';
import { Life, POLICY } from './life.ts';
import { Operators } from './operators.ts';
import { Outside } from './outside.ts';
import { PayloadSizes, type SizeCounts } from './payload-sizes.ts';
import { type Bug, NEVER_LOGGED_BYTES, type Plan, planOf } from './plan.ts';
import type { PlantedThreads, ThreadCounts } from './simulated-threads.ts';

const START_MS = 1_800_000_000_000;
/** Maximum by which a clock falls behind between two lives: 100 hours. */
const CLOCK_BACK_MS = 360_000_000;
/** Bytes of the log that are read at once. */
const WINDOWS = [8, 4096, 2 ** 20] as const;
/** Modules that some actors have, have had, or will have. */
const LEFT_MODULES = [0, 1, 2].map((version) => ledgerModule({ version }));
/** Rests at the end, each a little later than the one before, until every client has an answer. */
const RESTS_MIN = 12;
const RESTS_MAX = 300;

/** Counts of what happened in a seed, to show that the seeds were not all alike. */
export interface Tally extends ThreadCounts {
  lives: number;
  crashes: number;
  stops: number;
  messages: number;
  acknowledged: number;
  /** Messages of logs that were run again. */
  replayed: number;
  wakeUps: number;
  steps: number;
  /** Keys that are too old at the end for clients to rely on them. */
  expired: number;
  /** Messages that were refused because the host had its maximum of keys. */
  full: number;
  /** Messages that were sent again with their keys. */
  repeats: number;
  /** Lines printed by actors and read. */
  lines: number;
  /** Number of payloads by size. */
  sizes: SizeCounts;
  /** Outcalls that were under way when a host ended. */
  outcallsLost: number;
  /** Callers of outcalls that were told to try again. */
  outcallsTransient: number;
}

const THREAD_COUNTS = [
  'tooLong',
  'suspensions',
  'waited',
  'waitedLarge',
  'roused',
  'pieces',
] as const satisfies (keyof ThreadCounts)[];

class World {
  readonly #seeded: Seeded;
  readonly #plan: Plan;
  readonly #planted: PlantedThreads;
  readonly #clients: Clients;
  readonly #operators: Operators;
  readonly #sizes: PayloadSizes;
  readonly #outside: Outside | undefined;
  readonly #clock = new FakeClock(START_MS);
  /** Actors that live from beginning to end, and those that do not. */
  readonly #actors: readonly string[];
  readonly #mayflies: readonly string[];
  #disk = new FaultyDisk();
  #tables = new MemoryTables();
  #faulty: FaultyTables | undefined;
  /** Number of writes to the tables until the machine stops. */
  #tablesCrashIn = Infinity;
  /** True if a sync may fail: then only data on disk can be relied on. */
  #isDiskFailing = false;
  #life: Life | undefined;
  readonly tally: Tally = {
    lives: 0,
    crashes: 0,
    stops: 0,
    messages: 0,
    acknowledged: 0,
    replayed: 0,
    wakeUps: 0,
    steps: 0,
    tooLong: 0,
    suspensions: 0,
    waited: 0,
    waitedLarge: 0,
    roused: 0,
    pieces: 0,
    repeats: 0,
    expired: 0,
    full: 0,
    lines: 0,
    sizes: {},
    outcallsLost: 0,
    outcallsTransient: 0,
  };

  constructor(seed: number, bug: Bug | undefined, planted: PlantedThreads, asksOutside: boolean) {
    this.#planted = planted;
    this.#seeded = seeded(seed);
    // Makes consecutive seeds have nothing in common.
    for (let n = 0; n < 8; n++) this.#seeded.below(2);
    const keyed = seeded(seed * 7919 + 3);
    this.#plan = planOf(
      this.#seeded,
      bug,
      { keyed: seeded(seed * 6133 + 11), alike: seeded(seed * 4099 + 5), pieces: seeded(seed * 104_729 + 13) },
      asksOutside,
    );
    this.#outside = asksOutside ? new Outside() : undefined;
    this.#actors = Array.from({ length: this.#plan.actors }, (_, index) => `bank${index}`);
    this.#mayflies = this.#plan.hasMayflies ? ['mayfly0', 'mayfly1'] : [];
    this.#sizes = new PayloadSizes(seed, this.#seeded, this.#plan);
    this.#clients = new Clients(
      this.#seeded,
      this.#plan,
      this.#sizes,
      this.#actors,
      keyed,
      asksOutside ? seeded(seed * 5099 + 7) : undefined,
    );
    this.#operators = new Operators(this.#seeded, this.#plan, this.#everybody);
  }

  get #everybody(): readonly string[] {
    return [...this.#actors, ...this.#mayflies];
  }

  async run(): Promise<void> {
    try {
      for (let life = 0; life < this.#plan.lives; life++) await this.#live(life);
      await this.#end();
    } finally {
      this.#life?.end();
      this.tally.messages = this.#clients.sent.length;
      this.tally.lines = this.#clients.printed;
      this.tally.repeats = this.#clients.keys.repeats.length;
      this.tally.expired = this.#clients.keys.expired;
      this.tally.full = this.#clients.keys.full;
      this.tally.sizes = this.#sizes.counts;
      this.tally.acknowledged = this.#clients.sent.filter(({ outcome }) => outcome !== undefined).length;
    }
  }

  // ---- lives

  /** Runs a life that ends with a crash or a stop and leaves its state on disk and in the tables. */
  async #live(number: number): Promise<void> {
    const random = this.#seeded;
    const armsEarly = number === 0 || this.#plan.crashesInRecovery;
    try {
      const life = await this.#start(armsEarly);
      if (!armsEarly) this.#arm();
      await this.#installActors(life);
      for (let n = 0; n < this.#plan.operations; n++) {
        this.#act(life);
        for (let turns = random.below(6); turns > 0; turns--) await life.turn();
        if (random.oneIn(5)) await life.pass(random.below(60));
      }
      this.#clients.readLines(life, this.#everybody);
      if (random.oneIn(3)) await this.#stop(life);
      else this.#crash();
    } catch (error) {
      if (!endsProcess(error)) throw error;
      this.#crash();
    }
  }

  #act(life: Life): void {
    const random = this.#seeded;
    const { hasChanges, hasDeaths, lanes } = this.#plan;
    if (this.#mayflies.length > 0 && random.oneIn(4)) this.#operators.act(life, this.#mayflies, true);
    else if (hasChanges && random.oneIn(6)) this.#operators.act(life, this.#actors, false);
    else if (hasDeaths && random.oneIn(30)) life.execution.kill(random.below(lanes));
    else this.#clients.send(life, this.#everybody, this.#everybody);
    if (random.oneIn(20)) this.#clients.readLines(life, this.#everybody);
  }

  #arm(): void {
    const random = this.#seeded;
    const within = random.pick([10, 100, 400]);
    const fault = this.#plan.hasDiskFaults ? random.pick(['crash', 'sync', 'full']) : 'crash';
    if (fault === 'sync') this.#disk.arm({ failSyncAt: 1 + random.below(within) });
    else if (fault === 'full') this.#disk.arm({ freeBytes: random.below(within * 1000) });
    else this.#disk.arm(random.oneIn(4) ? {} : { crashAt: 1 + random.below(within) });
    this.#isDiskFailing = fault === 'sync';
    this.#tablesCrashIn = random.oneIn(2) ? 1 + random.below(20) : Infinity;
  }

  #disarm(): void {
    this.#disk.arm({});
    this.#isDiskFailing = false;
    this.#tablesCrashIn = Infinity;
  }

  async #start(isArmed: boolean): Promise<Life> {
    const seed = this.#seeded.below(2 ** 31);
    this.#disarm();
    this.#leaveModules();
    const twin = this.tally.lives > 0 && this.#seeded.oneIn(4) ? await this.#recoverTwin(seed) : undefined;
    if (isArmed) this.#arm();
    this.tally.lives++;
    this.#faulty = new LastingTables(this.#tables, this.#seeded, () =>
      --this.#tablesCrashIn === 0 ? 'crash' : undefined,
    );
    const life = await this.#begin(seed, this.#faulty, this.#disk, this.#outside);
    if (twin !== undefined) {
      const { states } = await this.#states(life, this.#there(life));
      // A life whose disk has failed meanwhile executes nothing more: it is about to end.
      if (!this.#disk.hasFailed) assert.deepEqual(states, twin, 'the same disk, recovered twice, gives the same state');
    }
    this.#operators.check(life);
    return life;
  }

  /** Returns the state that another machine recovers from the same disk. */
  async #recoverTwin(seed: number): Promise<ReadonlyMap<string, Described>> {
    const nowMs = this.#clock.nowMs();
    const tables = new LastingTables(MemoryTables.copyOf(this.#tables), this.#seeded);
    // Outcalls of the twin do not count, either.
    const outside = this.#outside && new Outside();
    const life = await this.#begin(seed, tables, this.#disk.killed(), outside);
    const { states } = await this.#states(life, this.#there(life));
    life.end();
    this.#life = undefined;
    this.#clock.set(nowMs);
    return states;
  }

  /** Stores modules as earlier versions left them, with some that actors may have next. */
  #leaveModules(): void {
    if (!this.#plan.hasLeftModules) return;
    const family = 'module';
    this.#tables.write(
      LEFT_MODULES.map((value) => ({ family, key: createHash('sha256').update(value).digest(), value })),
      { isSynced: true },
    );
  }

  async #begin(seed: number, tables: FaultyTables, disk: FaultyDisk, outside: Outside | undefined): Promise<Life> {
    // Events that the life before had scheduled end now: they must not meet the timers of this life.
    await nextTurn();
    const { segmentBytes, foldBytes, isSynced } = this.#plan;
    const random = new SeededRandom(seed);
    // Window and writing out do not change the recovered state; they are not drawn, since a draw would change all later
    // ones.
    const windowBytes = at(WINDOWS, seed % WINDOWS.length, 'window');
    const openLog = (known: KnownLog): StepLog => StepLog.open(disk, { ...known, segmentBytes, windowBytes, random });
    const writeOut = writeOutOf(seed);
    const store = new StateStore(tables, openLog, { foldBytes, isSynced, writeOut, clock: this.#clock });
    const parts = { plan: this.#plan, seeded: seeded(seed), clock: this.#clock, random, store, outside };
    const life = new Life({ ...parts, planted: this.#planted });
    this.#life = life;
    await life.start();
    checkModules(life, { mayHaveMore: this.#plan.hasLeftModules });
    return life;
  }

  /** Returns the names of the existing actors that have code. */
  #there(life: Life): readonly string[] {
    return this.#everybody.filter((name) => life.named(name)?.module !== undefined);
  }

  async #installActors(life: Life): Promise<void> {
    for (const name of this.#actors) {
      if (life.named(name) === undefined) await life.until(this.#operators.install(life, name));
    }
  }

  async #stop(life: Life): Promise<void> {
    await life.stop();
    this.#leave(life);
    this.tally.stops++;
    this.#disk = this.#disk.killed();
  }

  /** Stops the machine now, if it has not stopped yet. */
  #crash(): void {
    // The clock of a starting machine may be behind.
    if (this.#seeded.oneIn(6)) {
      this.#clock.set(this.#clock.nowMs() - this.#seeded.below(CLOCK_BACK_MS));
      this.#clients.keys.clockSetBack(this.#clock.nowMs());
    }
    const life = this.#life;
    life?.end();
    if (life !== undefined) this.#leave(life);
    this.tally.crashes++;
    // Without synced commits, only the process may end that way.
    if (this.#plan.isSynced && (this.#isDiskFailing || this.#seeded.oneIn(2))) {
      this.#faulty?.crash();
      if (this.#faulty !== undefined) this.#tables = this.#faulty.survivors();
      this.#disk = this.#disk.survivor(this.#seeded);
    } else {
      this.#tables = MemoryTables.copyOf(this.#tables);
      this.#disk = this.#disk.killed();
    }
  }

  #leave(life: Life): void {
    this.#clients.lose();
    this.#operators.lose();
    this.tally.replayed += life.replayed;
    const { steps, counts } = life.execution;
    this.tally.steps += steps;
    for (const name of THREAD_COUNTS) this.tally[name] += counts[name];
    this.tally.wakeUps += life.scheduler.live.wakeUps;
    this.#life = undefined;
  }

  // ---- the end

  async #end(): Promise<void> {
    const life = await this.#start(false);
    await this.#installActors(life);
    await this.#startAll(life);
    for (let n = 0; n < RESTS_MAX && (n < RESTS_MIN || this.#clients.waiting > 0); n++) {
      await life.settle();
      await life.pass(50);
    }
    await life.settle();
    this.#clients.keys.repeatAll(life);
    for (let n = 0; n < RESTS_MAX && (n < RESTS_MIN || this.#clients.waiting > 0); n++) {
      await life.settle();
      await life.pass(50);
    }
    await life.settle();
    assert.equal(this.#clients.waiting, 0, 'every client of the last life has an answer');
    this.#clients.keys.check();
    const sent = this.#clients.keys.told(this.#clients.sent);
    // Compares the number only: entries may have megabytes, and a difference in words takes gigabytes.
    const queued = await life.until(life.storage.range('queue', new Uint8Array(0)));
    assert.equal(queued.length, 0, 'nothing is left in queues');
    const there = this.#there(life);
    const { ledgers, states } = await this.#states(life, there);
    for (const name of there) await this.#checkNumbers(life, name);
    for (const name of this.#mayflies) ledgers.delete(name);
    const checked = { ledgers, sent, hasDeaths: this.#plan.hasDeaths };
    checkMessages(checked);
    checkLooks(checked);
    checkPayloads(sent);
    this.tally.outcallsTransient += this.#outside?.check(this.#clients.sent, ledgers) ?? 0;
    this.tally.outcallsLost += this.#outside?.lost ?? 0;
    this.#clients.readLines(life, this.#everybody);
    checkTimers(checked, this.#plan.hasChanges);
    this.#checkCycles(life);
    checkModules(life);
    await this.#again(life, there, states);
  }

  async #startAll(life: Life): Promise<void> {
    for (const name of this.#everybody) {
      const record = life.named(name);
      if (record === undefined) continue;
      await life.until(life.registry.start(record));
      this.#operators.hasStarted(name);
    }
  }

  /** Checks that a restart, with or without a stop before, changes nothing. */
  async #again(life: Life, there: readonly string[], states: ReadonlyMap<string, Described>): Promise<void> {
    if (this.#seeded.oneIn(2)) {
      const ids = life.registry.list().map(({ id }) => id);
      await this.#stop(life);
      const { snapshotBelowBytes, hasLargeHeaps } = this.#plan;
      checkMemories(this.#tables, ids, snapshotBelowBytes < NEVER_LOGGED_BYTES || hasLargeHeaps);
    } else this.#crash();
    const next = await this.#start(false);
    const after = await this.#states(next, there);
    assert.deepEqual(after.states, states, 'a restart leaves everything as it was');
    this.#leave(next);
    next.end();
  }

  async #states(
    life: Life,
    names: readonly string[],
  ): Promise<{ readonly ledgers: Map<string, Ledger>; readonly states: ReadonlyMap<string, Described> }> {
    const ledgers = new Map<string, Ledger>();
    const states = new Map<string, Described>();
    for (const name of names) {
      const record = life.named(name);
      assert.ok(record, `${name} is there`);
      const release = await life.until(life.scheduler.pin(record.handle));
      const state = life.execution.stateOf(record.handle);
      assert.ok(state, `${name} is awake`);
      // A long message that has gone on since the host started is to end first.
      await life.while(() => state.isInMessage);
      ledgers.set(name, readLedger(name, state));
      states.set(name, describe(state));
      release();
    }
    return { ledgers, states };
  }

  /** Checks that both sides know the same numbers at rest. */
  async #checkNumbers(life: Life, name: string): Promise<void> {
    const { handle, balance, version, status, environment, heapBytes, stableBytes } = life.registry.resolve(name);
    const release = await life.until(life.scheduler.pin(handle));
    const state = life.execution.stateOf(handle);
    assert.ok(state, `${name} is awake`);
    const found = {
      balance: state.account.balance,
      version: state.version,
      status: state.status,
      heapBytes: state.installed?.instance.heapBytes ?? 0,
      stableBytes: state.stable.bytes,
    };
    const known = { balance, version, status, heapBytes, stableBytes };
    assert.deepEqual(found, known, `${name}: numbers of executor and registry`);
    assert.deepEqual(state.settings.env, environment, `${name}: variables of executor and registry`);
    release();
  }

  #checkCycles(life: Life): void {
    const { cyclesAdded, cyclesPerhapsAdded, hasDeleted } = this.#operators;
    // A deletion takes along cycles that other actors had before.
    if (hasDeleted) return;
    const records = life.registry.list();
    const spent = records.reduce((sum, { usage, balance }) => sum + usage.cyclesCharged + balance, 0n);
    const created = POLICY.startingCycles * BigInt(records.length) + cyclesAdded;
    assert.ok(spent <= created + cyclesPerhapsAdded, `${spent - created} cycles came from nowhere`);
    if (!this.#plan.hasTimeouts) assert.ok(spent >= created, `${created - spent} cycles are lost`);
  }
}

/** Returns true if the process has to end with this error. */
function endsProcess(error: unknown): boolean {
  if (error instanceof DiskCrash || error instanceof TablesCrash) return true;
  return error instanceof ServerError && error.code === 'state-unwritable';
}

/** Runs one seed; throws its findings. */
export async function simulate(
  seed: number,
  bug?: Bug,
  planted: PlantedThreads = {},
  { asksOutside = false }: { readonly asksOutside?: boolean } = {},
): Promise<Tally> {
  const world = new World(seed, bug, planted, asksOutside);
  try {
    await world.run();
  } catch (error) {
    if (error instanceof Error) throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
    throw error;
  }
  return world.tally;
}

/** Returns how the tables are written out in the background: not at all, or in up to two turns. */
function writeOutOf(seed: number): WriteOut | undefined {
  const turns = (seed % 4) - 1;
  if (turns < 0) return undefined;
  return async () => {
    for (let n = 0; n < turns; n++) await nextTurn();
  };
}
