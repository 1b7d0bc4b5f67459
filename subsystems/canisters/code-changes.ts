/**
 * Changes of a canister's code: install, reinstall, upgrade.
 *
 * An upgrade happens between two messages, and what comes meanwhile waits for the new code. A canister with open calls is
 * stopped first, so that no callback comes back to code that does not know it, and started again afterwards, also when the
 * upgrade failed; what comes meanwhile is refused.
 */
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { Compatibility } from '../compatibility/index.ts';
import type { CodeChange, Execution } from '../execution/index.ts';
import { type Outcome, outcomeKindOf, type Step, type StepFault } from '../ic/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import { type CandidInterfaces, EMPTY_ARGUMENTS } from './candid-interfaces.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import type { MessageHistories } from './message-histories.ts';
import { InstallError, type InstallOptions, UpgradeError, type UpgradeOptions, type UpgradeReport } from './index.ts';
import { comparedCode, tellStableTypes } from './compared-code.ts';

const NOTHING = new Uint8Array(0);
/** Its presence says that a module finds its state in the heap that the module before it left (docs/modules.md). */
const PERSISTENCE_SECTION = 'enhanced-orthogonal-persistence';

export interface CodeChangesDependencies {
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly metering: Metering;
  readonly codec: Pick<Codec, 'untyped'>;
  readonly compatibility: Compatibility;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Logger;
  readonly interfaces: CandidInterfaces;
  readonly histories: MessageHistories;
}

/** A canister whose code is changed. */
type ChangingCanister = Pick<
  CanisterRecord,
  | 'name'
  | 'idHex'
  | 'handle'
  | 'code'
  | 'module'
  | 'givenCandid'
  | 'status'
  | 'storedStatus'
  | 'isRemoved'
  | 'changedOutside'
  | 'outputIfAny'
  | 'steps'
>;

/** .did texts for modules that carry none. */
export interface GivenInterface {
  /** What was given before. */
  readonly kept: string | undefined;
  /** What comes with the module, in place of that: it has to fit. */
  readonly fresh: string | undefined;
}

export class CodeChanges {
  readonly #with: CodeChangesDependencies;

  constructor(dependencies: CodeChangesDependencies) {
    this.#with = dependencies;
  }

  /** Checks a module and its interface: with the text that comes with it, or the one that was given before. */
  async prepare(name: string, wasm: Uint8Array, given: GivenInterface): Promise<RecordedCode> {
    const { interfaces, execution } = this.#with;
    const module = await execution.prepare(wasm);
    if (given.fresh !== undefined) return await interfaces.checked(name, { module, wasm }, given.fresh);
    return await interfaces.recorded(name, { module, wasm }, given.kept);
  }

  /** Large text is converted in a thread of the codec's. */
  async encodeArgument(candid: CandidInterface | undefined, argument: InstallOptions['argument']): Promise<Uint8Array> {
    const { codec } = this.#with;
    if (argument === undefined) return EMPTY_ARGUMENTS;
    if (argument instanceof Uint8Array) return argument;
    if (argument.kind === 'bytes') return argument.bytes;
    const bytes = typeof argument.text === 'string' ? Buffer.from(argument.text) : argument.text;
    const types = candid?.initArgs;
    if (argument.kind === 'candid') return await (types ?? codec.untyped).encodeTextAnySize(bytes);
    // Without types only the self-describing encoding says what a value is.
    if (types === undefined) return await codec.untyped.encodeAnySize(bytes, { lossless: true });
    return await types.encodeAnySize(bytes, { lossless: false });
  }

  /** Throws InstallError when a hook failed: nothing has changed then. `candidText` is given with the code. */
  async apply(record: ChangingCanister, code: RecordedCode, change: CodeChange, candidText?: string): Promise<Step> {
    const { step, lines } = await this.#run(record, code, change);
    if (step.fault !== undefined) {
      const { fault, instructions, charge } = step;
      throw new InstallError({ ...fault, kind: outcomeKindOf(fault.kind), instructions, charge }, lines);
    }
    if (candidText !== undefined) record.givenCandid = candidText;
    this.#take(record, code, change);
    return step;
  }

