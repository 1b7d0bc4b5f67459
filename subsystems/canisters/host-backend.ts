/**
 * Does for the management canister what only the host can do, by way of the directory, the scheduler and the executors.
 * The management canister decides who may ask.
 */
import { recordOf, type CanisterRecord } from './canister-record.ts';
import { hexOf, type Outcome, type StepFault, timerMsOf, WASM_PAGE_BYTES } from '../ic/index.ts';
import { NEVER_ABORTED, ServerError } from '../../kernel/index.ts';
import type { CanisterImage, CodeChange, Execution, ModuleInfo } from '../execution/index.ts';
import type {
  ManagementBackend,
  CanisterLogRecord,
  EndedOutcall,
  EnforcedSettings,
  GlobalValue,
  HostedCanister,
  HostedCode,
  ManagementHooks,
  NewCanister,
  RestoredState,
} from '../management/index.ts';
import type { Scheduler, SchedulerSetup } from '../scheduler/index.ts';
import type { Accounting } from './accounting.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterMaker } from './canister-maker.ts';
import type { ChangeTurns } from './change-turns.ts';
import type { Deployments } from './deployments.ts';
import { readGlobals, writeGlobals } from './globals-image.ts';

/** Who calls transforms. */
const MANAGEMENT = new Uint8Array(0);

interface HostBackendDependencies {
  readonly directory: CanisterDirectory;
  readonly deployments: Deployments;
  readonly maker: CanisterMaker;
  readonly accounting: Accounting;
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly schedulerSetup: SchedulerSetup;
  readonly turns: ChangeTurns;
}

export class HostBackend implements ManagementBackend {
  readonly #directory: CanisterDirectory;
  readonly #deployments: Deployments;
  readonly #maker: CanisterMaker;
  readonly #accounting: Accounting;
  readonly #execution: Execution;
  readonly #scheduler: Scheduler;
  readonly #schedulerSetup: SchedulerSetup;
  readonly #turns: ChangeTurns;
  /** Canisters in host code, by id in hex. */
  readonly #served = new Map<string, Pick<ManagementHooks, 'call'>>();

  constructor(needs: HostBackendDependencies) {
    this.#directory = needs.directory;
    this.#deployments = needs.deployments;
    this.#maker = needs.maker;
    this.#accounting = needs.accounting;
    this.#execution = needs.execution;
    this.#scheduler = needs.scheduler;
    this.#schedulerSetup = needs.schedulerSetup;
    this.#turns = needs.turns;
  }

