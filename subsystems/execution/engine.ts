/**
 * Runs messages on canisters, in the thread it lives in: one message at a time, as a transaction, metered.
 *
 * The life of one message here:
 *
 *   1. A dry balance ends it before it begins. Otherwise the instruction limit is what `--instruction-limit` says, or
 *      what the balance still buys if that is less. Queries are limited and not charged.
 *   2. The instance opens a transaction (`begin`), the `CurrentExecution` is set up for the imports, the entry point
 *      runs. Whatever goes wrong in there comes back as a `Fault`.
 *   3. Heap, globals and stable memory are kept only after an update method that returned; after queries, also
 *      those run as updates, and after faults they are taken back byte for byte. The buffered effects follow them,
 *      except cycles: they count wherever a replicated execution returned.
 *   4. Updates and hooks pay for the instructions used, faulty or not.
 *
 * What a message costs the host besides the guest's own code is a few hundred nanoseconds; to keep it there, nothing
 * on the way of a message allocates closures, touches BigInts, or looks up names: an entry point is a number.
 */
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { MeteringPolicy } from '../metering/index.ts';
import { sliceBytes } from './bytes.ts';
import { newCallContext } from './call-context.ts';
import { CanisterState } from './canister-state.ts';
import type { ControlMemory } from './control-memory.ts';
import type { Fault } from './fault.ts';
import type { CallKind, CanisterSpec, MethodKind, Outcome } from './index.ts';
import { Instance, type InstrumentedCode } from './instance.ts';
import { STABLE_GRANULE_BYTES, StableMemory, StablePagePool } from './stable-memory.ts';
import type { Mode } from './system-api/contexts.ts';
import { createSystemApi, CurrentExecution, type SystemApi } from './system-api/index.ts';

export interface EngineOptions {
  readonly policy: MeteringPolicy;
  readonly control: ControlMemory;
  /** Bytes of written stable memory this thread holds for all its canisters. */
  readonly stableBytesMax: number;
  /** Told of faults that are the host's own. */
  readonly reportBug: (message: string, cause: unknown) => void;
}

/** A message for a canister with code. The buffers are only read while it executes. */
export interface EngineMessage {
  /** Index in the layout's entries. */
  readonly entry: number;
  readonly kind: CallKind;
  readonly caller: Uint8Array;
  readonly argument: Uint8Array;
  readonly nowMs: number;
}

export interface EngineInstall {
  readonly argument: Uint8Array;
  readonly caller: Uint8Array;
  readonly nowMs: number;
}

/** How a message ended, and what is to be told of it. */
export interface EngineResult {
  readonly outcome: Outcome;
  /** What was printed, in order; last the reason of a fault. */
  readonly debug: readonly string[];
  /** Whether the balance changed by more than the charge. */
  readonly isBalanceMoved: boolean;
}

const NO_BYTES = new Uint8Array(0);
const NO_LINES: readonly string[] = Object.freeze([]);
const START_ENTRY = 'start';
const INIT_ENTRY = 'canister_init';

const SYS_TRANSIENT = 2;
const DESTINATION_INVALID = 3;
const CANISTER_REJECT = 4;
const CANISTER_ERROR = 5;

export class Engine {
  readonly #policy: MeteringPolicy;
  readonly #control: ControlMemory;
  readonly #pool: StablePagePool;
  readonly #reportBug: EngineOptions['reportBug'];
  readonly #x: CurrentExecution;
  readonly #imports: SystemApi;
  /** The call of the message in hand: without outgoing calls none outlives its execution. */
  readonly #callContext = newCallContext(NO_BYTES, true);
  readonly #methodKinds = new WeakMap<InstrumentedCode, readonly (MethodKind | undefined)[]>();

  constructor(options: EngineOptions) {
    this.#policy = options.policy;
    this.#control = options.control;
    this.#reportBug = options.reportBug;
    this.#pool = new StablePagePool(options.stableBytesMax);
    this.#x = new CurrentExecution(options.policy);
    this.#imports = createSystemApi(this.#x);
  }

