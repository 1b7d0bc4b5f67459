/**
 * The real engine in this thread: what executor threads do, when the simulation says so. Tasks and commands wait in their
 * lane's inbox; what came of them waits in its outbox, until the simulation lets the main thread have it.
 */
import { createHash } from 'node:crypto';
import { type Clock, messageOf, ServerError } from '../../../kernel/index.ts';
import type { CanisterState } from '../../../subsystems/execution/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/control-memory.ts';
import { createStores, Engine, type EngineResult, type SharedStores } from '../../../subsystems/execution/engine.ts';
import { Environment } from '../../../subsystems/execution/environment.ts';
import { HeapGarbage } from '../../../subsystems/execution/heap-garbage.ts';
import type {
  CanisterGauges,
  CanisterImage,
  CanisterObserver,
  CanisterSettings,
  CanisterSpec,
  CodeChange,
  Execution,
  ModuleInfo,
  Replayed,
  SleepingCanister,
  Step,
  Task,
} from '../../../subsystems/execution/index.ts';
import { heapsMade, type InstrumentedCode } from '../../../subsystems/execution/instance.ts';
import { loadModule } from '../../../subsystems/execution/load-module.ts';
import type { LoadedModule } from '../../../subsystems/execution/module-loader.ts';
import { unavailableStep } from '../../../subsystems/execution/unavailable-step.ts';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';

const STACK_BYTES = 512 * 1024;
const STOPPED = "the actor's thread has stopped";

/** One for all seeds: it is put in order at the beginning of every message. */
const control = new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 64 * 2 ** 20 });
const loaded = new Map<string, LoadedModule>();
/** Heaps in use by whoever lives now: the heaps of those that have crashed are garbage. */
let liveHeaps = (): number => 0;
/** They are small: only how many they are counts. */
const heapGarbage = new HeapGarbage({ made: heapsMade, live: () => liveHeaps(), droppedBytes: () => 0 }, 1);

interface Placed {
  readonly lane: number;
  executor: SimulatedExecutor;
  readonly observer: CanisterObserver;
  readonly isKept: boolean;
  isAsleep: boolean;
  /** What the executor has. */
  state: CanisterState | undefined;
}

/** What the main thread is told, in order. */
type Told = () => void;

interface Work {
  /** Runs in the executor. */
  readonly execute: () => Told;
  /** Called instead when the executor has died before. */
  readonly stopped: Told | undefined;
}

class SimulatedExecutor {
  isAlive = true;
  readonly engine: Engine;
  readonly stores: SharedStores;
  readonly inbox: Work[] = [];
  readonly outbox: Told[] = [];

  constructor(policy: MeteringPolicy) {
    this.stores = createStores({ stableBytesMax: 1 << 28, frameBytesMax: 1 << 24 });
    this.engine = new Engine({
      policy,
      control,
      shared: this.stores,
      reportBug: (message, cause) => {
        throw new Error(`a bug of the host: ${message}`, { cause });
      },
    });
  }
}

export interface EngineExecutionOptions {
  readonly lanes: number;
  readonly policy: MeteringPolicy;
  readonly clock: Clock;
  /** Sees what a step has changed on its way to storage, and may put something else in its place. */
  readonly onChanges?: (changes: Uint8Array) => Uint8Array;
}

export class EngineExecution implements Execution {
  readonly #options: EngineExecutionOptions;
  readonly #executors: SimulatedExecutor[];
  readonly #canisters: (Placed | undefined)[] = [];
  #isStopping = false;
  /** Tasks executed. */
  steps = 0;

  constructor(options: EngineExecutionOptions) {
    this.#options = options;
    this.#executors = Array.from({ length: options.lanes }, () => new SimulatedExecutor(options.policy));
    liveHeaps = () => {
      const inUse = this.#canisters.filter((placed) => placed?.state?.installed !== undefined).length;
      return this.#executors.reduce((sum, { stores }) => sum + stores.heaps.count, inUse);
    };
  }

  // ---- what the simulation decides

