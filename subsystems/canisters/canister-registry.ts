/**
 * The canisters of this host: who they are, how they are found, and their numbers as of the last ended message.
 * Code and state live in the executors; this is what the main thread knows without asking them.
 */
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { CallKind, Execution, ModuleInfo, Outcome } from '../execution/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Manifest } from '../manifest/index.ts';
import type { Compiler } from '../compiler/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import { canisterId } from './canister-id.ts';
import { CanisterRecord } from './canister-record.ts';
import {
  type Canister,
  type Canisters,
  type DebugLine,
  InstallError,
  type InstallOptions,
  isInternalMethod,
} from './index.ts';
import { installManifest } from './install-manifest.ts';

/** decisions.md, "Names, ids, callers". */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const EMPTY_ARGUMENTS = Uint8Array.of(0x44, 0x49, 0x44, 0x4c, 0, 0);

export interface CanisterRegistryDependencies {
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly metering: Metering;
  readonly codec: Codec;
  readonly manifest: Manifest;
  readonly compiler: Compiler;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface CanisterRegistryOptions {
  /** Print each debug line to the log as well (`--verbose`). */
  readonly forwardDebugOutput: boolean;
}

export class CanisterRegistry implements Canisters {
  readonly #with: CanisterRegistryDependencies;
  readonly #forwardDebugOutput: boolean;
  readonly #list: CanisterRecord[] = [];
  /** By name, by hex id, and by textual principal; filled in that order of precedence. */
  readonly #byReference = new Map<string, CanisterRecord>();
  /** Names that may not be installed now: an installation of the same name is under way. */
  readonly #installing = new Set<string>();
  readonly #rejected = new Map<string, string>();
  #idsGiven = 0;

  constructor(dependencies: CanisterRegistryDependencies, options: CanisterRegistryOptions) {
    this.#with = dependencies;
    this.#forwardDebugOutput = options.forwardDebugOutput;
  }

  resolve(reference: string): CanisterRecord {
    const found = this.#byReference.get(reference);
    if (found !== undefined) return found;
    const reason = this.#rejected.get(reference);
    if (reason !== undefined) {
      throw new ServerError('missing', 'actor-rejected', `actor ${reference} was rejected at start: ${reason}`);
    }
    throw new ServerError('missing', 'actor-missing', `no actor ${quoted(reference)}: GET /actors lists them`);
  }

  list(): readonly Canister[] {
    return this.#list;
  }

  async call(
    canister: Canister,
    kind: CallKind,
    method: string,
    caller: Uint8Array,
    argument: Uint8Array,
  ): Promise<Outcome> {
    const record = this.#recordOf(canister);
    const exported = record.module.methods.get(method);
    if (exported === undefined) {
      throw new ServerError('missing', 'method-missing', `actor ${record.name} has no method ${quoted(method)}`);
    }
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
    const outcome = await this.#with.scheduler.deliver({ handle: record.handle, kind, method, caller, argument });
    if (outcome.kind !== 'unavailable') record.count(outcome);
    return outcome;
  }

  async install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<Canister> {
    if (!NAME.test(name)) {
      throw new ServerError(
        'invalid',
        'actor-name-bad',
        `${quoted(name)} is no name for an actor: a letter or _, then up to 63 letters, digits, _ or -`,
      );
    }
    if (this.#installing.has(name) || this.#byReference.has(name)) {
      throw new ServerError('invalid', 'actor-exists', `${name} is already installed: use POST /upgrade/${name}`);
    }
    this.#installing.add(name);
    try {
      const module = await this.#with.execution.prepare(moduleBytes);
      const candid = this.#interfaceOf(name, module, options.candidText);
      return await this.#create(name, module, candid, options);
    } finally {
      this.#installing.delete(name);
    }
  }

