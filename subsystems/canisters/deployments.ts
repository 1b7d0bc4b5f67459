/**
 * Actors come, change and go, as operators and other actors ask for it: installed, upgraded, reinstalled, deleted. One
 * change of an actor at a time, in turn with the changes that the management canister makes (change-turns.ts).
 *
 * Main thread. Touches records, and has executors and scheduler follow.
 */
import { assert, ServerError, unlessAborted } from '../../kernel/index.ts';
import type { Compatibility } from '../compatibility/index.ts';
import type { CodeChange, Execution } from '../execution/index.ts';
import { type GivenFacts, NO_FACTS, type StepFault, withFacts } from '../ic/index.ts';
import type { HostedCode, ManagementHooks } from '../management/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Admission, CodeLocks } from '../scheduler/index.ts';
import type { CandidInterfaces } from './candid-interfaces.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterMaker } from './canister-maker.ts';
import type { CanisterRecord, NewRecord, RecordedCode } from './canister-record.ts';
import type { CanisterStore } from './canister-store.ts';
import type { ChangeTurns } from './change-turns.ts';
import { type CodeChangesDependencies, CodeChanges, type GivenInterface } from './code-changes.ts';
import {
  type InstallOptions,
  quotedName,
  type RemoveOptions,
  type UpgradeOptions,
  type UpgradeReport,
} from './index.ts';
import { newCandid } from './manifest-files.ts';
import type { ServiceNames } from './service-names.ts';
import type { RehearsedUpgrades } from './rehearsed-upgrades.ts';
import { upgrade } from './upgrade.ts';

/** docs/running.md, "Names and ids". */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

interface DeploymentsNeeds extends CodeChangesDependencies {
  readonly scheduler: Admission & CodeLocks;
  readonly execution: Execution;
  readonly directory: CanisterDirectory;
  readonly maker: CanisterMaker;
  readonly names: ServiceNames;
  readonly store: Pick<CanisterStore, 'removed' | 'settled'>;
  readonly interfaces: CandidInterfaces;
  readonly compatibility: Compatibility;
  readonly turns: ChangeTurns;
  readonly rehearsals: RehearsedUpgrades;
}

/** Makes a canister with that id; undefined: the next one of this host. */
type Making = (id: Uint8Array | undefined) => Promise<CanisterRecord>;

export class Deployments {
  readonly #needs: DeploymentsNeeds;
  readonly #changes: CodeChanges;
  #management: ManagementHooks | undefined;
  /** Names that an installation under way will take. */
  readonly #installing = new Set<string>();

  constructor(needs: DeploymentsNeeds) {
    this.#needs = needs;
    this.#changes = new CodeChanges(needs);
  }

