/**
 * One seed: a host, its clients and its disk, over several lives that end with a crash or a stop.
 */
import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { Crash as DiskCrash, FaultyDisk } from '../../support/faulty-disk.ts';
import { Crash as TablesCrash, FaultyTables } from '../../support/faulty-tables.ts';
import { SeededRandom } from '../../support/kernel.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { checkLooks, checkMessages, checkTimers } from './checks.ts';
import { CALLER, Clients } from './clients.ts';
import { describe, type Ledger, readLedger } from './ledger-state.ts';
import { ledgerModule } from './ledger-module.ts';
import { Life, POLICY } from './life.ts';
import { type Bug, type Plan, planOf } from './plan.ts';

const START_MS = 1_800_000_000_000;

/** What a seed went through, so that everybody sees that they were not all alike. */
export interface Tally {
  lives: number;
  crashes: number;
  stops: number;
  messages: number;
  acknowledged: number;
  replayed: number;
  wakeUps: number;
  steps: number;
}

/** The next life has the same ones. */
class LastingTables extends FaultyTables {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

class World {
  readonly #seed: number;
  readonly #seeded: Seeded;
  readonly #plan: Plan;
  readonly #clients: Clients;
  readonly #clock = {
    now: START_MS,
    nowMs(): number {
      return this.now;
    },
    pass(ms: number): void {
      this.now += ms;
    },
  };
  readonly #actors: string[];
  #disk = new FaultyDisk();
  #tables = new MemoryTables();
  #faulty: FaultyTables | undefined;
  /** Writes to the tables until the machine stops. */
  #tablesCrashIn = Infinity;
  #life: Life | undefined;
  #lives = 0;
  readonly tally: Tally = {
    lives: 0,
    crashes: 0,
    stops: 0,
    messages: 0,
    acknowledged: 0,
    replayed: 0,
    wakeUps: 0,
    steps: 0,
  };

  constructor(seed: number, bug: Bug | undefined) {
    this.#seed = seed;
    this.#seeded = seeded(seed);
    // So that seeds that follow each other have nothing in common.
    for (let n = 0; n < 8; n++) this.#seeded.below(2);
    this.#plan = planOf(this.#seeded, bug);
    this.#clients = new Clients(this.#seeded, this.#plan);
    this.#actors = Array.from({ length: this.#plan.actors }, (_, index) => `bank${index}`);
  }

  get plan(): Plan {
    return this.#plan;
  }

  async run(): Promise<void> {
    try {
      for (let life = 0; life < this.#plan.lives; life++) await this.#live(life);
      await this.#end();
    } finally {
      this.#life?.end();
      mock.timers.reset();
      this.tally.messages = this.#clients.sent.length;
      this.tally.acknowledged = this.#clients.sent.filter(({ outcome }) => outcome !== undefined).length;
    }
  }

  // ---- lives

  /** A life that ends in one way or the other; what is left is on disk and tables. */
  async #live(number: number): Promise<void> {
    const random = this.#seeded;
    if (number === 0 || this.#plan.crashesInRecovery) this.#arm();
    try {
      const life = await this.#start();
      if (number > 0 && !this.#plan.crashesInRecovery) this.#arm();
      await this.#installActors(life);
      for (let n = 0; n < this.#plan.operations; n++) {
        this.#clients.send(life, this.#actors, this.#actors);
        for (let turns = random.below(6); turns > 0; turns--) await life.turn();
        if (random.oneIn(5)) await life.pass(random.below(60));
      }
      if (random.oneIn(3)) await this.#stop(life);
      else this.#crash();
    } catch (error) {
      if (!(error instanceof DiskCrash || error instanceof TablesCrash)) throw error;
      this.#crash();
    }
  }

  #arm(): void {
    const random = this.#seeded;
    this.#disk.arm(random.oneIn(4) ? {} : { crashAt: 1 + random.below(random.pick([10, 100, 400])) });
    this.#tablesCrashIn = random.oneIn(2) ? 1 + random.below(20) : Infinity;
  }

  #disarm(): void {
    this.#disk.arm({});
    this.#tablesCrashIn = Infinity;
  }

