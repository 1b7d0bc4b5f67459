/**
 * The canisters of this host: who they are, how they are found, and their numbers as of the last ended message.
 * Memories live in the executors, messages in the scheduler; this is what the main thread knows without asking them.
 */
import { recordOf, type NewRecord, type CanisterRecord, type RecordedCode } from './canister-record.ts';
import { assert, type Clock, type Logger, messageOf, ServerError, suggestionFor } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import { type CallKind, type NotedMessage, type Outcome, type StepFault, CanisterIds } from '../ic/index.ts';
import type { Compatibility } from '../compatibility/index.ts';
import type { Compiler } from '../compiler/index.ts';
import type { CodeChange, Execution, PieceWritten } from '../execution/index.ts';
import type { Manifest } from '../manifest/index.ts';
import type { EndedOutcall, HostedCode, ManagementHooks } from '../management/index.ts';
import type { Metering } from '../metering/index.ts';
import type { HistogramFigures } from '../figures/index.ts';
import { NOTED_ARGUMENT_BYTES_MAX, type Loader, type Scheduler, type SchedulerSetup } from '../scheduler/index.ts';
import type { Storage } from '../storage/index.ts';
import { Accounting } from './accounting.ts';
import { CandidInterfaces } from './candid-interfaces.ts';
import { OUTPUT_BYTES_MAX } from './canister-output.ts';
import { CanisterDirectory } from './canister-directory.ts';
import { CanisterWatches } from './canister-watches.ts';
import { CanisterStore } from './canister-store.ts';
import { CodeChanges, type GivenInterface } from './code-changes.ts';
import { upgrade } from './upgrade.ts';
import {
  type Canister,
  type Canisters,
  type CanisterWatcher,
  type ClientMessage,
  type DebugLine,
  type HistoryEntry,
  type InstallOptions,
  type ManifestActors,
  type OutputFollowing,
  type OutputReader,
  methodMissing,
  quotedName,
  refuseInternal,
  type RemoveOptions,
  type UpgradeOptions,
  type UpgradeReport,
} from './index.ts';
import { type InstalledManifest, installManifest } from './install-manifest.ts';
import { newCandid } from './manifest-files.ts';
import { NumberRows } from './number-rows.ts';
import { PreparedModules } from './prepared-modules.ts';
import { type Recovery, recoverCanisters } from './recover-canisters.ts';
import { HostBackend } from './host-backend.ts';
import { MessageHistories } from './message-histories.ts';
import { outcallText } from './outcall-text.ts';
import { ReplayBudget } from './replay-budget.ts';
import { SharedBudget } from './shared-budget.ts';
import { SharedControllers } from './shared-values.ts';
import { type LoggedCanister, STEP_NUMBERS } from './step-accounting.ts';
import { StoredCanisterLoader } from './stored-canister-loader.ts';

/** docs/running.md, "Names and ids". */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

export interface CanisterServiceDependencies {
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly schedulerSetup: SchedulerSetup;
  readonly metering: Metering;
  readonly codec: Codec;
  readonly manifest: Manifest;
  readonly compiler: Pick<Compiler, 'compile' | 'sourcesOf'>;
  readonly compatibility: Compatibility;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface CanisterServiceOptions {
  /** Print each debug line to the log as well (`--verbose`). */
  readonly forwardDebugOutput: boolean;
  /** Bytes of heap up to which what a message changed is stored, above what it depended on. */
  readonly snapshotBelowBytes: number;
  /** Seconds that running all logs again may take. */
  readonly replayBudgetSecs: number;
  /** Not all canisters may be live at once. */
  readonly hasLiveLimit: boolean;
  /** Messages of each canister that are remembered; 0: none. */
  readonly historyEntries: number;
  /** Somebody takes up what differs between manifest and state: it need not be told. */
  readonly followsFiles: boolean;
}

export class CanisterService implements Canisters {
  readonly directory: CanisterDirectory;
  readonly host: HostBackend;
  readonly #with: CanisterServiceDependencies;
  readonly #keeper: CanisterStore;
  readonly #histories: MessageHistories;
  readonly replayBudget: ReplayBudget<LoggedCanister>;
  readonly #accounting: Accounting;
  readonly #interfaces: CandidInterfaces;
  readonly #changes: CodeChanges;
  readonly #sleep: StoredCanisterLoader;
  readonly #prepared: PreparedModules;
  #manifest: InstalledManifest | undefined;
  /** Canisters that were stored and are to be woken. */
  #recovery: Recovery | undefined;
  #isEnding = false;
  readonly #followsFiles: boolean;
  #management: ManagementHooks | undefined;
  /** Names that an installation under way will take. */
  readonly #installing = new Set<string>();
  readonly #rejected = new Map<string, string>();
  readonly #watches = new CanisterWatches();

