/**
 * Changes of a canister's code: install, reinstall, upgrade.
 *
 * An upgrade happens between two messages. A canister with open calls is stopped first, so that no callback comes back
 * to code that does not know it, and started again afterwards, also when the upgrade failed.
 */
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { CodeChange, Execution, ModuleInfo } from '../execution/index.ts';
import { type Outcome, outcomeKindOf, type Step, type StepFault } from '../ic/index.ts';
import type { Metering } from '../metering/index.ts';
import type { HostedCode } from '../management/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import type { MessageHistories } from './message-histories.ts';
import { InstallError, type InstallOptions, type UpgradeOptions } from './index.ts';

const NOTHING = new Uint8Array(0);
const EMPTY_ARGUMENTS = Uint8Array.of(0x44, 0x49, 0x44, 0x4c, 0, 0);
/** Its presence says that a module finds its state in the heap that the module before it left (docs/modules.md). */
const PERSISTENCE_SECTION = 'enhanced-orthogonal-persistence';

export interface CodeChangesDependencies {
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly metering: Metering;
  readonly codec: Codec;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Logger;
  readonly histories: MessageHistories;
}

export class CodeChanges {
  readonly #with: CodeChangesDependencies;
  /** Of modules whose interface is their own, or which have none. */
  readonly #recorded = new WeakMap<ModuleInfo, RecordedCode>();

  constructor(dependencies: CodeChangesDependencies) {
    this.#with = dependencies;
  }

  /** Checks a module and its interface; `givenCandid` is for modules that carry none. */
  async prepare(name: string, wasm: Uint8Array, givenCandid: string | undefined): Promise<RecordedCode> {
    const module = await this.#with.execution.prepare(wasm);
    return this.recorded(name, { module, wasm }, givenCandid);
  }

  /** The same object for a thousand actors of one module, and so its bytes once. */
  recorded(name: string, { module, wasm }: HostedCode, givenCandid: string | undefined): RecordedCode {
    const known = this.#recorded.get(module);
    const isGiven = module.candid === undefined && givenCandid !== undefined;
    if (known !== undefined && !isGiven) return known;
    const code = { module, wasm: known?.wasm ?? wasm, ...this.#interfaceOf(name, module, givenCandid) };
    if (!isGiven) this.#recorded.set(module, code);
    return code;
  }

  /**
   * The interface: what the module carries, else the given text. A module whose own does not parse still serves raw
   * calls; a given text is the operator's, so a mistake in it is refused with its place.
   */
  #interfaceOf(
    name: string,
    module: ModuleInfo,
    givenCandid: string | undefined,
  ): Pick<RecordedCode, 'candid' | 'candidProblem'> {
    const { codec, log } = this.#with;
    if (module.candid === undefined) {
      const candid = givenCandid === undefined ? undefined : codec.parseInterface(givenCandid);
      return { candid, candidProblem: undefined };
    }
    try {
      return { candid: codec.parseInterface(module.candid, module.candidArgs), candidProblem: undefined };
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      log.warn(`${name}: the module's Candid interface does not parse, only raw calls work: ${error.message}`);
      return { candid: undefined, candidProblem: error.message };
    }
  }

  encodeArgument(candid: CandidInterface | undefined, argument: InstallOptions['argument']): Uint8Array {
    const { codec } = this.#with;
    if (argument === undefined) return EMPTY_ARGUMENTS;
    if (argument instanceof Uint8Array) return argument;
    switch (argument.kind) {
      case 'bytes':
        return argument.bytes;
      case 'candid':
        return (candid?.initArgs ?? codec).encodeText(argument.text);
      case 'json':
        // Without types only the self-describing encoding says what a value is.
        if (candid?.initArgs === undefined) return codec.untyped.encode(Buffer.from(argument.text), { lossless: true });
        return candid.initArgs.encode(Buffer.from(argument.text), { lossless: false });
    }
  }

  /** Throws InstallError when a hook failed: nothing has changed then. */
  async apply(record: CanisterRecord, code: RecordedCode, change: CodeChange): Promise<void> {
    const { step, lines } = await this.#run(record, code, change);
    if (step.fault !== undefined) {
      const { fault, instructions, charge } = step;
      throw new InstallError({ ...fault, kind: outcomeKindOf(fault.kind), instructions, charge }, lines);
    }
    record.code = code;
  }