  canExecute(lane: number): boolean {
    return this.#executorOf(lane).inbox.length > 0;
  }

  canTell(lane: number): boolean {
    return this.#executorOf(lane).outbox.length > 0;
  }

  /** Executes what comes next in a lane. */
  execute(lane: number): void {
    const { inbox, outbox } = this.#executorOf(lane);
    const work = inbox.shift();
    if (work === undefined) return;
    outbox.push(work.execute());
    heapGarbage.check();
  }

  /** Tells the main thread, which has a turn of its event loop for it, what came of so many things. */
  tell(lane: number, many: number): void {
    const { outbox } = this.#executorOf(lane);
    for (const told of outbox.splice(0, many)) told();
  }

  /** The executor of a lane dies and is replaced. */
  kill(lane: number): void {
    const { inbox, outbox } = this.#executorOf(lane);
    this.tell(lane, outbox.length);
    const unfinished = inbox.splice(0);
    const dead = this.#executorOf(lane);
    const lost = this.#canisters.filter((placed) => placed?.executor === dead);
    dead.isAlive = false;
    for (const { stopped } of unfinished) stopped?.();
    const executor = new SimulatedExecutor(this.#options.policy);
    executor.stores.environment = dead.stores.environment;
    this.#executors[lane] = executor;
    for (const placed of lost) {
      if (placed === undefined) continue;
      placed.state = undefined;
      placed.executor = executor;
      placed.isAsleep = true;
      placed.observer.lost();
    }
  }

  /** What an executor has of a canister; undefined: it sleeps. */
  stateOf(handle: number): CanisterState | undefined {
    return this.#canisters[handle]?.state;
  }

  // ---- Execution

  get lanes(): number {
    return this.#options.lanes;
  }

  laneOf(handle: number): number {
    return this.#placed(handle).lane;
  }

  shareEnvironment(variables: ReadonlyMap<string, string>): void {
    for (const { stores } of this.#executors) stores.environment = new Environment(variables);
  }

  prepare(bytes: Uint8Array): Promise<ModuleInfo> {
    const hash = createHash('sha256').update(bytes).digest('hex');
    const module = loaded.get(hash) ?? loadModule(bytes, hash, { wasmStackBytes: STACK_BYTES });
    loaded.set(hash, module);
    return Promise.resolve(module.info);
  }

  create(spec: CanisterSpec, observer: CanisterObserver): number {
    const handle = this.#place(observer, spec.snapshotBelowBytes !== undefined, false);
    this.#send(handle, ({ engine }, placed) => {
      placed.state = engine.createCanister(spec);
      return nothing;
    });
    return handle;
  }

  createAsleep(observer: CanisterObserver): number {
    return this.#place(observer, true, true);
  }