  /** The manifest's actors as their files are. There are none before the manifest is installed. */
  readonly manifestActors: ManifestActors = {
    names: () => this.#manifest?.files.names() ?? [],
    filesOf: (name) => this.#manifestFiles.filesOf(name),
    reload: (name) => this.#manifestFiles.reload(name),
  };

  constructor(dependencies: CanisterServiceDependencies, options: CanisterServiceOptions) {
    this.#with = dependencies;
    this.#histories = new MessageHistories(options.historyEntries);
    this.#followsFiles = options.followsFiles;
    this.#interfaces = new CandidInterfaces(dependencies);
    this.#changes = new CodeChanges({ ...dependencies, interfaces: this.#interfaces, histories: this.#histories });
    const { execution, scheduler, storage } = dependencies;
    const ids = new CanisterIds();
    this.#keeper = new CanisterStore(storage, ids, (hash, isStored) => execution.storedIs?.(hash, isStored));
    this.replayBudget = new ReplayBudget<LoggedCanister>({
      clock: dependencies.clock,
      // With 0 the operator wants nothing but the log.
      seconds: options.snapshotBelowBytes === 0 ? Number.POSITIVE_INFINITY : options.replayBudgetSecs,
      checkpoint: ({ handle }, pause) => this.#checkpoint(handle, pause),
      report: ({ name, handle }, error) => {
        // One that was deleted meanwhile has no log to shorten.
        if (this.directory.ifAny(handle) === undefined) return;
        dependencies.log.warn(`${name} could not be checkpointed: ${messageOf(error)}`);
      },
    });
    const recordContext = {
      ...dependencies,
      keeper: this.#keeper,
      replayBudget: this.replayBudget,
      sharedControllers: new SharedControllers(),
      numberRows: new NumberRows(STEP_NUMBERS),
      forwardDebugOutput: options.forwardDebugOutput,
      watches: this.#watches,
      outputBudget: new SharedBudget(OUTPUT_BYTES_MAX),
    };
    this.directory = new CanisterDirectory({ ...dependencies, ...options, ids, keeper: this.#keeper, recordContext });
    this.host = new HostBackend({ directory: this.directory, changes: this, execution, scheduler });
    this.#accounting = new Accounting({
      ...dependencies,
      directory: this.directory,
      keeper: this.#keeper,
      histories: this.#histories,
    });
    this.#sleep = new StoredCanisterLoader({ ...dependencies, directory: this.directory });
    this.#prepared = new PreparedModules(execution, dependencies.log);
  }

  /** Hands out what others need of canisters: the scheduler, and a storage that has to wait for its state. Once, before anything starts. */
  open(): void {
    this.#with.storage.readAhead?.('module', this.#prepared);
    const loader: Loader = {
      wake: (handle, scheduled) => this.#sleep.wake(this.directory.get(handle), scheduled),
      sleep: (handle) => {
        const record = this.directory.get(handle);
        this.#histories.compact(handle);
        record.outputIfAny?.compact();
        return this.#sleep.sleep(record);
      },
      bytesOf: (handle) => this.directory.get(handle).heapBytes + this.directory.get(handle).stableBytes,
      heapBytesOf: (handle) => this.directory.get(handle).heapBytes,
    };
    this.#with.schedulerSetup.attachCanisters(loader, this.#accounting);
  }

  noteOutcall(record: CanisterRecord, outcall: EndedOutcall, outcome: Outcome): void {
    if (!this.#histories.isOn) return;
    const argument = outcallText(outcall);
    const { startedMs, endedMs } = outcall;
    const ended = { kind: 'outcall', method: 'http_request', caller: record.id, startedMs } as const;
    this.#histories.add(record.handle, { ...ended, argument, argumentBytes: argument.length }, outcome, endedMs);
  }

  /** Calls of canisters to the management canister go there, and every change of a canister passes by it. */
  attach(management: ManagementHooks): void {
    assert(this.#management === undefined, 'there is a management canister already');
    this.#management = management;
    this.#with.schedulerSetup.attach({
      call: ({ sender, method, argument, cycles, isQuery }) =>
        management.call({ sender, senderIsCanister: true, method, argument, cycles, isQuery }),
    });
  }