  /** As `apply`, for the management canister: the fault is a value. */
  async tryApply(record: ChangingCanister, code: RecordedCode, change: CodeChange): Promise<StepFault | undefined> {
    await this.#storeKeptHeap(record, change);
    const { step } = await this.#run(record, code, change);
    if (step.fault === undefined) this.#take(record, code, change);
    return step.fault;
  }

  #take(record: ChangingCanister, code: RecordedCode, change: CodeChange): void {
    if (change.mode === 'upgrade') tellStableTypes(this.#with.log, record, code.module);
    record.code = code;
  }

  /** A large heap that an upgrade keeps is stored before, piece by piece: all at once would hold up everybody's commits. */
  async #storeKeptHeap(record: ChangingCanister, change: CodeChange): Promise<void> {
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
    record: ChangingCanister,
    code: RecordedCode,
    change: CodeChange,
  ): Promise<{ readonly step: Step; readonly lines: readonly string[] }> {
    const { scheduler } = this.#with;
    const { handle } = record;
    const logged = record.outputIfAny?.log.length ?? 0;
    const startedMs = this.#with.clock.nowMs();
    const release = await scheduler.pin(handle);
    let step: Step;
    let lines: readonly string[];
    // No step follows that of the change before its lines are taken.
    const letGo = scheduler.lock(handle);
    const takeLines = record.steps.listen();
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
    if (step.fault === undefined && change.mode !== 'upgrade') record.outputIfAny?.log.forget(logged);
    // The new code's heap was seen when its hook could not be called yet.
    record.steps.checkMemory();
    return { step, lines };
  }

  #enter({ handle, isRemoved }: ChangingCanister, change: CodeChange, startedMs: number, step: Step): void {
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

  async upgrade(record: ChangingCanister, wasm: Uint8Array, options: UpgradeOptions): Promise<UpgradeReport> {
    const { candidText, isForced = false } = options;
    const code = await this.prepare(record.name, wasm, { kept: record.givenCandid, fresh: candidText });
    const keepsHeap = decidePersistence(record, code, options.persistence);
    const argument = await this.encodeArgument(code.candid, options.argument);
    const change: CodeChange = { mode: 'upgrade', keepsHeap, skipsPreUpgrade: false, argument, caller: options.caller };
    const { scheduler, compatibility, log } = this.#with;
    // Its messages go on meanwhile.
    const { name } = record;
    const compared = { name, from: comparedCode(record.code), to: comparedCode(code), isForced };
    const { refusal, warnings, stable, candid } = await compatibility.compare(compared);
    const report: UpgradeReport = {
      isUpgraded: false,
      module: { from: record.module?.hash, to: code.module.hash },
      stable,
      candid,
      persistence: keepsHeap ? 'keep' : 'replace',
      instructions: 0,
    };
    if (refusal !== undefined) {
      // Whoever runs the server can do something about that, and is not always who upgrades.
      if (refusal.code === 'upgrade-unverified') log.warn(`an upgrade of ${name} is refused: ${refusal.message}`);
      throw new UpgradeError(refusal, report);
    }
    await this.#storeKeptHeap(record, change);
    const wasRunning = record.status === 'running';
    const unlock = wasRunning ? await scheduler.lockBetweenMessages(record.handle) : undefined;
    const mustStop = wasRunning && unlock === undefined;
    if (mustStop) await this.#stopForUpgrade(record);
    try {
      const { instructions } = await this.apply(record, code, change, candidText);
      for (const warning of warnings) log.announce(`WARNING ${warning}`);
      return { ...report, isUpgraded: true, instructions };
    } catch (error) {
      if (!(error instanceof InstallError)) throw error;
      const { outcome, logs } = error;
      throw new InstallError(outcome, logs, { ...report, instructions: outcome.instructions });
    } finally {
      record.storedStatus = undefined;
      unlock?.();
      if (mustStop) scheduler.start(record.handle);
      if (wasRunning) record.steps.checkMemory();
    }
  }

  /** After a crash before its end, the canister runs. */
  async #stopForUpgrade(record: ChangingCanister): Promise<void> {
    record.storedStatus = 'running';
    try {
      await this.#with.scheduler.stop(record.handle);
    } catch (error) {
      record.storedStatus = undefined;
      record.changedOutside();
      throw error;
    }
  }
}

function decidePersistence(
  record: ChangingCanister,
  code: RecordedCode,
  wanted: UpgradeOptions['persistence'],
): boolean {
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
