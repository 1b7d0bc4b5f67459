/**
 * The canisters of this host, for the rest of the server: composed of those who find them (canister-directory.ts),
 * change them (deployments.ts), load them (stored-canister-loader.ts), account for them (accounting.ts) and start them
 * (started-actors.ts). Memories live in the executors, messages in the scheduler; this is what the main thread knows
 * without asking them.
 */
import { recordOf, type CanisterRecord } from './canister-record.ts';
import type { Clock, Logger } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import { CanisterIds, type MessageTrace, type Outcome } from '../ic/index.ts';
import type { ServiceStore } from '../cluster/index.ts';
import type { Compatibility } from '../compatibility/index.ts';
import type { Compiler } from '../compiler/index.ts';
import type { Execution } from '../execution/index.ts';
import type { Manifest } from '../manifest/index.ts';
import type { Metering } from '../metering/index.ts';
import type { HistogramFigures } from '../figures/index.ts';
import type { Rehearsal } from '../rehearsal/index.ts';
import { type KnownCall, notSupported, type Scheduler, type SchedulerSetup } from '../scheduler/index.ts';
import type { Storage } from '../storage/index.ts';
import { createAssetFolders } from '../assets/index.ts';
import { Accounting } from './accounting.ts';
import { CandidInterfaces } from './candid-interfaces.ts';
import { CanisterDirectory } from './canister-directory.ts';
import { OUTPUT_BYTES_MAX, TAKEN_BYTES_MAX } from './canister-output.ts';
import { CanisterStore } from './canister-store.ts';
import { CanisterWatches } from './canister-watches.ts';
import { ChangeTurns } from './change-turns.ts';
import { type CheckpointOptions, newReplayBudget } from './checkpoints.ts';
import { ClientMessages } from './client-messages.ts';
import { CanisterMaker } from './canister-maker.ts';
import { Deployments, refuseUnmetered } from './deployments.ts';
import { HostBackend } from './host-backend.ts';
import type {
  Canister,
  CanisterFailure,
  Canisters,
  CanisterWatcher,
  CausedMessage,
  ClientMessage,
  DebugLine,
  HistoryEntry,
  InstallOptions,
  OutputFollowing,
  OutputReader,
  RemoveOptions,
  StateCopy,
  UpgradeOptions,
  UpgradeReport,
} from './index.ts';
import { MessageHistories } from './message-histories.ts';
import { MessageTraces } from './message-traces.ts';
import { MovingCanisters } from './moving-canisters.ts';
import { NumberRows } from './number-rows.ts';
import { openMethods } from './open-methods.ts';
import { KeptPastActors } from './past-actors.ts';
import { OperatedCanisters } from './operator-requests.ts';
import { PreparedModules } from './prepared-modules.ts';
import { RehearsedUpgrades } from './rehearsed-upgrades.ts';
import type { ReplayBudget } from './replay-budget.ts';
import { ServiceNames } from './service-names.ts';
import { SharedBudget } from './shared-budget.ts';
import { SharedControllers } from './shared-values.ts';
import { StartedActors } from './started-actors.ts';
import { type LoggedCanister, STEP_NUMBERS } from './step-accounting.ts';
import { StateCopies } from './state-copies.ts';
import { StoredCanisterLoader } from './stored-canister-loader.ts';

interface CanisterServiceDependencies {
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly schedulerSetup: SchedulerSetup;
  readonly metering: Metering;
  readonly codec: Codec;
  readonly manifest: Manifest;
  readonly compiler: Pick<Compiler, 'compile' | 'sourcesOf'>;
  readonly compatibility: Compatibility;
  readonly rehearsal: Rehearsal;
  readonly storage: Storage;
  readonly service: ServiceStore;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface CanisterServiceOptions extends CheckpointOptions {
  /** Print each debug line to the log as well (`--verbose`). */
  readonly forwardDebugOutput: boolean;
  /** Not all canisters may be live at once. */
  readonly hasLiveLimit: boolean;
  /** Messages of each canister that are remembered; 0: none. */
  readonly historyEntries: number;
  /** Somebody takes up what differs between manifest and state: it need not be told. */
  readonly followsFiles: boolean;
}

export class CanisterService implements Canisters {
  readonly backend: HostBackend;
  readonly started: StartedActors;
  readonly operator: OperatedCanisters;
  readonly past: KeptPastActors;
  readonly moving: MovingCanisters;
  readonly #needs: CanisterServiceDependencies;
  readonly #directory: CanisterDirectory;
  readonly #histories: MessageHistories;
  readonly #traces: MessageTraces;
  readonly #replayBudget: ReplayBudget<LoggedCanister>;
  readonly #accounting: Accounting;
  readonly #messages: ClientMessages;
  readonly #interfaces: CandidInterfaces;
  readonly #deployments: Deployments;
  readonly #loader: StoredCanisterLoader;
  readonly #prepared: PreparedModules;
  readonly #copies: StateCopies;
  readonly #watches = new CanisterWatches();
  readonly #opened = { count: 0 };

