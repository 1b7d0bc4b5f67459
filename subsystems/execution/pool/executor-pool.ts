/**
 * The executor threads together: the placement of canisters in them, and the replacement of threads that die.
 *
 * A canister belongs to one executor for as long as that lives. A dead executor is replaced at once, so that new
 * canisters find a place. Canisters of the dead executor that are kept in a state directory sleep until something wakes
 * them; the others cannot be restored, and answer `unavailable` for good.
 *
 * Main thread; reaches canisters only by the executors that it gives work to.
 */
import { type Clock, type Logger, within } from '../../../kernel/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import { CanisterTimes } from './canister-times.ts';
import { Executor, type StartExecutorThread } from './executor.ts';
import type { ExecutionBounds, ExecutionOptions, ExecutionParts } from './execution-options.ts';
import { ExecutorTables } from './executor-tables.ts';
import { countKept } from '../wire/code-cache.ts';
import { HeapBudget } from '../memory/heap-budget.ts';
import { LargeSteps } from './large-steps.ts';
import type {
  CanisterImage,
  CanisterSettings,
  CanisterSpec,
  CodeChange,
  PackedFacts,
  Executing,
  Execution,
  ExecutionListener,
  ExecutorFigures,
  MemoryByKind,
  MemoryFigures,
  ModuleInfo,
  PieceWritten,
  Replayed,
  SleepingCanister,
} from '../index.ts';
import {
  type EndedStep,
  type GivenFacts,
  numbersOf,
  returnedTask,
  type Task,
  THREAD_STOPPED_TEXT,
} from '../../ic/index.ts';
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import { ModuleLoader } from './module-loader.ts';
import { type Placed, PlacedCanisters } from './placed-canisters.ts';
import { threadStopped, tooManyHeaps, unfit } from './refusals.ts';
import { PoolModules, type UsedLoader } from './pool-modules.ts';
import { SharedEnvironment } from './shared-environment.ts';
import type { Recall } from '../wire/recalls.ts';
import { TypeBudget } from '../wire/type-budget.ts';
import { unavailableStep } from '../wire/unavailable-step.ts';
import { startExecutorWorker } from './start-executor-worker.ts';
import type { PortMessage } from '../wire/port-messages.ts';
import type { RestAnswer } from '../wire/sleep-record.ts';

/**
 * Time for which checkpoints are written when the host stops. The rest stays in the logs, which the next start runs
 * again: a heap of gigabytes on a busy disk would outlast the plugin's deadline.
 */
const CLOSING_CHECKPOINTS_MS_MAX = 6_000;
/** Time in which threads end. They have nothing left that is to be kept, so a slow one is no failure of the stop. */
const CLOSING_THREADS_MS_MAX = 2_000;

export class ExecutorPool implements Execution {
  readonly supports = { descriptions: true, packing: true, recall: true };
  readonly executorCount: number;
  /** Executors by lane. A thread is started for the first canister of its lane: it takes 40 ms and 12 MB. */
  readonly #executors: (Executor | undefined)[];
  readonly #canisters: PlacedCanisters;
  readonly #loader: UsedLoader;
  readonly #modules: PoolModules;
  readonly #startThread: StartExecutorThread;
  readonly #tables: ExecutorTables;
  readonly #largeSteps = new LargeSteps();
  #replaced = 0;
  readonly #policy: MeteringPolicy;
  readonly #pieceSizes: PieceSizes | undefined;
  readonly #options: ExecutionOptions;
  readonly #clock: Clock;
  readonly #times: CanisterTimes;
  readonly #log: Logger;
  #listener: ExecutionListener = NOBODY;
  readonly #environment = new SharedEnvironment(() => this.#started());
  readonly certifiedBy = this.#environment.certifiedBy;
  readonly sharedEnvironment = this.#environment.shown;
  #isRefusing = false;
  #isClosing = false;