  async #start(): Promise<Life> {
    const plan = this.#plan;
    this.tally.lives++;
    const random = new SeededRandom(this.#seed * 1000 + ++this.#lives);
    const tables = new LastingTables(this.#tables, this.#seeded, () =>
      --this.#tablesCrashIn === 0 ? 'crash' : undefined,
    );
    this.#faulty = tables;
    const openLog = (firstUnit: number): StepLog =>
      StepLog.open(this.#disk, { firstUnit, segmentBytes: plan.segmentBytes, random });
    const store = new StateStore(tables, openLog, { foldBytes: plan.foldBytes, isSynced: plan.isSynced });
    const life = new Life({ plan, seeded: this.#seeded, clock: this.#clock, random, store });
    this.#life = life;
    await life.start();
    return life;
  }

  async #installActors(life: Life): Promise<void> {
    for (const [index, name] of this.#actors.entries()) {
      if (life.named(name) !== undefined) continue;
      const module = ledgerModule({ hasHeartbeat: this.#plan.hasHeartbeat && index === 0 });
      await life.until(life.registry.install(name, module, { argument: undefined, caller: CALLER }));
    }
  }

  async #stop(life: Life): Promise<void> {
    await life.stop();
    this.#leave(life);
    this.tally.stops++;
    this.#disk = this.#disk.killed();
    await Promise.resolve();
  }

  /** The machine stops now, or has stopped. */
  #crash(): void {
    const life = this.#life;
    life?.end();
    if (life !== undefined) this.#leave(life);
    this.tally.crashes++;
    // Without synced commits only the process may end like that.
    if (this.#plan.isSynced && this.#seeded.oneIn(2)) {
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
    this.tally.steps += life.execution.steps;
    this.tally.wakeUps += life.scheduler.live.wakeUps;
    this.#life = undefined;
  }

  // ---- the end

  async #end(): Promise<void> {
    this.#disarm();
    const life = await this.#start();
    await this.#installActors(life);
    for (let n = 0; n < 200 && (n < 20 || this.#clients.waiting > 0); n++) {
      await life.settle();
      await life.pass(50);
    }
    await life.settle();
    assert.equal(this.#clients.waiting, 0, 'every client of the last life has an answer');
    assert.deepEqual(await life.until(life.storage.range('queue', new Uint8Array(0))), [], 'nothing is left in queues');
    const before = await this.#states(life);
    const ledgers = before.ledgers;
    const checked = { ledgers, sent: this.#clients.sent };
    checkMessages(checked);
    checkLooks(checked);
    checkTimers(checked, this.#plan.hasChanges);
    this.#checkCycles(life);
    await this.#again(life, before.states);
  }

  /** A restart, after a stop or without, changes nothing. */
  async #again(life: Life, states: ReadonlyMap<string, Readonly<Record<string, string>>>): Promise<void> {
    if (this.#seeded.oneIn(2)) await this.#stop(life);
    else this.#crash();
    const next = await this.#start();
    const after = await this.#states(next);
    assert.deepEqual(after.states, states, 'a restart leaves everything as it was');
  }

  async #states(
    life: Life,
  ): Promise<{ ledgers: Map<string, Ledger>; states: Map<string, Readonly<Record<string, string>>> }> {
    const ledgers = new Map<string, Ledger>();
    const states = new Map<string, Readonly<Record<string, string>>>();
    for (const name of this.#actors) {
      const record = life.named(name);
      assert.ok(record, `${name} is there`);
      const release = await life.until(life.scheduler.pin(record.handle));
      const state = life.execution.stateOf(record.handle);
      assert.ok(state, `${name} is awake`);
      ledgers.set(name, readLedger(name, state));
      states.set(name, describe(state));
      release();
    }
    return { ledgers, states };
  }

  #checkCycles(life: Life): void {
    const records = this.#actors.map((name) => life.registry.resolve(name));
    const charged = records.reduce((sum, { usage }) => sum + usage.cyclesCharged, 0n);
    const left = records.reduce((sum, { balance }) => sum + balance, 0n);
    const created = POLICY.startingCycles * BigInt(records.length);
    if (this.#plan.hasTimeouts) assert.ok(left + charged <= created, 'cycles came from nowhere');
    else assert.equal(left + charged, created, 'cycles are neither made nor lost');
  }
}

/** Runs one seed; throws what it has found. */
export async function simulate(seed: number, bug?: Bug): Promise<Tally> {
  const world = new World(seed, bug);
  try {
    await world.run();
  } catch (error) {
    if (error instanceof ServerError || error instanceof Error) {
      throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
    }
    throw error;
  }
  return world.tally;
}