  /** As `apply`, for the management canister: the fault is a value. */
  async tryApply(record: CanisterRecord, code: RecordedCode, change: CodeChange): Promise<StepFault | undefined> {
    await this.#storeKeptHeap(record, change);
    const { step } = await this.#run(record, code, change);
    if (step.fault === undefined) record.code = code;
    return step.fault;
  }

  /** A large heap that an upgrade keeps is stored before, piece by piece: all at once would hold up everybody's commits. */
  async #storeKeptHeap(record: CanisterRecord, change: CodeChange): Promise<void> {
    if (change.mode !== 'upgrade' || !change.keepsHeap) return;
    const { execution, scheduler } = this.#with;
    const release = await scheduler.pin(record.handle);
    try {
      await execution.checkpoint(record.handle);
    } finally {
      release();
    }
  }

  /** What came of it, and what its hooks printed. */
  async #run(
    record: CanisterRecord,
    code: RecordedCode,
    change: CodeChange,
  ): Promise<{ readonly step: Step; readonly lines: readonly string[] }> {
    const { scheduler } = this.#with;
    const { handle } = record;
    const logged = record.logLength;
    const startedMs = this.#with.clock.nowMs();
    const release = await scheduler.pin(handle);
    let step: Step;
    let lines: readonly string[];
    // No step follows that of the change before its lines are taken.
    const letGo = scheduler.lock(handle);
    const takeLines = record.listen();
    try {
      step = await scheduler.change(handle, code.module, change);
    } finally {
      lines = takeLines();
      letGo();
      release();
    }
    this.#enter(record, change, startedMs, step);
    // Nothing ran; the last step was another.
    if (step.fault?.kind === 'unavailable') lines = [];
    // A canister that starts afresh keeps of its log what its new code printed (docs/execution-rules.md, "Changes of code").
    if (step.fault === undefined && change.mode !== 'upgrade') record.forgetLog(logged);
    // The new code's heap was seen when its hook could not be called yet.
    record.checkMemory();
    return { step, lines };
  }

  #enter({ handle, isRemoved }: CanisterRecord, change: CodeChange, startedMs: number, step: Step): void {
    if (isRemoved) return;
    const { argument, caller, mode } = change;
    const { fault, instructions, charge } = step;
    const outcome: Outcome =
      fault === undefined
        ? { kind: 'reply', data: NOTHING, instructions, charge }
        : { ...fault, kind: outcomeKindOf(fault.kind), instructions, charge };
    const kind = mode === 'upgrade' ? 'upgrade' : 'install';
    const ended = { kind, method: '', caller, argument, argumentBytes: argument.length, startedMs } as const;
    this.#with.histories.add(handle, ended, outcome, this.#with.clock.nowMs());
  }

  async upgrade(record: CanisterRecord, wasm: Uint8Array, options: UpgradeOptions): Promise<void> {
    const code = await this.prepare(record.name, wasm, record.givenCandid);
    const keepsHeap = decidePersistence(record, code, options.persistence);
    const argument = options.argument ?? EMPTY_ARGUMENTS;
    const change: CodeChange = { mode: 'upgrade', keepsHeap, skipsPreUpgrade: false, argument, caller: options.caller };
    const { scheduler } = this.#with;
    // Its messages go on meanwhile.
    await this.#storeKeptHeap(record, change);
    const wasRunning = record.status === 'running';
    if (wasRunning) await this.#stopForUpgrade(record);
    try {
      await this.apply(record, code, change);
    } finally {
      record.keptStatus = undefined;
      if (wasRunning) {
        scheduler.start(record.handle);
        record.checkMemory();
      }
    }
  }

  /** After a crash before its end, the canister runs. */
  async #stopForUpgrade(record: CanisterRecord): Promise<void> {
    record.keptStatus = 'running';
    try {
      await this.#with.scheduler.stop(record.handle);
    } catch (error) {
      record.keptStatus = undefined;
      record.changedOutside();
      throw error;
    }
  }
}

function decidePersistence(record: CanisterRecord, code: RecordedCode, wanted: UpgradeOptions['persistence']): boolean {
  const isOld = record.module?.metadata.has(PERSISTENCE_SECTION) ?? false;
  const isNew = code.module.metadata.has(PERSISTENCE_SECTION);
  if (wanted === 'replace') return false;
  if (wanted === 'keep' || isOld) {
    if (isNew) return true;
    throw new ServerError(
      'invalid',
      'upgrade-loses-heap',
      `${record.name} keeps its state in its heap, and the new module would not find it there: compile the module with ` +
        'enhanced orthogonal persistence, or give up the state with ?mode=reinstall on /install',
    );
  }
  return false;
}
