/**
 * One upgrade of one canister, over HTTP or by its file: checked first, while the canister serves, then applied between
 * two messages. What comes meanwhile waits for the new code.
 *
 * A canister with open calls is paused first, so that no callback comes back to code that does not know it, and resumed
 * afterwards, also when the upgrade failed; what comes meanwhile is refused. Nobody waits for that in the canister's
 * turn for changes: the open call may be one that waits for its own turn (`update_settings` of itself).
 */
import { type Logger, NEVER_ABORTED, ServerError, unlessAborted } from '../../kernel/index.ts';
import type { Compatibility, UpgradeFindings } from '../compatibility/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { Rehearsal, RehearsalReport } from '../rehearsal/index.ts';
import type { CodeLocks } from '../scheduler/index.ts';
import type { RecordedCode } from './canister-record.ts';
import type { ChangingCanister, CodeChanges } from './code-changes.ts';
import { comparedCode } from './compared-code.ts';
import { InstallError, UpgradeError, type UpgradeOptions, type UpgradeReport } from './index.ts';
import type { NextUpgrade } from './rehearsed-upgrades.ts';

/** A section whose presence says that a module finds its state in the heap of the module before (docs/modules.md). */
const PERSISTENCE_SECTION = 'enhanced-orthogonal-persistence';

/** Codes of errors that say of a rehearsal that there is nothing to rehearse with. */
const NOTHING_TO_REHEARSE: ReadonlySet<string> = new Set([
  'actor-empty',
  'rehearsal-off',
  'timeline-off',
  'timeline-damaged',
]);

/** An upgrade that nothing speaks against. */
interface CheckedUpgrade extends NextUpgrade {
  readonly findings: UpgradeFindings;
}

export interface UpgradeNeeds {
  readonly changes: Pick<CodeChanges, 'prepare' | 'encodeArgument' | 'storeKeptHeap' | 'apply'>;
  readonly scheduler: Pick<CodeLocks, 'lockBetweenMessages' | 'pause' | 'resume'>;
  readonly compatibility: Compatibility;
  /** Tries an upgrade on copies; rejects as `Rehearsal` does. */
  readonly rehearse: (next: NextUpgrade, messages: number, signal: AbortSignal) => Promise<RehearsalReport>;
  readonly judge: Rehearsal['judge'];
  readonly log: Logger;
  /** Runs `change` in turn with other changes of the canister. */
  readonly inTurn: <T>(change: (deletion: AbortSignal) => Promise<T>) => Promise<T>;
  /** Called in the turn in which the new code has taken over. */
  readonly isDone: () => void;
}

/**
 * Throws what a module, its argument or its interface is refused for, UpgradeError and InstallError with their reports,
 * and ServerError `stop-failed`.
 */
export async function upgrade(
  needs: UpgradeNeeds,
  record: ChangingCanister,
  wasm: Uint8Array,
  options: UpgradeOptions,
): Promise<UpgradeReport> {
  const upgrading = new Upgrade(needs, record, wasm, options);
  if (options.isDry === true) return await upgrading.tried();
  for (;;) {
    const report = await needs.inTurn((deletion) => upgrading.attempt(deletion));
    if (report !== undefined) return report;
    await upgrading.pause();
  }
}

class Upgrade {
  readonly #needs: UpgradeNeeds;
  readonly #record: ChangingCanister;
  readonly #wasm: Uint8Array;
  readonly #options: UpgradeOptions;
  #hasPaused = false;
  /** With the code that was compared, which another change may have replaced by now. */
  #compared: { readonly from: RecordedCode | undefined; readonly findings: UpgradeFindings } | undefined;
  /** With the module that it began with. */
  #rehearsal: { readonly from: ModuleInfo | undefined; readonly report: RehearsalReport } | undefined;

  constructor(needs: UpgradeNeeds, record: ChangingCanister, wasm: Uint8Array, options: UpgradeOptions) {
    this.#needs = needs;
    this.#record = record;
    this.#wasm = wasm;
    this.#options = options;
  }

  /** Tries the upgrade on copies; nothing waits for that. */
  async tried(): Promise<UpgradeReport> {
    const { isUnwanted = NEVER_ABORTED } = this.#options;
    return await this.#rehearsed(await this.#checked(isUnwanted), isUnwanted);
  }

  async pause(): Promise<void> {
    await this.#needs.scheduler.pause(this.#record.handle);
    this.#hasPaused = true;
  }