  /** Keeps the canisters' histories, and one change of a canister at a time. */
  get management(): ManagementHooks {
    assert(this.#management !== undefined, 'the management canister was not handed over before the start');
    return this.#management;
  }

  get wakeSeconds(): HistogramFigures {
    return this.#sleep.wakeSeconds;
  }

  get replaySeconds(): number {
    return this.replayBudget.seconds;
  }

  // ---- finding

  resolveIfAny(reference: string): CanisterRecord | undefined {
    const found = this.directory.findByName(reference);
    const reason = found === undefined ? this.#rejected.get(reference) : found.damage;
    if (reason !== undefined) throw rejected(reference, reason);
    return found;
  }

  resolve(reference: string): CanisterRecord {
    const found = this.resolveIfAny(reference);
    if (found !== undefined) return found;
    throw new ServerError(
      'missing',
      'actor-missing',
      `there is no actor ${quotedName(reference)}${suggestionFor(reference, this.directory.names()) || ': GET /actors lists the actors'}`,
    );
  }

  referenceOfHost(label: string): string | undefined {
    return this.directory.referenceOfHost(label);
  }

  list(): readonly CanisterRecord[] {
    return this.directory.list();
  }

  find(id: Uint8Array): CanisterRecord | undefined {
    return this.directory.find(id);
  }

  // ---- interfaces

  async interfaceOf(canister: Canister): Promise<CandidInterface | undefined> {
    const record = recordOf(canister);
    await this.#interfaces.ask(record);
    return record.candid;
  }

  async giveInterface(canister: Canister, did: string): Promise<void> {
    const record = recordOf(canister);
    await this.#exclusive(record, () => this.#interfaces.give(record, did));
    await this.#with.storage.settled();
  }

  // ---- calling

  async call(canister: Canister, message: ClientMessage): Promise<Outcome> {
    const record = recordOf(canister);
    const { kind, method, caller, argument, addressedBy, idempotencyKey, startedMs } = message;
    refuseUnlessCallable(record, kind, method, caller);
    const argumentBytes = argument.length;
    const histories = this.#histories;
    const cameMs = startedMs ?? (histories.isOn ? this.#with.clock.nowMs() : 0);
    // A large argument is handed over.
    const remembered =
      argumentBytes <= NOTED_ARGUMENT_BYTES_MAX
        ? argument
        : argument.slice(0, histories.isOn ? NOTED_ARGUMENT_BYTES_MAX : 0);
    const coming = { kind, method, caller, argument: remembered, argumentBytes, startedMs: cameMs, addressedBy };
    // Not awaited here: a repeat may wait for long, and this frame would keep its argument as long.
    const delivered = { kind, method, caller, argument, idempotencyKey, noted: coming };
    return this.#told(record, coming, this.#with.scheduler.deliver(record.handle, delivered));
  }

  async #told(record: CanisterRecord, noted: NotedMessage, delivered: Promise<Outcome>): Promise<Outcome> {
    const outcome = await delivered;
    if (outcome.kind === 'unavailable') throwIfRejected(record);
    else this.#accounting.told(record, noted, outcome);
    return outcome;
  }

  async ask(canister: Canister, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome> {
    const record = recordOf(canister);
    refuseUnlessCallable(record, 'query', method, caller);
    const message = { kind: 'query', method, caller, argument } as const;
    const noted = { ...message, argumentBytes: argument.length, startedMs: 0 };
    const outcome = await this.#with.scheduler.deliver(record.handle, { ...message, noted });
    if (outcome.kind === 'unavailable') throwIfRejected(record);
    return outcome;
  }

  // ---- life cycle

  async install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<CanisterRecord> {
    if (options.cycles !== undefined) this.#refuseUnmetered();
    const { candidText } = options;
    const record = await this.place(name, moduleBytes, options, { kept: undefined, fresh: candidText });
    await Promise.all([this.#with.storage.settled(), this.interfaceOf(record)]);
    return record;
  }

  /** As `install`, without waiting for it to be durable; an interface that does not fit everywhere is taken, too. */
  async place(
    name: string,
    moduleBytes: Uint8Array,
    options: InstallOptions,
    given: GivenInterface = { kept: options.candidText, fresh: undefined },
  ): Promise<CanisterRecord> {
    if (!NAME.test(name)) {
      throw new ServerError(
        'invalid',
        'actor-name-bad',
        `${quotedName(name)} cannot be the name of an actor: a name is a letter or _, then up to 63 letters, digits, _ or -`,
      );
    }
    if (this.#installing.has(name) || this.directory.findByName(name) !== undefined) {
      throw new ServerError('invalid', 'actor-exists', `${name} is already installed: use POST /upgrade/${name}`);
    }
    this.#installing.add(name);
    try {
      const code = await this.#changes.prepare(name, moduleBytes, given);
      const argument = await this.#changes.encodeArgument(code.candid, options.argument);
      const record = this.create({
        name,
        id: options.id,
        balance: options.cycles,
        controllers: [options.caller],
        environment: options.env ?? new Map(),
        isInstalled: true,
      });
      record.givenCandid = options.candidText;
      this.#giveCertificate(record, options);
      record.readFiles = options.readFiles;
      await this.#exclusive(record, async () => {
        try {
          await this.#changes.apply(record, code, { mode: 'install', argument, caller: options.caller });
        } catch (error) {
          this.forget(record);
          throw error;
        }
      });
      this.#rejected.delete(name);
      this.#noteDeployment(record, 'install', options.caller);
      return record;
    } finally {
      this.#installing.delete(name);
    }
  }

  async upgrade(
    canister: Canister,
    moduleBytes: Uint8Array | undefined,
    options: UpgradeOptions,
  ): Promise<UpgradeReport> {
    const record = recordOf(canister);
    const files = moduleBytes === undefined ? await record.readFiles?.(record.name) : undefined;
    const bytes = moduleBytes ?? files?.module;
    if (bytes === undefined) throw new ServerError('invalid', 'no-wasm-recorded', 'no wasm recorded for that actor');
    const report = await upgrade(
      {
        ...this.#with,
        changes: this.#changes,
        inTurn: (change) => this.#exclusive(record, change),
        isDone: () => this.#giveCertificate(record, options),
      },
      record,
      bytes,
      { ...options, candidText: options.candidText ?? newCandid(record, files) },
    );
    this.#noteDeployment(record, 'upgrade', options.caller);
    await Promise.all([this.#with.storage.settled(), this.interfaceOf(record)]);
    return report;
  }

  async reinstall(canister: Canister, moduleBytes: Uint8Array, options: InstallOptions): Promise<void> {
    const record = recordOf(canister);
    const { caller, candidText } = options;
    const given = { kept: record.givenCandid, fresh: candidText };
    const code = await this.#changes.prepare(record.name, moduleBytes, given);
    const argument = await this.#changes.encodeArgument(code.candid, options.argument);
    const change = { mode: 'reinstall', endsCalls: true, argument, caller } as const;
    await this.#exclusive(record, async () => {
      await this.#changes.apply(record, code, change, candidText);
      this.#giveCertificate(record, options);
    });
    this.#noteDeployment(record, 'reinstall', caller);
    await Promise.all([this.#with.storage.settled(), this.interfaceOf(record)]);
  }

  #giveCertificate(record: CanisterRecord, { hasCertificate = false }: { readonly hasCertificate?: boolean }): void {
    if (!hasCertificate || record.hasCertificate) return;
    record.giveCertificate();
    this.#with.execution.giveCertificate(record.handle);
  }

  /** As the management canister changes code: the fault is a value. */
  async changeCode(record: CanisterRecord, code: HostedCode, change: CodeChange): Promise<StepFault | undefined> {
    return await this.#changes.tryApply(record, await this.recorded(record, code), change);
  }

  recorded(record: CanisterRecord, code: HostedCode): Promise<RecordedCode> {
    return this.#interfaces.recorded(record.name, code, record.givenCandid);
  }

  async stop(canister: Canister): Promise<void> {
    const { handle } = recordOf(canister);
    await this.#with.scheduler.stop(handle);
    this.#watches.changed(handle);
    await this.#with.storage.settled();
  }

  async start(canister: Canister): Promise<void> {
    const record = recordOf(canister);
    this.#with.scheduler.start(record.handle);
    record.steps.checkMemory();
    this.#watches.changed(record.handle);
    await this.#with.storage.settled();
  }

  async remove(canister: Canister, { endsCalls = false }: RemoveOptions = {}): Promise<void> {
    const record = recordOf(canister);
    if (endsCalls) await this.#end(record);
    else {
      // At once, too: an upgrade may be waiting for it to stop.
      this.#refuseUnlessStopped(record);
      await this.#exclusive(record, () => {
        this.#refuseUnlessStopped(record);
        this.forget(record);
        return Promise.resolve();
      });
    }
    await this.#with.storage.settled();
  }

  /** Its calls end with it: one unit has all of that, or nothing. */
  async #end(record: CanisterRecord): Promise<void> {
    const { scheduler } = this.#with;
    const isThere = this.directory.find(record.id) === record;
    // At once: whoever changes it now, or waits for it to stop, would hold this up.
    const letGoOn = isThere ? scheduler.beginDeletion(record.handle) : () => undefined;
    try {
      await this.#exclusive(record, async () => {
        const letGo = scheduler.lock(record.handle);
        try {
          await scheduler.endCalls(record.handle);
          this.forget(record);
        } finally {
          letGo();
        }
      });
    } catch (error) {
      // One that was being installed is gone with its installation.
      if (!isThere || !record.isRemoved) throw error;
    } finally {
      letGoOn();
    }
  }

  #refuseUnlessStopped(record: CanisterRecord): void {
    const { storedStatus: status } = record;
    if (status !== 'stopped') {
      throw new ServerError(
        'invalid',
        'actor-not-stopped',
        `${record.name} is ${status}: POST /stop/${record.name} first, or end its open calls with ?force=true`,
      );
    }
  }

  /** In turn with the changes that canisters make through the management canister. */
  #exclusive<T>(record: CanisterRecord, change: () => Promise<T>): Promise<T> {
    const changeIfPresent = async (): Promise<T> => {
      if (this.directory.find(record.id) === record) return await change();
      throw new ServerError('missing', 'actor-missing', `actor ${record.name} has been deleted meanwhile`);
    };
    return this.management.exclusive(record, changeIfPresent);
  }

  #noteDeployment(record: CanisterRecord, mode: 'install' | 'reinstall' | 'upgrade', caller: Uint8Array): void {
    const moduleHash = Buffer.from(record.module?.hash ?? '', 'hex');
    const details = { kind: 'codeDeployment', mode, moduleHash } as const;
    this.management.record(record, { origin: { kind: 'user', id: caller }, details });
  }

  /** An empty canister. */
  create(spec: NewRecord): CanisterRecord {
    const { execution, scheduler, metering } = this.#with;
    const id = spec.id ?? this.directory.ids.next();
    const balance = metering.policy.isEnabled ? (spec.balance ?? metering.policy.startingCycles) : 0n;
    const { name, controllers, environment } = spec;
    const record = this.directory.recordFor({ name, id, balance, controllers, environment }, spec.isInstalled);
    record.handle = execution.create(this.directory.specOf(record));
    // Before it is admitted: the scheduler asks for its size then.
    this.directory.enter(record);
    scheduler.admit(record.handle, record.idText);
    this.#keeper.identityChanged(record);
    return record;
  }

  /** It is gone, with its code and its state. */
  forget(record: CanisterRecord): void {
    this.#with.scheduler.withdraw(record.handle);
    this.#with.execution.remove(record.handle);
    record.removed();
    this.#keeper.removed(record);
    this.directory.leave(record);
    this.#histories.forget(record.handle);
    record.outputIfAny?.end();
    this.management.forget(record);
  }

  #refuseUnmetered(): void {
    if (this.#with.metering.policy.isEnabled) return;
    throw new ServerError(
      'invalid',
      'metering-off',
      'metering is off (--cycles 0 or --no-metering): there is no balance to add to',
    );
  }

  async addCycles(canister: Canister, amount: bigint): Promise<bigint> {
    this.#refuseUnmetered();
    const record = recordOf(canister);
    const balance = await this.host.addCycles(record, amount);
    await this.#with.storage.settled();
    return balance;
  }

  historyOf(canister: Canister): Iterable<HistoryEntry> {
    return this.#histories.entriesOf(recordOf(canister).handle);
  }

  takeLogs(canister: Canister): readonly DebugLine[] {
    return recordOf(canister).outputIfAny?.take() ?? [];
  }

  watch(canister: Canister, watcher: CanisterWatcher): Disposable {
    return this.#watches.add(recordOf(canister).handle, watcher);
  }

  followOutput(canister: Canister, reader: OutputReader, lastSeq?: number): OutputFollowing {
    return recordOf(canister).output.follow(reader, lastSeq);
  }

  /** Installs what the manifest names, in its order; a name that will not load is announced (`REJECTED <name> <reason>`) and the rest serve. */
  async installManifest(progress: (note: string) => void, signal: AbortSignal): Promise<void> {
    // Without it nothing starts, even if nobody would miss it yet.
    const { management } = this;
    this.#recovery = this.#keeper.isKept
      ? await recoverCanisters(
          {
            ...this.#with,
            directory: this.directory,
            management,
            interfaces: this.#interfaces,
            prepared: this.#prepared,
            signal,
          },
          progress,
        )
      : undefined;
    this.#manifest = await installManifest(
      {
        ...this.#with,
        canisters: {
          place: (...given) => this.place(...given),
          named: (name) => this.directory.findByName(name),
          isRejected: (name) => this.#rejected.has(name),
          upgrade: (...given) => this.upgrade(...given),
          giveCertificate: (record) => this.#giveCertificate(record, { hasCertificate: true }),
        },
        ids: this.directory.ids,
        signal,
        share: async (environment) => {
          this.#with.execution.shareEnvironment(environment);
          await this.#recovery?.bringBack();
        },
      },
      progress,
      (name, reason) => this.reject(name, reason),
    );
    await this.#with.storage.settled();
  }

  /** What a start leaves for later: wakes those that were stored and did not have to be awake, and deletes modules that nobody uses. */
  finishStart(): void {
    const recovery = this.#recovery;
    this.#recovery = undefined;
    if (recovery !== undefined) void this.#finishStart(recovery);
  }

  async #finishStart(recovery: Recovery): Promise<void> {
    const isOver = (): boolean => this.#isEnding;
    await recovery.bringBackRest(isOver);
    const { log } = this.#with;
    try {
      const count = await this.#keeper.deleteLeftModules(isOver);
      if (count > 0) log.info(`deleted ${count} module(s) from the state that no actor uses`);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (!this.#isEnding) log.warn(`modules that no actor uses cannot be looked for: ${error.message}`);
    }
  }

  /** The one that is being woken is not waited for. */
  drain(): void {
    this.#isEnding = true;
  }

  /** Says which actors that were there before have another module in the manifest by now. */
  async compareManifest(): Promise<void> {
    const manifest = this.#manifest;
    if (manifest === undefined) return;
    // The comparison holds the whole manifest: it is done once.
    const { compare, files } = manifest;
    this.#manifest = { files, compare: async () => undefined };
    if (!this.#followsFiles) await compare();
  }

  get #manifestFiles(): ManifestActors {
    assert(this.#manifest !== undefined, 'the manifest is installed');
    return this.#manifest.files;
  }

  async #checkpoint(handle: number, pause: PieceWritten): Promise<void> {
    const { execution, scheduler, storage } = this.#with;
    const release = await scheduler.pin(handle);
    try {
      await execution.checkpoint(handle, pause);
      await storage.settled();
    } finally {
      release();
    }
  }

  /** A canister that is not there, and why. */
  reject(name: string, reason: string): void {
    this.#rejected.set(name, reason);
    this.#with.log.announce(`REJECTED ${name} ${reason}`);
  }
}

function refuseUnlessCallable(record: CanisterRecord, kind: CallKind, method: string, caller: Uint8Array): void {
  const exported = record.module?.methods.get(method);
  if (exported === undefined) throw methodMissing(record, method);
  if (kind === 'query' && exported === 'update') {
    throw new ServerError(
      'invalid',
      'method-not-a-query',
      `${method} is an update method: use /call or /call-json instead`,
    );
  }
  if (kind === 'update' && exported === 'composite_query') {
    throw new ServerError(
      'invalid',
      'method-only-a-query',
      `${method} is a composite query: use /query or /query-json instead`,
    );
  }
  refuseInternal(record, method, caller);
}

/** Whoever calls it first finds the damage, and is told what all others are. */
function throwIfRejected({ name, damage }: CanisterRecord): void {
  if (damage !== undefined) throw rejected(name, damage);
}

function rejected(reference: string, reason: string): ServerError {
  return new ServerError('missing', 'actor-rejected', `actor ${reference} was rejected: ${reason}`);
}