  #place(observer: CanisterObserver, isKept: boolean, isAsleep: boolean): number {
    const handle = this.#canisters.length;
    const lane = handle % this.lanes;
    this.#canisters.push({ lane, executor: this.#executorOf(lane), observer, isKept, isAsleep, state: undefined });
    return handle;
  }

  run(handle: number, task: Task, done: (step: Step) => void): void {
    const nowMs = this.#options.clock.nowMs();
    this.#runStep(handle, done, (engine, state) => engine.execute(state, task, nowMs));
  }

  change(handle: number, module: ModuleInfo, change: CodeChange, done: (step: Step) => void): void {
    const nowMs = this.#options.clock.nowMs();
    const code = codeOf(module);
    this.#runStep(handle, done, (engine, state) => engine.change(state, code, change, nowMs));
  }

  #runStep(
    handle: number,
    done: (step: Step) => void,
    work: (engine: Engine, state: CanisterState) => EngineResult,
  ): void {
    const stopped = (): void => done(unavailableStep(STOPPED));
    this.#send(
      handle,
      ({ engine }, placed) => {
        const state = awake(placed);
        if (this.#isStopping) {
          const gauges = gaugesOf(state, 0, undefined);
          return () => {
            this.#observerOf(handle)?.ended(gauges);
            done(unavailableStep('the server is stopping'));
          };
        }
        this.steps++;
        const { step, debug, isBalanceMoved, changes } = work(engine, state);
        const gauges = gaugesOf(state, step.charge, isBalanceMoved ? state.account.balance : undefined);
        return () => {
          for (const line of debug) this.#observerOf(handle)?.debug(line);
          this.#tellChanges(handle, changes);
          this.#observerOf(handle)?.ended(gauges);
          done(step);
        };
      },
      stopped,
    );
  }

  async uninstall(handle: number): Promise<void> {
    const isDone = await this.#ask(handle, ({ engine }, placed) => {
      engine.uninstall(awake(placed));
      return true;
    });
    if (isDone === undefined) throw threadStopped();
  }

  configure(handle: number, settings: CanisterSettings): void {
    if (this.#placed(handle).isAsleep) return;
    this.#command(handle, ({ engine }, placed) => engine.configure(awake(placed), settings));
  }

  #command(handle: number, work: (executor: SimulatedExecutor, placed: Placed) => void): void {
    this.#send(handle, (executor, placed) => {
      work(executor, placed);
      const changes = executor.engine.takeChanges();
      return () => this.#tellChanges(handle, changes);
    });
  }

  async capture(handle: number, module: ModuleInfo | undefined): Promise<CanisterImage> {
    const image = await this.#ask(handle, ({ engine }, placed) => engine.capture(awake(placed)));
    if (image === undefined) throw threadStopped();
    return { ...image, module };
  }

  async restore(handle: number, { module, ...image }: CanisterImage): Promise<void> {
    const code = module === undefined ? undefined : codeOf(module);
    const restored = await this.#ask(handle, ({ engine }, placed) => ({
      problem: engine.restore(awake(placed), code, image),
    }));
    if (restored === undefined) throw threadStopped();
    if (restored.problem !== undefined) throw new ServerError('invalid', 'state-unfit', restored.problem);
  }

  async addCycles(handle: number, amount: bigint): Promise<bigint> {
    if (this.#placed(handle).isAsleep) throw threadStopped();
    const balance = await this.#ask(
      handle,
      ({ engine }, placed) => engine.addCycles(awake(placed), amount),
      (answer) => this.#observerOf(handle)?.credited?.(answer),
    );
    if (balance === undefined) throw threadStopped();
    return balance;
  }

  remove(handle: number): void {
    this.#send(handle, ({ engine }, placed) => {
      if (placed.state !== undefined) engine.removeCanister(placed.state);
      placed.state = undefined;
      return nothing;
    });
    this.#canisters[handle] = undefined;
  }

  async sleep(handle: number): Promise<void> {
    const placed = this.#placed(handle);
    const { executor } = placed;
    placed.isAsleep = true;
    await this.#prepareCheckpoint(handle);
    if (this.#canisters[handle] !== placed || !executor.isAlive) return;
    await this.#ask(handle, ({ engine }) => {
      if (placed.state !== undefined) engine.putToSleep(placed.state);
      placed.state = undefined;
    });
  }

  async wake(handle: number, { module, ...stored }: SleepingCanister): Promise<Replayed | undefined> {
    const code = module === undefined ? undefined : codeOf(module);
    const placed = this.#placed(handle);
    placed.isAsleep = false;
    const answer = await this.#ask(handle, ({ engine }) => {
      const state = engine.createCanister(stored.spec);
      let outcome: string | number;
      try {
        outcome = engine.wake(state, code, stored);
      } catch (error) {
        outcome = messageOf(error);
      }
      if (typeof outcome === 'string') {
        engine.removeCanister(state);
        // Of a log that could not be run to its end nothing is to be stored.
        engine.takeChanges();
        return { problem: outcome };
      }
      placed.state = state;
      const replayed = { records: outcome, balance: state.account.balance, version: state.version };
      return { replayed: outcome > 0 ? replayed : undefined };
    });
    const isAwake = answer !== undefined && answer.problem === undefined && !placed.isAsleep;
    if (!isAwake) placed.isAsleep = true;
    if (answer === undefined) throw threadStopped();
    if (answer.problem !== undefined) throw new ServerError('invalid', 'state-unfit', answer.problem);
    if (!isAwake) throw threadStopped();
    return answer.replayed;
  }

  async checkpoint(handle: number): Promise<void> {
    const placed = this.#placed(handle);
    const { executor } = placed;
    await this.#prepareCheckpoint(handle);
    if (placed.isAsleep || this.#canisters[handle] !== placed) return;
    if (!executor.isAlive) throw threadStopped();
    const isDone = await this.#ask(handle, ({ engine }) => {
      if (placed.state !== undefined) engine.checkpoint(placed.state);
      return true;
    });
    if (isDone === undefined) throw threadStopped();
  }

  async #prepareCheckpoint(handle: number): Promise<void> {
    for (;;) {
      const isReady = await this.#ask(
        handle,
        ({ engine }, { state }) => state === undefined || engine.prepareCheckpoint(state),
      );
      if (isReady !== false) return;
      await this.#observerOf(handle)?.settled?.();
    }
  }

  refuseNew(): void {
    this.#isStopping = true;
  }

  /** As at a graceful stop. */
  async close(): Promise<void> {
    const live = [...this.#canisters.entries()].filter(
      ([, placed]) => placed?.isAsleep === false && placed.state?.installed !== undefined,
    );
    await Promise.allSettled(live.map(([handle]) => this.checkpoint(handle)));
  }

  /** A command that is answered; undefined when the executor dies. */
  #ask<T>(
    handle: number,
    work: (executor: SimulatedExecutor, placed: Placed) => T,
    tell: (answer: T) => void = nothing,
  ): Promise<T | undefined> {
    return new Promise((resolve) => {
      this.#send(
        handle,
        (executor, placed) => {
          const answer = work(executor, placed);
          const changes = executor.engine.takeChanges();
          return () => {
            this.#tellChanges(handle, changes);
            tell(answer);
            resolve(answer);
          };
        },
        () => resolve(undefined),
      );
    });
  }

  #tellChanges(handle: number, changes: Uint8Array | undefined): void {
    if (changes === undefined) return;
    const { onChanges } = this.#options;
    this.#observerOf(handle)?.changed?.(onChanges === undefined ? changes : onChanges(changes));
  }

  /** Nobody listens for a canister that has been removed. */
  #observerOf(handle: number): CanisterObserver | undefined {
    return this.#canisters[handle]?.observer;
  }

  #send(handle: number, work: (executor: SimulatedExecutor, placed: Placed) => Told, stopped?: Told): void {
    const placed = this.#placed(handle);
    const { executor } = placed;
    if (executor.isAlive) executor.inbox.push({ execute: () => work(executor, placed), stopped });
    else if (stopped !== undefined) queueMicrotask(stopped);
  }

  #placed(handle: number): Placed {
    const placed = this.#canisters[handle];
    if (placed === undefined) throw new Error(`no canister ${handle}`);
    return placed;
  }

  #executorOf(lane: number): SimulatedExecutor {
    const executor = this.#executors[lane];
    if (executor === undefined) throw new Error(`no executor ${lane}`);
    return executor;
  }
}

const nothing = (): void => undefined;

function awake({ state }: Placed): CanisterState {
  if (state === undefined) throw new Error('the executor does not have this canister');
  return state;
}

function gaugesOf(state: CanisterState, charge: number, balance: bigint | undefined): CanisterGauges {
  const { version, instantMs } = state;
  const heapBytes = state.installed?.instance.heapBytes ?? 0;
  const loggedInstructions = state.kept?.instructions ?? 0;
  return { heapBytes, stableBytes: state.stable.bytes, version, charge, balance, instantMs, loggedInstructions };
}

function codeOf({ hash }: ModuleInfo): InstrumentedCode {
  const module = loaded.get(hash);
  if (module === undefined) throw new Error(`module ${hash} does not come from prepare`);
  return module.code;
}

function threadStopped(): ServerError {
  return new ServerError('unavailable', 'executor-stopped', STOPPED);
}