  attach(management: ManagementHooks): void {
    this.#deployments.attach(management);
    this.#schedulerSetup.attach({
      serves: (id) => this.#served.has(hexOf(id)),
      call: ({ callee, ...call }) =>
        (this.#served.get(hexOf(callee)) ?? management).call({ ...call, senderIsCanister: true }),
    });
  }

  serve(id: Uint8Array, canister: Pick<ManagementHooks, 'call'>): void {
    this.#served.set(hexOf(id), canister);
  }

  find(id: Uint8Array): CanisterRecord | undefined {
    return this.#directory.find(id);
  }

  list(): readonly CanisterRecord[] {
    return this.#directory.list();
  }

  create(spec: NewCanister): CanisterRecord {
    if (spec.id !== undefined) this.#directory.ids.claim(spec.id);
    const id = spec.id ?? this.#directory.ids.next();
    const { controllers, environment } = spec.settings;
    const record = this.#maker.make({
      // Actors that actors made have no other name.
      name: hexOf(id),
      id,
      balance: spec.balance,
      controllers,
      environment: environment ?? new Map(),
    });
    this.#enforce(record, spec.settings);
    if (spec.isCertified === true) this.#deployments.giveFacts(record, { isCertified: true });
    return record;
  }

  configure(canister: HostedCanister, settings: EnforcedSettings): void {
    const record = recordOf(canister);
    this.#enforce(record, settings);
    this.#changed(record);
  }

  #enforce(record: CanisterRecord, settings: EnforcedSettings): void {
    record.settings = { ...record.settings, ...settings };
    if (settings.controllers !== undefined) record.controllers = settings.controllers;
    if (settings.environment !== undefined) record.environment = settings.environment;
    this.#execution.configure(record.handle, {
      controllers: record.controllers,
      env: record.environment,
      // 0 is no limit.
      heapBytesMax: record.settings.wasmMemoryLimit || Number.POSITIVE_INFINITY,
    });
    this.#scheduler.setMinimumCycles(record.handle, record.settings.minimumIncomingCanisterCallCycles ?? 0n);
    record.changedOutside();
    record.steps.checkMemory();
  }

  /** One more version, in the executor too, which counts on from there. */
  #changed(record: CanisterRecord): void {
    record.steps.version++;
    record.changedOutside();
    // A message that executes ends with the same version.
    record.noteChange();
    this.#execution.configure(record.handle, { version: record.version });
  }

  inTurn<T>(canister: HostedCanister, change: (deletion: AbortSignal) => Promise<T>): Promise<T> {
    return this.#turns.take(recordOf(canister), change);
  }

  prepare(wasm: Uint8Array): Promise<ModuleInfo> {
    return this.#execution.prepare(wasm);
  }

  change(
    canister: HostedCanister,
    code: HostedCode,
    change: CodeChange,
    deletion = NEVER_ABORTED,
  ): Promise<StepFault | undefined> {
    return this.#deployments.changeCode(recordOf(canister), code, change, deletion);
  }

  uninstall(canister: HostedCanister): Promise<void> {
    const record = recordOf(canister);
    return this.#awake(record, async () => {
      await this.#scheduler.uninstall(record.handle);
      record.emptied();
      this.#changed(record);
    });
  }

  /** Asks the canister's executor directly, while the canister is awake. */
  async #awake<T>(record: CanisterRecord, work: () => Promise<T>): Promise<T> {
    const release = await this.#scheduler.pin(record.handle);
    try {
      return await work();
    } finally {
      release();
    }
  }

  start(canister: HostedCanister): Promise<void> {
    const record = recordOf(canister);
    this.#scheduler.start(record.handle);
    record.steps.checkMemory();
    this.#changed(record);
    return Promise.resolve();
  }

  async stop(canister: HostedCanister): Promise<'stopped' | 'started' | 'removed'> {
    const record = recordOf(canister);
    try {
      this.#changed(record);
      await this.#scheduler.stop(record.handle);
      return 'stopped';
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      // One that still stops is about to be removed.
      return this.#directory.find(record.id) === record && record.status === 'running' ? 'started' : 'removed';
    }
  }

  remove(canister: HostedCanister): Promise<void> {
    this.#deployments.forget(recordOf(canister));
    return Promise.resolve();
  }

  addCycles(canister: HostedCanister, amount: bigint): Promise<bigint> {
    const record = recordOf(canister);
    // Cycles that no log tells of would be missing when the log is run again.
    return this.#awake(record, () => this.#execution.addCycles(record.handle, amount));
  }

  capture(canister: HostedCanister): Promise<CanisterImage> {
    const record = recordOf(canister);
    return this.#awake(record, () => this.#execution.capture(record.handle, record.module));
  }

  async restore(canister: HostedCanister, state: RestoredState): Promise<void> {
    const record = recordOf(canister);
    await this.#awake(record, () => this.#restore(record, state));
  }

  async #restore(record: CanisterRecord, state: RestoredState): Promise<void> {
    const { module } = state.image;
    const { wasm } = state;
    const code =
      module === undefined || wasm === undefined
        ? undefined
        : await this.#deployments.recorded(record, { module, wasm });
    // A message that came meanwhile would be told the entry points of the code before.
    const release = this.#scheduler.lock(record.handle);
    try {
      await this.#execution.restore(record.handle, state.image);
      if (code === undefined) record.emptied();
      else record.code = code;
      record.steps.setMemory(state.image.heap.length, state.image.stablePages * WASM_PAGE_BYTES);
      const timerMs = state.timerNs === undefined ? undefined : timerMsOf(state.timerNs);
      this.#scheduler.restored(record.handle, module, timerMs);
    } finally {
      release();
    }
    if (state.lowMemoryHook !== undefined) record.steps.lowMemoryHook = state.lowMemoryHook;
    this.#changed(record);
    record.steps.checkMemory();
  }

  readGlobals(image: CanisterImage): readonly GlobalValue[] {
    return image.module === undefined ? [] : readGlobals(image.module, image.globals);
  }

  writeGlobals(module: ModuleInfo, values: readonly GlobalValue[]): Uint8Array {
    return writeGlobals(module, values);
  }

  async transform(canister: HostedCanister, method: string, argument: Uint8Array): Promise<Outcome> {
    const record = recordOf(canister);
    const message = { kind: 'transform', method, caller: MANAGEMENT, argument } as const;
    // The message is counted, and in no history.
    const noted = { ...message, argument: MANAGEMENT, argumentBytes: argument.length, startedMs: 0 };
    return await this.#scheduler.deliver(record.handle, { ...message, noted });
  }

  outcallEnded(canister: HostedCanister, outcall: EndedOutcall, outcome: Outcome): void {
    const record = recordOf(canister);
    if (this.#directory.find(record.id) === record) this.#accounting.outcallEnded(record, outcall, outcome);
  }

  logs(canister: HostedCanister): readonly CanisterLogRecord[] {
    return recordOf(canister).outputIfAny?.log.records ?? [];
  }
}