  /**
   * Undefined: calls of the canister are open, it has to be paused first. One that this upgrade has paused runs again
   * in any other case.
   */
  async attempt(deletion: AbortSignal): Promise<UpgradeReport | undefined> {
    const { scheduler } = this.#needs;
    const record = this.#record;
    let isOver = true;
    try {
      const report = await this.#attempt(deletion);
      isOver = report !== undefined;
      return report;
    } finally {
      if (isOver && !record.isRemoved) {
        if (this.#hasPaused) scheduler.resume(record.handle);
        if (record.status === 'running') record.steps.checkMemory();
      }
    }
  }

  async #attempt(deletion: AbortSignal): Promise<UpgradeReport | undefined> {
    const { changes, scheduler, log } = this.#needs;
    const record = this.#record;
    const { candidText } = this.#options;
    const checked = await this.#checked(deletion);
    const { code, change, findings } = checked;
    const warnings = [...findings.warnings];
    const report = await this.#rehearsed(checked, deletion).catch((error: unknown) => {
      warnings.push(this.#withoutRehearsal(error, deletion));
      return this.#reportOf(checked);
    });
    warnings.push(...this.#judged(report));
    await changes.storeKeptHeap(record, change, deletion);
    // A stopped one, too: somebody may start it before the change begins.
    const unlock = await scheduler.lockBetweenMessages(record.handle, { pauses: true });
    if (unlock === undefined) return undefined;
    try {
      const { instructions } = await changes.apply(record, code, change, candidText);
      this.#needs.isDone();
      for (const warning of warnings) log.announce(`WARNING ${warning}`);
      return { ...report, isUpgraded: true, instructions };
    } catch (error) {
      if (!(error instanceof InstallError)) throw error;
      const { outcome, logs } = error;
      throw new InstallError(outcome, logs, { ...report, instructions: outcome.instructions });
    } finally {
      unlock();
    }
  }

  /** Prepares and compares the code: the canister's messages go on meanwhile. Rejects as `upgrade` does. */
  async #checked(deletion: AbortSignal): Promise<CheckedUpgrade> {
    const { changes, log } = this.#needs;
    const record = this.#record;
    const { candidText, caller, persistence } = this.#options;
    const given = { kept: record.givenCandid, fresh: candidText };
    const code = await unlessAborted(deletion, changes.prepare(record.name, this.#wasm, given));
    const keepsHeap = decidePersistence(record, code, persistence);
    const encoding = changes.encodeArgument(code.candid, this.#options.argument);
    const argument = await unlessAborted(deletion, encoding);
    const change: NextUpgrade['change'] = { mode: 'upgrade', keepsHeap, skipsPreUpgrade: false, argument, caller };
    const findings = await unlessAborted(deletion, this.#compare(code));
    const { refusal } = findings;
    if (refusal !== undefined) {
      // The operator can do something about that, and is not always the one who upgrades.
      if (refusal.code === 'upgrade-unverified')
        log.warn(`an upgrade of ${record.name} is refused: ${refusal.message}`);
      throw new UpgradeError(refusal, this.#reportOf({ code, change, findings }));
    }
    return { code, change, findings };
  }

  #reportOf({ code, change: { keepsHeap }, findings: { stable, candid } }: CheckedUpgrade): UpgradeReport {
    return {
      isUpgraded: false,
      module: { from: this.#record.module?.hash, to: code.module.hash },
      stable,
      candid,
      persistence: keepsHeap ? 'keep' : 'replace',
      instructions: 0,
    };
  }

  /** Adds what a rehearsal has shown, if one is asked for. An upgrade that begins again was rehearsed before. */
  async #rehearsed(checked: CheckedUpgrade, deletion: AbortSignal): Promise<UpgradeReport> {
    const { rehearse = 0, isDry = false } = this.#options;
    const report = this.#reportOf(checked);
    if (rehearse === 0 && !isDry) return report;
    const { module: from } = this.#record;
    if (this.#rehearsal?.from !== from) {
      this.#rehearsal = { from, report: await this.#needs.rehearse(checked, rehearse, deletion) };
    }
    return { ...report, rehearsal: this.#rehearsal?.report };
  }

  /** Returns the warning of an upgrade that goes on without rehearsal. Throws the error where it must not. */
  #withoutRehearsal(error: unknown, deletion: AbortSignal): string {
    const { isForced = false } = this.#options;
    if (deletion.aborted || !(error instanceof ServerError)) throw error;
    if (!isForced && !NOTHING_TO_REHEARSE.has(error.code)) throw error;
    return `${this.#record.name} was upgraded without rehearsal: ${error.message}`;
  }

  /** Returns warnings of a rehearsal. Throws UpgradeError if the new code fails where the old one answered. */
  #judged(report: UpgradeReport): readonly string[] {
    if (report.rehearsal === undefined) return [];
    const { isForced = false } = this.#options;
    const { refusal, warnings } = this.#needs.judge(this.#record.name, report.rehearsal, isForced);
    if (refusal !== undefined) throw new UpgradeError(refusal, report);
    return warnings;
  }

  async #compare(code: RecordedCode): Promise<UpgradeFindings> {
    const { name, code: from } = this.#record;
    if (this.#compared !== undefined && this.#compared.from === from) return this.#compared.findings;
    const { isForced = false } = this.#options;
    const findings = await this.#needs.compatibility.compare({
      name,
      from: comparedCode(from),
      to: comparedCode(code),
      isForced,
    });
    this.#compared = { from, findings };
    return findings;
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