  createCanister(spec: CanisterSpec): CanisterState {
    return new CanisterState(spec, this.#policy, this.#pool);
  }

  /** Written stable memory that this thread holds, of all its canisters. */
  get stableBytesStored(): number {
    return this.#pool.used * STABLE_GRANULE_BYTES;
  }

  /** Gives back what a canister holds; it must not be used afterwards. */
  removeCanister(canister: CanisterState): void {
    canister.installed = undefined;
    canister.stable.clear();
  }

  /**
   * Start function and `canister_init` on fresh state, with one instruction limit for both. Any outcome but a
   * `reply` (of no bytes) leaves the canister as it was, less the charge.
   */
  install(canister: CanisterState, code: InstrumentedCode, request: EngineInstall): EngineResult {
    if (canister.account.isDry) return this.#dry();
    const { stable: stableBefore, version: versionBefore } = canister;
    const stable = new StableMemory(this.#pool);
    canister.stable = stable;
    canister.version++;
    const result = this.#initialize(canister, code, request);
    if (result.outcome.kind === 'reply') {
      stableBefore.clear();
    } else {
      stable.clear();
      canister.stable = stableBefore;
      canister.version = versionBefore;
    }
    return result;
  }

  /** Runs one message. Throws only for mistakes of the host's: no code, or a method that this kind of call cannot reach. */
  execute(canister: CanisterState, message: EngineMessage): EngineResult {
    const installed = canister.installed;
    if (installed === undefined) return refusal(DESTINATION_INVALID, 'the canister contains no Wasm module');
    const mode = modeOf(installed.methodKinds[message.entry], message.kind);
    const account = canister.account;
    if (account.isDry) return this.#dry();

    const x = this.#x;
    const { instance } = installed;
    const isCharged = message.kind === 'update';
    const instructionLimit = isCharged ? account.instructionsAllowed : this.#policy.instructionLimit;
    const callContext = this.#callContext;
    callContext.caller = message.caller;
    x.begin(
      mode,
      instance,
      canister,
      callContext,
      message.argument,
      canister.instant(message.nowMs),
      isCharged,
      instructionLimit,
    );
    instance.begin(instructionLimit);
    const fault = instance.run(message.entry);
    const instructions = fault?.kind === 'limit' ? instructionLimit : instance.instructionsUsed();

    if (fault === undefined && mode === 'U') {
      instance.commit();
      canister.stable.commit();
      canister.version++;
      if (x.certifiedData !== undefined) canister.certifiedData = x.certifiedData;
    } else {
      instance.rollback();
      canister.stable.rollback();
    }
    const isBalanceMoved = fault === undefined && isCharged && this.#moveCycles(canister);
    const charge = isCharged ? account.charge(instructions) : 0;
    const outcome =
      fault === undefined
        ? this.#answer(instructions, charge)
        : this.#faulty(fault, instructionLimit, instructions, charge);
    const debug = x.debug.take();
    x.end();
    callContext.caller = NO_BYTES;
    return { outcome, debug, isBalanceMoved };
  }

  #initialize(canister: CanisterState, code: InstrumentedCode, request: EngineInstall): EngineResult {
    let instance: Instance;
    try {
      instance = Instance.create(code, this.#imports, this.#control);
    } catch (error) {
      // A heap that the machine has no room for is not the module's fault; the canister stays as it was.
      if (!(error instanceof RangeError)) throw error;
      return refusal(SYS_TRANSIENT, `the canister's heap cannot be allocated: ${messageOf(error)}`, 'unavailable');
    }
    const x = this.#x;
    const { account } = canister;
    const instructionLimit = account.instructionsAllowed;
    const callContext = newCallContext(request.caller, false);
    x.begin(
      's',
      instance,
      canister,
      callContext,
      request.argument,
      canister.instant(request.nowMs),
      true,
      instructionLimit,
    );
    instance.begin(instructionLimit);
    let fault = runHook(instance, START_ENTRY);
    if (fault === undefined) {
      x.enterMode('I');
      fault = runHook(instance, INIT_ENTRY);
    }
    const instructions = fault?.kind === 'limit' ? instructionLimit : instance.instructionsUsed();
    let isBalanceMoved = false;
    if (fault === undefined) {
      instance.commit();
      canister.stable.commit();
      canister.certifiedData = x.certifiedData ?? NO_BYTES;
      canister.installed = { instance, methodKinds: this.#kindsOf(code) };
      isBalanceMoved = this.#moveCycles(canister);
    } else {
      // The control memory belongs to the next message, so the journal must be put in order though the instance is dropped.
      instance.rollback();
      canister.stable.rollback();
    }
    const charge = account.charge(instructions);
    const outcome: Outcome =
      fault === undefined
        ? { kind: 'reply', data: NO_BYTES, instructions, charge }
        : this.#faulty(fault, instructionLimit, instructions, charge);
    const debug = x.debug.take();
    x.end();
    return { outcome, debug, isBalanceMoved };
  }

  /** Applies what the execution accepted and burned; whether there was anything. */
  #moveCycles(canister: CanisterState): boolean {
    const x = this.#x;
    if (x.cyclesGained === 0n || !this.#policy.isEnabled) return false;
    canister.account.add(x.cyclesGained);
    return true;
  }

  /** The outcome of an execution that returned. */
  #answer(instructions: number, charge: number): Outcome {
    const x = this.#x;
    switch (x.answer) {
      case 'reply':
        return { kind: 'reply', data: sliceBytes(x.reply, 0, x.replyLength), instructions, charge };
      case 'reject':
        return { kind: 'reject', code: CANISTER_REJECT, message: x.rejectText, instructions, charge };
      case 'none':
        return {
          kind: 'noReply',
          code: CANISTER_ERROR,
          message: 'the canister did not reply to the call',
          instructions,
          charge,
        };
    }
  }

  /** The outcome of an execution that did not return; its reason goes to the canister's log too. */
  #faulty(fault: Fault, instructionLimit: number, instructions: number, charge: number): Outcome {
    if (fault.kind === 'limit' && instructionLimit < this.#policy.instructionLimit) {
      const message = `the canister is out of cycles: its balance paid for ${instructionLimit} instructions, which the message used up`;
      this.#x.debug.conclude(message);
      return { kind: 'outOfCycles', code: SYS_TRANSIENT, message, instructions, charge };
    }
    if (fault.kind === 'limit') {
      const message = `Canister exceeded the limit of ${instructionLimit} instructions for single message execution.`;
      this.#x.debug.conclude(message);
      return { kind: 'limit', code: CANISTER_ERROR, message, instructions, charge };
    }
    if (fault.kind === 'host') this.#reportBug(fault.message, fault.cause);
    this.#x.debug.conclude(fault.message);
    return { kind: 'trap', code: CANISTER_ERROR, message: fault.message, instructions, charge };
  }

  #dry(): EngineResult {
    const message = `the canister is out of cycles: a message costs at least ${this.#policy.cyclesPerMessage}`;
    return refusal(SYS_TRANSIENT, message, 'outOfCycles');
  }