  /** Every change of a canister passes by the management canister. */
  attach(management: ManagementHooks): void {
    assert(this.#management === undefined, 'there is a management canister already');
    this.#management = management;
  }

  /** Keeps the canisters' histories. */
  get management(): ManagementHooks {
    assert(this.#management !== undefined, 'the management canister was not handed over before the start');
    return this.#management;
  }

  // ---- what operators ask for

  async install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<CanisterRecord> {
    if (options.cycles !== undefined) refuseUnmetered(this.#needs.metering);
    const { candidText } = options;
    const record = await this.place(name, moduleBytes, options, { kept: undefined, fresh: candidText });
    await this.#settled(record);
    return record;
  }

  /** Checks the module, its interface and the argument of an installation, and installs nothing. */
  async prepared(
    name: string,
    moduleBytes: Uint8Array,
    { argument }: Pick<InstallOptions, 'argument'>,
    given: GivenInterface,
  ): Promise<{ readonly code: RecordedCode; readonly argument: Uint8Array }> {
    const code = await this.#changes.prepare(name, moduleBytes, given);
    return { code, argument: await this.#changes.encodeArgument(code.candid, argument) };
  }

  /** As `install`, without waiting for it to be durable; an interface that does not fit everywhere is taken, too. */
  async place(
    name: string,
    moduleBytes: Uint8Array,
    options: InstallOptions,
    given: GivenInterface = { kept: options.candidText, fresh: undefined },
  ): Promise<CanisterRecord> {
    const { log, metering } = this.#needs;
    // A manifest may be for several servers; whoever asks for cycles by hand is refused.
    if (options.cycles !== undefined && !metering.policy.isEnabled)
      log.announce(`WARNING ${name} gets no cycles: metering is off (--cycles 0 or --no-metering)`);
    return await this.#taking(name, options.id, async (id) => {
      const { code, argument } = await this.prepared(name, moduleBytes, options, given);
      const record = this.#needs.maker.make({
        name,
        id,
        balance: options.cycles,
        controllers: [options.caller, ...(options.controllers ?? [])],
        environment: options.env ?? new Map(),
        facts: withFacts(NO_FACTS, options),
        givenCandid: options.candidText,
        readFiles: options.readFiles,
        isInstalled: true,
      });
      await this.#filled(record, async () => {
        await this.#changes.apply(record, code, { mode: 'install', argument, caller: options.caller });
      });
      this.#noteDeployment(record, 'install', options.caller);
      return record;
    });
  }

  /** Makes an actor whose code and state `fill` puts in place; nothing of it stays if that fails. */
  async placeFilled(
    name: string,
    spec: Omit<NewRecord, 'name' | 'isInstalled'>,
    caller: Uint8Array,
    fill: (record: CanisterRecord) => Promise<void>,
  ): Promise<CanisterRecord> {
    return await this.#taking(name, spec.id, async (id) => {
      const record = this.#needs.maker.make({ ...spec, name, id, isInstalled: true });
      await this.#filled(record, () => fill(record));
      this.#noteDeployment(record, 'install', caller);
      return record;
    });
  }

  /** Nothing of an actor that is made with its code stays, if that fails. */
  async #filled(record: CanisterRecord, fill: () => Promise<void>): Promise<void> {
    await this.inTurn(record, async () => {
      try {
        await fill();
      } catch (error) {
        this.forget(record);
        throw error;
      }
    });
    this.#needs.directory.accept(record.name);
  }

  /**
   * Makes an actor of that name. `reserved`: an id that nobody else has for that name. Throws ServerError
   * `actor-name-bad`, `actor-exists`.
   */
  async #taking(name: string, reserved: Uint8Array | undefined, make: Making): Promise<CanisterRecord> {
    if (!NAME.test(name)) {
      throw new ServerError(
        'invalid',
        'actor-name-bad',
        `${quotedName(name)} cannot be the name of an actor: a name is a letter or _, then up to 63 letters, digits, _ or -`,
      );
    }
    if (this.#installing.has(name) || this.#needs.directory.findByName(name) !== undefined) {
      throw new ServerError('invalid', 'actor-exists', `${name} is already installed: use POST /upgrade/${name}`);
    }
    this.#installing.add(name);
    try {
      return await (this.#needs.names.isShared ? this.#takingOfAll(name, reserved, make) : make(reserved));
    } finally {
      this.#installing.delete(name);
    }
  }

  /** The same where other servers have names, too. */
  async #takingOfAll(name: string, reserved: Uint8Array | undefined, make: Making): Promise<CanisterRecord> {
    const { names } = this.#needs;
    const id = reserved ?? (await names.take(name));
    try {
      const record = await make(id);
      if (reserved !== undefined) names.entered(record);
      return record;
    } catch (error) {
      if (reserved === undefined) await names.drop(name, id);
      throw error;
    }
  }

  async upgrade(
    record: CanisterRecord,
    moduleBytes: Uint8Array | undefined,
    options: UpgradeOptions,
  ): Promise<UpgradeReport> {
    const { rehearsals } = this.#needs;
    const files = moduleBytes === undefined ? await record.readFiles?.(record.name) : undefined;
    const bytes = moduleBytes ?? files?.module;
    if (bytes === undefined) throw new ServerError('invalid', 'no-wasm-recorded', 'no wasm recorded for that actor');
    const report = await upgrade(
      {
        ...this.#needs,
        changes: this.#changes,
        inTurn: (change) => this.inTurn(record, change),
        rehearse: (next, messages, signal) => rehearsals.rehearse(record, next, messages, signal),
        judge: (name, found, isForced) => rehearsals.judge(name, found, isForced),
        isDone: () => this.giveFacts(record, options),
      },
      record,
      bytes,
      {
        rehearse: rehearsals.askedOf(record.name),
        ...options,
        candidText: options.candidText ?? newCandid(record, files),
      },
    );
    if (!report.isUpgraded) return report;
    this.#noteDeployment(record, 'upgrade', options.caller);
    await this.#settled(record);
    await files?.taken?.();
    return report;
  }

  async reinstall(record: CanisterRecord, moduleBytes: Uint8Array, options: InstallOptions): Promise<void> {
    const { caller, candidText } = options;
    const given = { kept: record.givenCandid, fresh: candidText };
    const { code, argument } = await this.prepared(record.name, moduleBytes, options, given);
    const change = { mode: 'reinstall', endsCalls: true, argument, caller } as const;
    await this.inTurn(record, async () => {
      await this.#changes.apply(record, code, change, candidText);
      this.giveFacts(record, options);
    });
    this.#noteDeployment(record, 'reinstall', caller);
    await this.#settled(record);
  }

  /** Gives the canister facts; those that are left out stay. */
  giveFacts(record: CanisterRecord, given: Partial<GivenFacts>): void {
    const facts = withFacts(record.facts, given);
    if (facts === record.facts) return;
    record.facts = facts;
    this.#needs.execution.giveFacts(record.handle, facts);
  }

  /** As the management canister changes code: the fault is a value. */
  async changeCode(
    record: CanisterRecord,
    code: HostedCode,
    change: CodeChange,
    deletion: AbortSignal,
  ): Promise<StepFault | undefined> {
    const recorded = await unlessAborted(deletion, this.recorded(record, code));
    return await this.#changes.tryApply(record, recorded, change, deletion);
  }

  recorded(record: CanisterRecord, code: HostedCode): Promise<RecordedCode> {
    return this.#needs.interfaces.recorded(record.name, code, record.givenCandid);
  }

  async remove(record: CanisterRecord, { endsCalls = false }: RemoveOptions = {}): Promise<void> {
    if (endsCalls) await this.#end(record);
    else {
      // At once, too: an upgrade may be waiting for it to stop.
      this.#refuseUnlessStopped(record);
      await this.inTurn(record, () => {
        this.#refuseUnlessStopped(record);
        this.forget(record);
        return Promise.resolve();
      });
    }
    await this.#needs.store.settled();
    await this.#needs.names.settled();
  }

  /** Ends the canister with its calls: one unit has all of that, or nothing. */
  async #end(record: CanisterRecord): Promise<void> {
    const { scheduler } = this.#needs;
    const isThere = this.#needs.directory.find(record.id) === record;
    // At once: whoever changes it now, or waits for it to stop, would hold this up.
    const letGoOn = isThere ? scheduler.beginDeletion(record.handle) : () => undefined;
    if (isThere) this.#needs.turns.cut(record, actorMissing(`actor ${record.name} is being deleted`));
    try {
      await this.inTurn(record, async () => {
        const unlock = scheduler.lock(record.handle);
        try {
          await scheduler.endCalls(record.handle);
          this.forget(record);
        } finally {
          unlock();
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
  inTurn<T>(record: CanisterRecord, change: (deletion: AbortSignal) => Promise<T>): Promise<T> {
    const changeIfPresent = async (deletion: AbortSignal): Promise<T> => {
      if (this.#needs.directory.find(record.id) === record) return await change(deletion);
      throw actorMissing(`actor ${record.name} has been deleted meanwhile`);
    };
    return this.#needs.turns.take(record, changeIfPresent);
  }

  #noteDeployment(record: CanisterRecord, mode: 'install' | 'reinstall' | 'upgrade', caller: Uint8Array): void {
    const moduleHash = Buffer.from(record.module?.hash ?? '', 'hex');
    const details = { kind: 'codeDeployment', mode, moduleHash } as const;
    this.management.record(record, { origin: { kind: 'user', id: caller }, details });
  }

  /** Drops the canister, with its code and its state. */
  forget(record: CanisterRecord): void {
    this.#needs.scheduler.withdraw(record.handle);
    this.#needs.execution.remove(record.handle);
    record.removed();
    this.#needs.store.removed(record);
    this.#needs.directory.leave(record);
    this.#needs.names.left(record);
    this.#needs.histories.forget(record.handle);
    record.outputIfAny?.end();
    this.management.forget(record);
  }

  /** All is durable, and the interface known. */
  async #settled(record: CanisterRecord): Promise<void> {
    await Promise.all([this.#needs.store.settled(), this.#needs.interfaces.ask(record)]);
  }
}

function actorMissing(message: string): ServerError {
  return new ServerError('missing', 'actor-missing', message);
}

/** Throws ServerError `metering-off`. */
export function refuseUnmetered({ policy }: Metering): void {
  if (policy.isEnabled) return;
  throw new ServerError(
    'invalid',
    'metering-off',
    'metering is off (--cycles 0 or --no-metering): there is no balance to add to',
  );
}