  constructor(
    granted: { readonly policy: MeteringPolicy; readonly clock: Clock; readonly log: Logger },
    options: ExecutionOptions,
    bounds: ExecutionBounds = {},
    { startThread = startExecutorWorker, loader }: ExecutionParts = {},
  ) {
    this.#policy = granted.policy;
    this.#pieceSizes = bounds.pieceSizes;
    this.#clock = granted.clock;
    this.#times = new CanisterTimes(granted.clock);
    this.#log = granted.log;
    this.#options = options;
    this.executorCount = options.executors;
    this.#startThread = startThread;
    const onCacheFailure = (reason: string): void =>
      this.#log.warn(`instrumented modules cannot be kept, so the next start makes them anew: ${reason}`);
    const types = new TypeBudget(bounds.typesMax);
    this.#loader = loader ?? new ModuleLoader({ ...options, onCacheFailure, types });
    const events = { readyFor: this.#environment.readyFor, release: (hash: string): void => this.#release(hash) };
    this.#modules = new PoolModules(this.#loader, events, granted.clock, bounds.idleModuleMs);
    this.#tables = new ExecutorTables(options.executors, options.memoryBytes);
    this.#canisters = new PlacedCanisters({
      heaps: new HeapBudget(bounds.heapAddressGibMax),
      uses: this.#modules.uses,
      executorFor: (handle) => this.#executorAt(this.executorOf(handle)),
    });
    this.#executors = new Array<Executor | undefined>(options.executors).fill(undefined);
    // Another thread may be able to spare the memory that one thread lacks.
    this.attendMemory(() => this.trim());
  }

  /**
   * Starts the threads that actors of an earlier process will need, as many as that process has kept modules: this
   * takes longer than opening the actors' state.
   */
  async prepareForKept(): Promise<void> {
    const { cacheDirectory } = this.#options;
    const modules = cacheDirectory === undefined ? 0 : await countKept(cacheDirectory);
    if (modules > 0) this.expect(modules);
  }

  get memory(): MemoryFigures {
    return this.#tables.budget;
  }

  attendMemory(answer: (bytesWanted: number) => Promise<unknown>): void {
    this.#tables.budget.attend(answer);
  }

  holdMemory(bytes: number): () => void {
    return this.#tables.holdMemory(bytes);
  }

  async trim(): Promise<void> {
    await Promise.all(this.#started().map((executor) => executor.ask((call) => ({ kind: 'trim', call }))));
  }

  executorFigures(): ExecutorFigures {
    const executors = this.#tables.figuresOf((executorIndex) => this.#executors[executorIndex]?.underWay ?? 0);
    return { executors, replaced: this.#replaced, ringBytes: executors.length * Executor.ringBytes };
  }

  memoryByKind(): MemoryByKind {
    return this.#tables.memoryByKind();
  }

  executorOf(handle: number): number {
    return handle % this.executorCount;
  }

  prepare(bytes: Uint8Array): Promise<ModuleInfo> {
    return this.#modules.prepare(bytes);
  }

  describe(bytes: Uint8Array): Promise<ModuleInfo> {
    return this.#modules.describe(bytes);
  }

  complete(module: ModuleInfo): Promise<void> {
    return this.#modules.complete(module);
  }

  storedIs(hash: string, isStored: boolean): void {
    this.#loader.storedIs(hash, isStored);
  }

  keep(module: ModuleInfo): Disposable {
    return this.#modules.keep(module);
  }

  expect(canisters = 0): void {
    this.#loader.prepare();
    for (let executorIndex = 0; executorIndex < Math.min(canisters, this.executorCount); executorIndex++)
      this.#executorAt(executorIndex);
  }

  shareEnvironment(variables: ReadonlyMap<string, string>): void {
    this.#environment.share(variables);
  }

  attend(listener: ExecutionListener): void {
    this.#listener = listener;
  }

  create(spec: CanisterSpec): number {
    const handle = this.#canisters.add();
    const { executor } = this.#canisters.place(handle, spec.snapshotBelowBytes !== undefined);
    executor.send({ kind: 'create', handle, spec });
    return handle;
  }

  createAsleep(instantMs: number): number {
    const handle = this.#canisters.add();
    // A client may call the canister as soon as the server listens.
    this.#executorAt(this.executorOf(handle));
    this.#times.resume(handle, instantMs);
    return handle;
  }

  aheadOf(handle: number): number {
    return this.#times.aheadOf(handle);
  }

  async sleep(handle: number): Promise<void> {
    const placed = this.#canisters.of(handle);
    // Added now, because its settings may be changed before the executor has answered.
    this.#canisters.packed.add(handle, placed.module?.hash);
    this.#canisters.empty(placed);
    placed.isAsleep = true;
    // A thread that has died has dropped the canister, too.
    const isPacked = await this.#drop(handle, placed);
    if (!isPacked) this.#canisters.packed.delete(handle);
    // The canister may already be waking again.
    if (placed.isAsleep && this.#canisters.isStill(handle, placed)) this.#canisters.fellAsleep(handle);
  }

  /**
   * Makes the executor drop a canister, once the checkpoint's data is durable but for the last piece. Returns true if
   * the canister is kept packed.
   */
  async #drop(handle: number, placed: Placed): Promise<boolean> {
    const { executor } = placed;
    for (;;) {
      const isPreparing = !this.#isClosing;
      const said = await executor.askRest((call) => ({ kind: 'sleep', call, handle, isPreparing }));
      const answer = typeof said === 'object' && said.kind === 'asleep' ? said.answer : said;
      if (answer !== 'unready') return answer === 'packed';
      await this.#listener.settled();
      if (!this.#canisters.isStill(handle, placed)) return false;
    }
  }

  async wake(handle: number, { module, ...canister }: SleepingCanister): Promise<Replayed | undefined> {
    this.#canisters.packed.delete(handle);
    const answer = await this.#bring(handle, module, ({ executor }, hash) =>
      executor.askRest((call) => ({ kind: 'wake', call, handle, hash, canister })),
    );
    return typeof answer === 'object' && answer.kind === 'awake' ? answer.replayed : undefined;
  }

  async rouse(handle: number, canister: PackedFacts): Promise<boolean> {
    const { module, spec, settings, openCalls, timerNs, instantMs, heapBytes, stablePages } = canister;
    if (!this.#canisters.packed.delete(handle) || openCalls.length > 0) return false;
    const { status } = settings;
    const numbers = numbersOf(settings);
    const facts = { status, numbers, balance: spec.balance, timerNs, instantMs, heapBytes, stablePages };
    const answer = await this.#bring(handle, module, ({ executor }) =>
      executor.askRest((call) => ({ kind: 'rouse', call, handle, ...facts })),
    );
    return answer !== 'notPacked';
  }

  async #bring(
    handle: number,
    module: ModuleInfo | undefined,
    ask: (placed: Placed, hash: string | undefined) => Promise<PortMessage | RestAnswer | undefined>,
  ): Promise<PortMessage | RestAnswer> {
    const placed = this.#canisters.of(handle);
    const place = module === undefined ? undefined : this.#canisters.takePlace(placed, module);
    if (typeof place === 'string') throw tooManyHeaps(place);
    const hash = module === undefined ? undefined : this.#provide(placed.executor, module);
    placed.isAsleep = false;
    const answer = await ask(placed, hash);
    const problem = typeof answer === 'object' && answer.kind === 'awake' ? answer : undefined;
    const isSaid = answer === 'awake' || (problem !== undefined && problem.problem === undefined);
    // The canister's thread may have died since it answered.
    const isAwake = isSaid && !placed.isAsleep;
    place?.(isAwake);
    if (!isAwake) placed.isAsleep = true;
    if (answer === 'notPacked') return answer;
    if (problem?.problem !== undefined) throw unfit(problem.problem, problem.isShort);
    if (answer === undefined || !isAwake) throw threadStopped();
    return answer;
  }

  async checkpoint(handle: number, pause?: PieceWritten): Promise<void> {
    const placed = this.#canisters.of(handle);
    const { executor } = placed;
    await this.#prepareCheckpoint(handle, placed, pause);
    if (this.#isClosing || placed.isAsleep || !this.#canisters.isStill(handle, placed)) return;
    const answer = await executor.ask((call) => ({ kind: 'checkpoint', call, handle, isPreparing: false }));
    if (answer?.kind !== 'done') throw threadStopped();
  }

  /**
   * Writes a checkpoint piece by piece, each durable before the next: neither the canister's messages nor others'
   * commits wait long.
   */
  async #prepareCheckpoint(handle: number, { executor }: Placed, pause?: PieceWritten): Promise<void> {
    while (!this.#isClosing) {
      const startedMs = this.#clock.nowMs();
      const answer = await executor.ask((call) => ({ kind: 'checkpoint', call, handle, isPreparing: true }));
      if (answer?.kind !== 'done' || answer.isReady) return;
      await this.#listener.settled();
      await pause?.(this.#clock.nowMs() - startedMs);
    }
  }

  /** Stores one piece of each message at a time: so units stay small, and no more waits for the disk. */
  #storeAhead(handle: number, changes: readonly Uint8Array[], stored: () => void): void {
    this.#listener.changed(handle, changes);
    void this.#listener.settled().then(stored);
  }

  run(handle: number, task: Task, ended: (ended: EndedStep) => Promise<void> | void): void {
    this.#canisters.of(handle).executor.run(handle, this.#times.nowOf(handle), task, ended);
  }

  recall(handle: number, recall: Recall): void {
    this.#tables.recalls.set(this.executorOf(handle), handle, recall);
  }

  change(handle: number, module: ModuleInfo, change: CodeChange, ended: (ended: EndedStep) => void): void {
    const placed = this.#canisters.of(handle);
    const place = placed.isAsleep ? THREAD_STOPPED_TEXT : this.#canisters.takePlace(placed, module);
    if (typeof place === 'string') {
      queueMicrotask(() => ended(returnedTask(unavailableStep(place))));
      return;
    }
    const { executor } = placed;
    const hash = this.#provide(executor, module);
    const nowMs = this.#times.nowOf(handle);
    executor.request(
      (call) => ({ kind: 'install', call, handle, hash, change, nowMs }),
      (told) => {
        place(told.step.fault === undefined);
        ended(told);
      },
    );
  }

  async uninstall(handle: number): Promise<void> {
    const placed = this.#canisters.awake(handle);
    this.#canisters.empty(placed);
    const answer = await placed.executor.ask((call) => ({ kind: 'uninstall', call, handle }));
    if (answer?.kind !== 'done') throw threadStopped();
  }

  configure(handle: number, settings: CanisterSettings): void {
    this.#canisters.toChange(handle)?.send({ kind: 'configure', handle, settings });
  }

  giveFacts(handle: number, facts: GivenFacts): void {
    this.#canisters.toChange(handle)?.send({ kind: 'giveFacts', handle, facts });
  }

  async capture(handle: number, module: ModuleInfo | undefined): Promise<CanisterImage> {
    const answer = await this.#canisters.awake(handle).executor.ask((call) => ({ kind: 'capture', call, handle }));
    if (answer?.kind === 'notCaptured') throw unfit(answer.problem, answer.isShort);
    if (answer?.kind !== 'image') throw threadStopped();
    return { ...answer.image, module };
  }

  async restore(handle: number, image: CanisterImage): Promise<void> {
    const placed = this.#canisters.awake(handle);
    const { executor } = placed;
    const { module, ...state } = image;
    const place = module === undefined ? undefined : this.#canisters.takePlace(placed, module);
    if (typeof place === 'string') throw tooManyHeaps(place);
    const hash = module === undefined ? undefined : this.#provide(executor, module);
    const answer = await executor.ask((call) => ({ kind: 'restore', call, handle, image: state, hash }));
    const isDone = answer?.kind === 'restored' && answer.problem === undefined;
    place?.(isDone);
    if (module === undefined && isDone) this.#canisters.empty(placed);
    if (answer?.kind !== 'restored') throw threadStopped();
    if (answer.problem !== undefined) throw unfit(answer.problem, answer.isShort);
  }

  async addCycles(handle: number, amount: bigint): Promise<bigint> {
    const answer = await this.#canisters
      .awake(handle)
      .executor.ask((call) => ({ kind: 'addCycles', call, handle, amount }));
    if (answer?.kind !== 'balance') throw threadStopped();
    return answer.balance;
  }

  remove(handle: number): void {
    const placed = this.#canisters.of(handle);
    // A thread looks for recalled work, message by message, as long as one of its canisters is recalled.
    this.recall(handle, 'nothing');
    placed.executor.send({ kind: 'remove', handle });
    this.#canisters.empty(placed);
    this.#canisters.remove(handle);
    this.#times.forget(handle);
  }

  executing(): readonly Executing[] {
    return this.#started().flatMap((executor) =>
      [...executor.given].map(({ handle, nowMs, task }) => ({
        handle,
        what: task,
        sinceMs: nowMs - this.aheadOf(handle),
      })),
    );
  }

  refuseNew(): void {
    this.#isRefusing = true;
    for (const executor of this.#started()) executor.refuseNew();
  }

  async close(): Promise<void> {
    const checkpoints = Promise.allSettled(this.#canisters.live.map((handle) => this.checkpoint(handle)));
    // A piece that is being written then is not awaited either: a busy thread would make this an overrun.
    if (!(await within(this.#clock, CLOSING_CHECKPOINTS_MS_MAX, checkpoints)))
      this.#log.info('the time for checkpoints is over: the next start runs the rest from the logs');
    this.#isClosing = true;
    this.#tables.budget.unattend();
    const ended = Promise.all([this.#modules.close(), ...this.#started().map((executor) => executor.terminate())]);
    if (!(await within(this.#clock, CLOSING_THREADS_MS_MAX, ended)))
      this.#log.warn(`threads are still running ${CLOSING_THREADS_MS_MAX} ms after their end: the process ends them`);
  }

  /** Makes sure that an executor has a module; returns the module's name there. */
  #provide(executor: Executor, module: ModuleInfo): string {
    executor.provide(module.hash, this.#modules.codeOf(module));
    return module.hash;
  }

  /** Drops a module that nobody uses any more; a holder of its description may install it all the same. */
  #release(hash: string): void {
    this.#canisters.packed.forget(hash);
    for (const executor of this.#started()) executor.forget(hash);
  }

  #started(): readonly Executor[] {
    return this.#executors.filter((executor) => executor !== undefined);
  }

  #executorAt(executorIndex: number): Executor {
    return (this.#executors[executorIndex] ??= this.#startExecutor(executorIndex));
  }

  #startExecutor(executorIndex: number): Executor {
    const { wasmStackBytes, executors } = this.#options;
    const pieceSizes = this.#pieceSizes;
    const settings = {
      executorIndex,
      policy: this.#policy,
      wasmStackBytes,
      executors,
      pieceSizes,
      ...this.#tables.shared,
    };
    const events = {
      inTurn: (tell: () => Promise<void> | void) => this.#largeSteps.inTurn(tell),
      credited: (handle: number, balance: bigint) => this.#listener.credited(handle, balance),
      changed: (handle: number, changes: readonly Uint8Array[]) => this.#listener.changed(handle, changes),
      ahead: (handle: number, changes: readonly Uint8Array[], stored: () => void) =>
        this.#storeAhead(handle, changes, stored),
      certify: this.#environment.certify,
      bug: (message: string) => this.#log.error(`a message failed by the host's own fault: ${message}`),
      died: (reason: string) => this.#replace(executorIndex, reason),
    };
    const executor = new Executor(settings, events, this.#startThread);
    this.#environment.tell(executor);
    if (this.#isRefusing) executor.refuseNew();
    return executor;
  }

  #replace(executorIndex: number, reason: string): void {
    if (this.#isClosing) return;
    this.#tables.forget(executorIndex);
    this.#replaced++;
    const lost = this.#canisters.allIn(this.#executors[executorIndex]);
    const executor = this.#startExecutor(executorIndex);
    this.#executors[executorIndex] = executor;
    const kept = lost.filter(([, { isDurable }]) => isDurable).length;
    const fates = [
      ...(kept > 0 ? [`${kept} actor(s) come back from the state directory`] : []),
      ...(lost.length > kept ? [`${lost.length - kept} actor(s) answer 503 from now on`] : []),
    ];
    this.#log.error([`executor ${executorIndex} has stopped (${reason})`, ...fates].join(': '));
    for (const [handle, placed] of lost) {
      this.#canisters.empty(placed);
      if (placed.isDurable) {
        placed.executor = executor;
        placed.isAsleep = true;
      }
      this.#listener.lost(handle);
    }
  }
}

/** Listener of a pool whose canisters nobody attends to. */
const NOBODY: ExecutionListener = {
  changed: () => undefined,
  settled: () => Promise.resolve(),
  credited: () => undefined,
  lost: () => undefined,
};