  /** The kinds by entry point, worked out once for a module. */
  #kindsOf(code: InstrumentedCode): readonly (MethodKind | undefined)[] {
    let kinds = this.#methodKinds.get(code);
    if (kinds === undefined) {
      kinds = code.layout.entries.map(methodKindOf);
      this.#methodKinds.set(code, kinds);
    }
    return kinds;
  }
}

/** Runs a hook if the module has it. */
function runHook(instance: Instance, name: string): Fault | undefined {
  const entry = instance.entry(name);
  return entry === undefined ? undefined : instance.run(entry);
}

function methodKindOf(entryName: string): MethodKind | undefined {
  if (entryName.startsWith('canister_update ')) return 'update';
  if (entryName.startsWith('canister_query ')) return 'query';
  if (entryName.startsWith('canister_composite_query ')) return 'composite_query';
  return undefined;
}

function modeOf(method: MethodKind | undefined, call: CallKind): Mode {
  if (method === 'query') return call === 'query' ? 'NRQ' : 'RQ';
  if (method === 'update' && call === 'update') return 'U';
  if (method === 'composite_query' && call === 'query') return 'CQ';
  throw new ServerError(
    'invalid',
    'method-kind-mismatch',
    `a ${call} call cannot reach ${method === undefined ? 'a hook' : `a method of kind ${method}`}`,
  );
}

/** A message that nothing was run for. */
function refusal(
  code: 2 | 3,
  message: string,
  kind: 'reject' | 'outOfCycles' | 'unavailable' = 'reject',
): EngineResult {
  return { outcome: { kind, code, message, instructions: 0, charge: 0 }, debug: NO_LINES, isBalanceMoved: false };
}
