/** Changes of a canister's code: install, reinstall, upgrade. What comes before an upgrade is in `upgrade.ts`. */
import type { Clock, Logger } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { CodeChange, Execution } from '../execution/index.ts';
import { type Outcome, outcomeKindOf, type Step, type StepFault } from '../ic/index.ts';
import type { Metering } from '../metering/index.ts';
import type { ChangedCode, CodeLocks } from '../scheduler/index.ts';
import { type CandidInterfaces, EMPTY_ARGUMENTS } from './candid-interfaces.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import type { MessageHistories } from './message-histories.ts';
import type { MessageTraces } from './message-traces.ts';
import { InstallError, type InstallOptions } from './index.ts';
import { tellStableTypes } from './compared-code.ts';
import { NO_BYTES } from '../bytes/index.ts';

export interface CodeChangesDependencies {
  readonly execution: Execution;
  readonly scheduler: CodeLocks;
  readonly metering: Metering;
  readonly codec: Pick<Codec, 'untyped'>;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Logger;
  readonly interfaces: CandidInterfaces;
  readonly histories: MessageHistories;
  readonly traces: MessageTraces;
}

/** A canister whose code is changed. */
export type ChangingCanister = Pick<
  CanisterRecord,
  'name' | 'idHex' | 'handle' | 'code' | 'module' | 'givenCandid' | 'status' | 'isRemoved' | 'outputIfAny' | 'steps'
>;

/** .did texts for modules that carry none. */
export interface GivenInterface {
  /** The interface that was given before. */
  readonly kept: string | undefined;
  /** The interface that comes with the module, in its place: this one has to fit. */
  readonly fresh: string | undefined;
}

export class CodeChanges {
  readonly #needs: CodeChangesDependencies;

  constructor(dependencies: CodeChangesDependencies) {
    this.#needs = dependencies;
  }

  /** Checks a module and its interface: with the text that comes with it, or the one that was given before. */
  async prepare(name: string, wasm: Uint8Array, given: GivenInterface): Promise<RecordedCode> {
    const { interfaces, execution } = this.#needs;
    const module = await execution.prepare(wasm);
    if (given.fresh !== undefined) return await interfaces.checked(name, { module, wasm }, given.fresh);
    return await interfaces.recorded(name, { module, wasm }, given.kept);
  }

  /** Large text is converted in a thread of the codec's. */
  async encodeArgument(candid: CandidInterface | undefined, argument: InstallOptions['argument']): Promise<Uint8Array> {
    const { codec } = this.#needs;
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
  async tryApply(
    record: ChangingCanister,
    code: RecordedCode,
    change: CodeChange,
    deletion: AbortSignal,
  ): Promise<StepFault | undefined> {
    await this.storeKeptHeap(record, change, deletion);
    const { step } = await this.#run(record, code, change);
    if (step.fault === undefined) this.#take(record, code, change);
    return step.fault;
  }

  #take(record: ChangingCanister, code: RecordedCode, change: CodeChange): void {
    if (change.mode === 'upgrade') tellStableTypes(this.#needs.log, record, code.module);
    record.code = code;
  }

  /**
   * A large heap that an upgrade keeps is stored before, piece by piece: all at once would hold up everybody's commits.
   * Rejects with the reason of `deletion` once that is aborted.
   */
  async storeKeptHeap(record: ChangingCanister, change: CodeChange, deletion: AbortSignal): Promise<void> {
    if (change.mode !== 'upgrade' || !change.keepsHeap) return;
    const { execution, scheduler } = this.#needs;
    const release = await scheduler.pin(record.handle);
    try {
      await execution.checkpoint(record.handle, async () => deletion.throwIfAborted());
    } finally {
      release();
    }
  }

  /** Runs the change; returns its result and the lines that its hooks printed. */
  async #run(
    record: ChangingCanister,
    code: RecordedCode,
    change: CodeChange,
  ): Promise<{ readonly step: Step; readonly lines: readonly string[] }> {
    const { scheduler } = this.#needs;
    const { handle } = record;
    const logged = record.outputIfAny?.log.length ?? 0;
    const startedMs = this.#needs.clock.nowMs();
    const release = await scheduler.pin(handle);
    let changed: ChangedCode;
    // No message of the new code prints before what the old one printed is forgotten.
    const unlock = scheduler.lock(handle);
    try {
      changed = await scheduler.change(handle, code.module, change);
    } finally {
      unlock();
      release();
    }
    const { step, lines } = changed;
    this.#enter(record, change, startedMs, step);
    // A canister that starts afresh keeps of its log what its new code printed (docs/execution-rules.md, "Changes of
    // code").
    if (step.fault === undefined && change.mode !== 'upgrade') record.outputIfAny?.log.forget(logged);
    // The new code's heap was seen when its hook could not be called yet.
    record.steps.checkMemory();
    return { step, lines: lines.map(({ text }) => text) };
  }

  #enter({ handle, isRemoved }: ChangingCanister, change: CodeChange, startedMs: number, step: Step): void {
    if (isRemoved) return;
    const { argument, caller, mode } = change;
    const { fault, instructions, charge } = step;
    const outcome: Outcome =
      fault === undefined
        ? { kind: 'reply', data: NO_BYTES, instructions, charge }
        : { ...fault, kind: outcomeKindOf(fault.kind), instructions, charge };
    const kind = mode === 'upgrade' ? 'upgrade' : 'install';
    const trace = this.#needs.traces.next();
    const ended = { kind, method: '', caller, argument, argumentBytes: argument.length, startedMs, trace } as const;
    this.#needs.histories.add(handle, ended, outcome, this.#needs.clock.nowMs());
  }
}
