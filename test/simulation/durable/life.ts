/** One life of a host, from its start to its crash or stop: the real parts over the simulated execution and storage. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger, Random } from '../../../kernel/index.ts';
import { CanisterService } from '../../../subsystems/canisters/canister-service.ts';
import type { CanisterRecord } from '../../../subsystems/canisters/canister-record.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { NoRehearsal } from '../../../subsystems/rehearsal/no-rehearsal.ts';
import { NoOutcalls } from '../../../subsystems/outcalls/no-outcalls.ts';
import { UpgradeComparisons } from '../../../subsystems/compatibility/upgrade-comparisons.ts';
import { ManagementCanister } from '../../../subsystems/management/management-canister.ts';
import type { CallKind, Outcome } from '../../../subsystems/ic/index.ts';
import type { Compiler } from '../../../subsystems/compiler/index.ts';
import type { Manifest } from '../../../subsystems/manifest/index.ts';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import { KEY_BOUNDS } from '../../../subsystems/scheduler/idempotency/key-bounds.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { NoService } from '../../../subsystems/storage/no-service.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import type { FakeClock } from '../../support/fake-clock.ts';
import type { Seeded } from '../../support/seeded.ts';
import type { Outside } from './outside.ts';
import { OUTSIDE_BUG, type Plan } from './plan.ts';
import { hastySettled, storageWith } from './planted-bugs.ts';
import type { SimulatedStorage } from './simulated-storage.ts';
import { type PlantedThreads, SimulatedThreads } from './simulated-threads.ts';
import { drawPassedMs } from '../stepped-threads.ts';

export const POLICY: MeteringPolicy = {
  isEnabled: true,
  startingCycles: 100_000_000_000_000n,
  cyclesPerMessage: 590_000,
  cyclesPer10Instructions: 4,
  instructionLimit: 40_000_000_000,
};
const HEARTBEAT_MS = 50;
const TIMER_MS = 10;
/** Bound of turns, more than any work takes. */
const TURNS_MAX = 20_000;

const codec = createCodec();
const manifest: Manifest = { read: () => Promise.resolve([]) };
const refuse = (): Promise<never> => Promise.reject(new Error('there is nothing to compile'));
const compiler: Compiler = { compile: refuse, sourcesOf: refuse, closureOf: refuse, compareStable: refuse };
/** The modules here have neither interfaces nor stable variables, so no thread is needed. */
const compatibility = new UpgradeComparisons({
  policy: 'refuse',
  checker: () => {
    throw new Error('there are no stable variables');
  },
});

type Call = readonly [
  record: CanisterRecord,
  kind: CallKind,
  method: string,
  caller: Uint8Array,
  argument: Uint8Array,
  key: string | undefined,
];

interface LifeParts {
  readonly plan: Plan;
  readonly seeded: Seeded;
  readonly clock: FakeClock;
  readonly random: Random;
  readonly store: StateStore;
  readonly planted: PlantedThreads;
  /** Undefined: there is no outside. */
  readonly outside: Outside | undefined;
}

/** Messages expected in the log: clocks do fall behind here, and threads die during checkpoints in the background. */
const EXPECTED = /^the clock is behind|could not be checkpointed: the actor's thread has stopped$/;

export class Life {
  readonly storage: SimulatedStorage;
  readonly execution: SimulatedThreads;
  readonly scheduler: RoundScheduler;
  readonly registry: CanisterService;
  readonly management: ManagementCanister;
  /** Number of messages of logs that were run again. */
  replayed = 0;
  /** True if the life has ended: nothing from it counts any more. */
  isOver = false;
  readonly #parts: LifeParts;
  readonly #problems: string[] = [];

  constructor(parts: LifeParts) {
    const { plan, clock, random, store, planted } = parts;
    this.#parts = parts;
    const storage = storageWith(plan.bug, store, parts.seeded, { ringBytes: plan.ringBytes });
    const { lanes, liveCap, snapshotBelowBytes, replayBudgetSecs, keys } = plan;
    const log = this.#logger();
    const passMs = (): number => drawPassedMs((below) => parts.seeded.below(below));
    const isHeard = (): boolean => parts.seeded.oneIn(2);
    const own = { pieceSizes: plan.pieceSizes, ...planted };
    const execution = new SimulatedThreads({ lanes, policy: POLICY, clock, log, passMs, isHeard, ...own });
    const scheduler = new RoundScheduler(
      { execution, clock, storage },
      {
        heartbeatMs: HEARTBEAT_MS,
        timerMs: TIMER_MS,
        queryInstructionsMax: POLICY.instructionLimit,
        liveCap,
        // The time that clients rely on is in the plan.
        idempotencySecs: plan.bug === 'key-expires-early' ? keys.idempotencySecs / 1e6 : keys.idempotencySecs,
        ...(keys.keysMax !== undefined && { keyBounds: { ...KEY_BOUNDS, keysMax: keys.keysMax } }),
      },
    );
    const metering = { policy: POLICY };
    const registry = new CanisterService(
      {
        execution,
        scheduler,
        schedulerSetup: scheduler,
        metering,
        codec,
        manifest,
        compiler,
        compatibility,
        rehearsal: new NoRehearsal(),
        storage,
        service: new NoService(),
        clock,
        log,
      },
      {
        forwardDebugOutput: false,
        snapshotBelowBytes,
        replayBudgetSecs,
        historyEntries: 50,
        followsFiles: false,
        hasLiveLimit: liveCap > 0,
      },
    );
    this.management = new ManagementCanister({
      host: registry.backend,
      codec,
      clock,
      random,
      log,
      storage: plan.bug === OUTSIDE_BUG ? hastySettled(storage) : storage,
      service: new NoService(),
      outcalls: parts.outside ?? new NoOutcalls(),
    });
    registry.open();
    this.management.open();
    this.storage = storage;
    this.execution = execution;
    this.scheduler = scheduler;
    this.registry = registry;
  }