  async #create(
    name: string,
    module: ModuleInfo,
    candid: CandidInterface | undefined,
    options: InstallOptions,
  ): Promise<Canister> {
    const { execution, metering, codec, clock, log } = this.#with;
    const argument = encodeInitArgument(codec, candid, options.argument);
    const id = canisterId(this.#idsGiven++);
    const balance = metering.policy.isEnabled ? (options.cycles ?? metering.policy.startingCycles) : 0n;
    const controllers = [options.caller];
    const record = new CanisterRecord(
      { name, id, module, candid, balance, controllers },
      { clock, log, forwardDebugOutput: this.#forwardDebugOutput },
    );
    record.handle = execution.create({ id, balance, controllers, env: options.env ?? new Map() }, record);
    const outcome = await execution.install(record.handle, { module, argument, caller: options.caller });
    if (outcome.kind !== 'reply') {
      execution.remove(record.handle);
      throw new InstallError(
        outcome,
        record.debugBuffer.take().map((line) => line.text),
      );
    }
    this.#add(record);
    return record;
  }

  #add(record: CanisterRecord): void {
    this.#list.push(record);
    this.#rejected.delete(record.name);
    this.#byReference.set(record.name, record);
    if (!this.#byReference.has(record.idHex)) this.#byReference.set(record.idHex, record);
    if (!this.#byReference.has(record.principal)) this.#byReference.set(record.principal, record);
  }

  /**
   * The interface: what the module carries, else the given text. A module whose own does not parse still serves raw
   * calls; a given text is the operator's, so a mistake in it is refused with its place.
   */
  #interfaceOf(name: string, module: ModuleInfo, givenText: string | undefined): CandidInterface | undefined {
    const { codec, log } = this.#with;
    const text = module.candid ?? givenText;
    if (text === undefined) return undefined;
    try {
      return codec.parseInterface(text, module.candid === undefined ? undefined : module.candidArgs);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (module.candid === undefined) throw error;
      log.warn(`${name}: the module's Candid interface does not parse, only raw calls work: ${error.message}`);
      return undefined;
    }
  }

  async addCycles(canister: Canister, amount: bigint): Promise<bigint> {
    if (!this.#with.metering.policy.isEnabled) {
      throw new ServerError('invalid', 'metering-off', 'metering is off (--cycles 0): there is no balance to add to');
    }
    const record = this.#recordOf(canister);
    const balance = await this.#with.execution.addCycles(record.handle, amount);
    record.setBalance(balance);
    return balance;
  }

  takeLogs(canister: Canister): readonly DebugLine[] {
    return this.#recordOf(canister).debugBuffer.take();
  }

  async installManifest(progress: (note: string) => void): Promise<void> {
    await installManifest({ ...this.#with, canisters: this }, progress, (name, reason) => {
      this.#rejected.set(name, reason);
    });
  }

  #recordOf(canister: Canister): CanisterRecord {
    if (canister instanceof CanisterRecord) return canister;
    throw new Error(`${canister.name} is not a canister of this registry`);
  }
}

function encodeInitArgument(
  codec: Codec,
  candid: CandidInterface | undefined,
  argument: InstallOptions['argument'],
): Uint8Array {
  if (argument === undefined) return EMPTY_ARGUMENTS;
  if (argument instanceof Uint8Array) return argument;
  switch (argument.kind) {
    case 'bytes':
      return argument.bytes;
    case 'candid':
      return codec.encodeText(argument.text, candid?.initArgs);
    case 'json':
      // Without types only the self-describing encoding says what a value is.
      if (candid?.initArgs === undefined) return codec.untyped.encode(Buffer.from(argument.text), { lossless: true });
      return candid.initArgs.encode(Buffer.from(argument.text), { lossless: false });
  }
}

/** Internal methods are the actor's own and the operator's (decisions.md): hidden from everybody but controllers. */
function refuseInternal(record: CanisterRecord, method: string, caller: Uint8Array): void {
  if (!isInternalMethod(method)) return;
  if (sameBytes(caller, record.id)) {
    throw new ServerError('invalid', 'caller-is-self', `no client may call ${method} in the name of the actor itself`);
  }
  if (record.controllers.some((controller) => sameBytes(controller, caller))) return;
  throw new ServerError('missing', 'method-missing', `actor ${record.name} has no method ${quoted(method)}`);
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

/** Names from outside, shortened: they may be long or strange. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