  /** Throws ServerError `scheduler-unsupported` if a state is kept and the scheduler cannot keep its own. */
  constructor(dependencies: CanisterServiceDependencies, options: CanisterServiceOptions) {
    this.#needs = dependencies;
    const { execution, storage, scheduler } = dependencies;
    if (storage.isKept && !scheduler.supports.durability) throw notSupported('durability');
    const ids = new CanisterIds();
    const store = new CanisterStore(storage, ids, (hash, isStored) => execution.storedIs(hash, isStored));
    const histories = new MessageHistories(options.historyEntries);
    this.#histories = histories;
    const traces = new MessageTraces(dependencies.clock.nowMs());
    this.#traces = traces;
    this.#replayBudget = newReplayBudget(dependencies, options);
    const recordContext = {
      ...dependencies,
      store,
      replayBudget: this.#replayBudget,
      sharedControllers: new SharedControllers(),
      numberRows: new NumberRows(STEP_NUMBERS),
      forwardDebugOutput: options.forwardDebugOutput,
      watches: this.#watches,
      opened: this.#opened,
      outputBudget: new SharedBudget(OUTPUT_BYTES_MAX),
      takenBudget: new SharedBudget(TAKEN_BYTES_MAX),
    };
    const directory = new CanisterDirectory({ ...dependencies, ...options, ids, store, recordContext });
    this.#directory = directory;
    this.#interfaces = new CandidInterfaces(dependencies);
    this.#prepared = new PreparedModules(execution, dependencies.log);
    const turns = new ChangeTurns();
    const maker = new CanisterMaker({ ...dependencies, directory });
    const names = new ServiceNames({ ...dependencies, ids, store, directory });
    const known = { ...dependencies, store, directory, names, turns, maker };
    const parts = { ...known, histories, traces, interfaces: this.#interfaces };
    this.#accounting = new Accounting(parts);
    this.#messages = new ClientMessages({ ...dependencies, traces, accounting: this.#accounting });
    this.#loader = new StoredCanisterLoader(parts);
    this.#copies = new StateCopies({ ...parts, loader: this.#loader });
    const rehearsals = new RehearsedUpgrades({ ...dependencies, copies: this.#copies });
    this.#deployments = new Deployments({ ...parts, rehearsals });
    const { followsFiles } = options;
    const deployments = this.#deployments;
    const settled = (): Promise<void> => storage.settled();
    this.operator = new OperatedCanisters({ ...dependencies, deployments, settled });
    const folders = createAssetFolders();
    const { operator } = this;
    const started = {
      prepared: this.#prepared,
      deployments,
      messages: this.#messages,
      folders,
      followsFiles,
      operator,
      rehearsals,
    };
    this.started = new StartedActors({ ...parts, ...started });
    this.past = new KeptPastActors({ ...parts, deployments, settled, backend: () => this.backend });
    this.moving = new MovingCanisters({ ...parts, deployments, prepared: this.#prepared });
    this.backend = new HostBackend({ ...parts, deployments, accounting: this.#accounting });
  }

  /**
   * Hands out what others need of canisters: the scheduler, and a storage that has to wait for its state. Once, before
   * anything starts.
   */
  open(): void {
    const { storage, schedulerSetup } = this.#needs;
    storage.readAhead('module', this.#prepared);
    schedulerSetup.attachCanisters(this.#loader, this.#accounting);
  }

  get wakeSeconds(): HistogramFigures {
    return this.#loader.wakeSeconds;
  }

  get replaySeconds(): number {
    return this.#replayBudget.seconds;
  }

  // ---- finding

  resolveIfAny(reference: string): CanisterRecord | undefined {
    return this.#directory.resolveIfAny(reference);
  }

  resolve(reference: string): CanisterRecord {
    return this.#directory.resolve(reference);
  }

  referenceOfHost(label: string): string | undefined {
    return this.#directory.referenceOfHost(label);
  }

  list(): readonly CanisterRecord[] {
    return this.#directory.list();
  }

  // ---- interfaces

  async interfaceOf(canister: Canister): Promise<CandidInterface | undefined> {
    const record = recordOf(canister);
    await this.#interfaces.ask(record);
    return record.candid;
  }

  async giveInterface(canister: Canister, did: string): Promise<void> {
    const record = recordOf(canister);
    await this.#deployments.inTurn(record, () => this.#interfaces.give(record, did));
    await this.#needs.storage.settled();
  }

  // ---- open methods

  get haveOpenMethods(): boolean {
    return this.#opened.count > 0;
  }

  async setOpenMethods(canister: Canister, names: readonly string[]): Promise<void> {
    const record = recordOf(canister);
    // A module may tell its interface only when it is asked.
    await this.#interfaces.ask(record);
    await this.#deployments.inTurn(record, () => Promise.resolve(openMethods(record, names)));
    await this.#needs.storage.settled();
  }

  // ---- messages

  call(canister: Canister, message: ClientMessage): Promise<Outcome> {
    return this.#messages.call(recordOf(canister), message);
  }

  knownCall(canister: Canister, key: string): Promise<KnownCall | undefined> {
    const { scheduler } = this.#needs;
    if (scheduler.knownCall === undefined) throw notSupported('idempotencyKeys');
    return scheduler.knownCall(recordOf(canister).handle, key);
  }

  isAnswerKept(canister: Canister, key: string): boolean {
    const { scheduler } = this.#needs;
    if (scheduler.isAnswerKept === undefined) throw notSupported('idempotencyKeys');
    return scheduler.isAnswerKept(recordOf(canister).handle, key);
  }

  ask(canister: Canister, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome> {
    return this.#messages.ask(recordOf(canister), method, caller, argument);
  }

  // ---- life cycle

  install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<CanisterRecord> {
    return this.#deployments.install(name, moduleBytes, options);
  }

  async upgrade(
    canister: Canister,
    moduleBytes: Uint8Array | undefined,
    options: UpgradeOptions,
  ): Promise<UpgradeReport> {
    return await this.#deployments.upgrade(recordOf(canister), moduleBytes, options);
  }

  async reinstall(canister: Canister, moduleBytes: Uint8Array, options: InstallOptions): Promise<void> {
    await this.#deployments.reinstall(recordOf(canister), moduleBytes, options);
  }

  async stop(canister: Canister): Promise<void> {
    const { handle } = recordOf(canister);
    await this.#needs.scheduler.stop(handle);
    this.#watches.changed(handle);
    await this.#needs.storage.settled();
  }

  async start(canister: Canister): Promise<void> {
    const record = recordOf(canister);
    this.#needs.scheduler.start(record.handle);
    record.steps.checkMemory();
    this.#watches.changed(record.handle);
    await this.#needs.storage.settled();
  }

  async remove(canister: Canister, options: RemoveOptions = {}): Promise<void> {
    await this.#deployments.remove(recordOf(canister), options);
  }

  async addCycles(canister: Canister, amount: bigint): Promise<bigint> {
    refuseUnmetered(this.#needs.metering);
    const record = recordOf(canister);
    const balance = await this.backend.addCycles(record, amount);
    await this.#needs.storage.settled();
    return balance;
  }

  historyOf(canister: Canister, after = 0): Iterable<HistoryEntry> {
    return this.#histories.entriesOf(recordOf(canister).handle, after);
  }

  newTrace(): MessageTrace | undefined {
    return this.#histories.isOn ? this.#traces.next() : undefined;
  }

  messageIdOf(number: number): string {
    return this.#traces.idOf(number);
  }

  async messagesAround(id: string): Promise<readonly CausedMessage[] | undefined> {
    const number = this.#traces.numberOf(id);
    const root = number === undefined ? undefined : await this.#histories.rootOf(number);
    if (root === undefined) return undefined;
    const below = await this.#histories.below(root);
    return below.flatMap(({ handle, entry }) => {
      const canister = this.#directory.ifAny(handle);
      return canister === undefined ? [] : [{ canister, entry }];
    });
  }

  *latestFailures(): Iterable<CanisterFailure> {
    for (const { handle, entry } of this.#histories.failures()) {
      const canister = this.#directory.ifAny(handle);
      if (canister !== undefined) yield { canister, entry };
    }
  }

  takeLogs(canister: Canister): readonly DebugLine[] {
    return recordOf(canister).outputIfAny?.take() ?? [];
  }

  copyState(canister: Canister): Promise<StateCopy> {
    return this.#copies.copyOf(recordOf(canister));
  }

  watch(canister: Canister, watcher: CanisterWatcher): Disposable {
    return this.#watches.add(recordOf(canister).handle, watcher);
  }

  outputOf(canister: Canister, after: number): Iterable<DebugLine> {
    return recordOf(canister).outputIfAny?.linesAfter(after) ?? [];
  }

  readOutput(canister: Canister, reader: OutputReader, after: number): OutputFollowing {
    return recordOf(canister).output.read(reader, after);
  }

  followOutput(canister: Canister, reader: OutputReader, lastSeq?: number): OutputFollowing {
    return recordOf(canister).output.follow(reader, lastSeq);
  }
}