  /** Returns a logger that collects all reported problems. */
  #logger(): Logger {
    const problem = (text: string, error?: unknown): void => {
      if (!this.isOver && this.#parts.planted.isSilent !== true && !EXPECTED.test(text))
        this.#problems.push(error instanceof Error ? `${text}: ${error.stack}` : text);
    };
    const nothing = (): void => undefined;
    const event: Logger['event'] = (name, { messages }) => {
      if (name === 'recovered') this.replayed += Number(messages);
    };
    return { event, debug: nothing, info: nothing, warn: problem, error: problem, announce: problem };
  }

  /** Recovers the state, and begins to serve. */
  async start(): Promise<void> {
    const { signal } = new AbortController();
    await this.until(this.registry.started.install(() => undefined, signal));
    this.scheduler.beginTicking();
    // All actors are awake. Without left modules, the call would only add a draw.
    if (this.#parts.plan.hasLeftModules) this.registry.started.finishStart();
  }

  /** Stops as at the first signal: work that is not kept is refused, everything is written. */
  async stop(): Promise<void> {
    this.registry.started.drain();
    await this.until(this.scheduler.drain());
    await this.until(this.execution.close());
    await this.storage.close();
    this.end();
  }

  end(): void {
    this.isOver = true;
    this.execution.abandon();
    this.storage.abandon();
    this.#parts.clock.dropTimers();
    this.#parts.outside?.lose();
  }

  get nowMs(): number {
    return this.#parts.clock.nowMs();
  }

  /** Hashes of the stored modules, by committed entries. */
  get storedModules(): readonly string[] {
    const entries = this.#parts.store.reader.range('module', new Uint8Array(0));
    return entries.map(([key]) => Buffer.from(key).toString('hex'));
  }

  named(name: string): CanisterRecord | undefined {
    return this.registry.resolveIfAny(name);
  }

  /** Sends a client's message. */
  call(...[record, kind, method, caller, argument, key]: Call): Promise<Outcome> {
    const { plan, seeded } = this.#parts;
    const isIgnored = plan.bug === 'key-ignored' && key !== undefined && seeded.oneIn(8);
    const idempotencyKey = isIgnored ? undefined : key;
    return this.registry.call(record, { kind, method, caller, argument, addressedBy: 'name', idempotencyKey });
  }

  // ---- turns

  /** Lets one event happen somewhere; returns false if none was possible. */
  async turn(): Promise<boolean> {
    let possible = this.#possible();
    if (possible.length === 0) {
      // Records that were sent in this turn of the event loop are published at its end.
      await nextTurn();
      possible = this.#possible();
    }
    const event = possible[this.#parts.seeded.below(Math.max(1, possible.length))];
    event?.();
    await nextTurn();
    if (this.#problems.length > 0) assert.fail(`the host says: ${this.#problems.join('; ')}`);
    return event !== undefined;
  }

  #possible(): readonly (() => void)[] {
    const { storage, execution } = this;
    const { seeded, plan } = this.#parts;
    const possible: (() => void)[] = [];
    const offer = (weight: number, event: () => void): void => {
      for (let n = 0; n < weight; n++) possible.push(event);
    };
    for (let lane = 0; lane < plan.lanes; lane++) {
      if (execution.canExecute(lane)) offer(plan.weights.execute, () => execution.execute(lane));
      if (execution.canTell(lane)) offer(plan.weights.tell, () => execution.tell(lane));
    }
    if (storage.canSeal) offer(plan.weights.seal, () => storage.seal());
    if (storage.canWork) offer(plan.weights.work, () => storage.work(seeded.below(6)));
    if (storage.canTell) offer(plan.weights.durable, () => storage.tell());
    if (storage.canAnswer) offer(plan.weights.answer, () => storage.answer());
    const { outside } = this.#parts;
    if (outside?.canAnswer === true) offer(1, () => outside.answer());
    return possible;
  }

  async pass(ms: number): Promise<void> {
    this.#parts.clock.advance(ms);
    await nextTurn();
  }

  /** Lets every possible event happen that needs no time to pass. */
  async settle(): Promise<void> {
    let turns = 0;
    while (await this.turn()) assert.ok(++turns < TURNS_MAX, 'the host does not come to rest');
  }

  /** Takes turns while the condition holds. */
  async while(holds: () => boolean): Promise<void> {
    for (let turns = 0; holds(); turns++) {
      assert.ok(turns < TURNS_MAX, 'something never ends');
      if (!(await this.turn())) await this.pass(20);
    }
  }

  /** Takes turns until the promise is settled; time passes when nothing else is possible. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = (): void => {
      isSettled = true;
    };
    promise.then(settled, settled);
    await nextTurn();
    await this.while(() => !isSettled);
    return await promise;
  }
}
