/**
 * State of one canister in its executor, besides the memory of its live instance.
 * Executor thread: one object for each canister, touched by the engine whose message runs, and between messages by
 * executor-thread.ts.
 */
import { chargeOf, instructionsAllowed, isDry, type MeteringPolicy } from '../../metering/index.ts';
import type { CanisterSettings, CanisterSpec, StandingSettings } from '../index.ts';
import {
  type CanisterStatus,
  type GivenFacts,
  type MessageNumbers,
  type MethodKind,
  NO_FACTS,
  NO_NUMBERS,
  numbersOf,
  takeNumbers,
} from '../../ic/index.ts';
import type { DataCertificate } from './data-certificate.ts';
import type { Environment } from './environment.ts';
import type { Instance } from './instance.ts';
import { PersistenceState } from '../persistence/persistence-state.ts';
import { OpenCalls } from './open-calls.ts';
import type { OpenCallsEntry } from '../../ic/index.ts';
import { StableMemory, type StablePagePool } from '../memory/stable-memory.ts';
import type { SuspendedFrame } from './suspended-frames.ts';
import { NO_BYTES } from '../../bytes/index.ts';

/** Code in place and running: the instance, and the role of each entry point of its module. */
interface InstalledCode {
  readonly instance: Instance;
  readonly roles: readonly EntryRole[];
}

/** Role of an entry point: how its method is exported, or for which purpose the system calls it. */
export type EntryRole = MethodKind | 'timer' | 'task' | 'inspect' | 'hook';

/** Values that `ic0.canister_status` returns. */
const STATUS_CODE: Readonly<Record<CanisterStatus, number>> = { running: 1, stopping: 2, stopped: 3 };

/** A message with fewer instructions ends within its first slice of fuel. */
const SHORT_INSTRUCTIONS = 2 ** 20;
/** After this many short messages in a row, the canister's next message is no longer taken for a long one. */
const SHORT_AGAIN = 64;

export class CanisterState implements MessageNumbers {
  readonly id: Uint8Array;
  controllers: readonly Uint8Array[];
  readonly account: CyclesAccount;
  /** Replaced as a whole when code is installed on fresh state. */
  stable: StableMemory;
  /** True if a message has read the variables, or the host's key: its effects depend on them. */
  hasReadEnvironment = false;
  status: CanisterStatus = 'running';
  version = NO_NUMBERS.version;
  /** The most heap that update methods, installation and upgrades may leave (`wasm_memory_limit`). */
  heapBytesMax = Number.POSITIVE_INFINITY;
  certifiedData: Uint8Array = NO_BYTES;
  /** Undefined: no query has asked for the certificate of that data since the canister is here. */
  certificate: DataCertificate | undefined = undefined;
  /** Facts that operators gave the canister: no log depends on them. */
  facts: GivenFacts;
  /** The global timer's deadline, ns since 1970; 0: off. */
  timerNs = 0n;
  /** Calls that wait for their responses. */
  readonly openCalls = new OpenCalls();
  /** True while a message of the canister is under way, perhaps suspended. */
  isInMessage = false;
  /**
   * Number of short messages in a row that were run as long ones; undefined: the canister is not taken for one with
   * long messages.
   */
  #shortInARow: number | undefined = undefined;
  /** Composite queries of the canister that wait for responses; undefined if there are none. */
  frames: Set<SuspendedFrame> | undefined = undefined;
  /** Undefined until code is installed. */
  installed: InstalledCode | undefined = undefined;
  /** State of the canister's storage; undefined: the canister lives in memory only. */
  readonly persistence: PersistenceState | undefined;
  /** Time at which the last message began, ms since 1970. */
  instantMs = 0;
  /** Time that the canister sees in place of the clock's; undefined: the clock's. */
  #standsAtMs: number | undefined = undefined;
  readonly #markedNumbers = { ...NO_NUMBERS };
  #markedTimerNs = 0n;
  /** The canister's own variables, and below the variables that all canisters have. */
  #env: ReadonlyMap<string, string>;
  #shared: Environment;
  #environment: Environment;

  constructor(spec: CanisterSpec, policy: MeteringPolicy, pool: StablePagePool, shared: Environment) {
    this.id = spec.id;
    this.controllers = spec.controllers;
    this.account = new CyclesAccount(spec.balance, policy);
    this.stable = new StableMemory(pool);
    this.persistence =
      spec.snapshotBelowBytes === undefined ? undefined : new PersistenceState(spec.snapshotBelowBytes);
    this.facts = spec.facts ?? NO_FACTS;
    this.#env = spec.env;
    this.#shared = shared;
    this.#environment = shared.with(spec.env);
  }

  /** Returns the variables that a message sees: the canister's own over those that all canisters have. */
  get environment(): Environment {
    this.hasReadEnvironment = true;
    return this.#environment;
  }

  /** The host, as a message sees it: its effects depend on that. */
  get host(): Pick<Environment, 'rootKey' | 'subnetId'> {
    this.hasReadEnvironment = true;
    return this.#shared;
  }

  /** Variables that all canisters have. */
  get shared(): Environment {
    return this.#shared;
  }

  set shared(shared: Environment) {
    if (shared === this.#shared) return;
    this.#shared = shared;
    this.#environment = shared.with(this.#env);
  }

  /** Returns the settings with which `configure` would restore the present ones, and the numbers. */
  get settings(): StandingSettings {
    const { controllers, status, heapBytesMax } = this;
    return { ...numbersOf(this), controllers, env: this.#env, status, heapBytesMax };
  }

  /** Takes over the given settings; settings that are left out stay. */
  configure({ controllers, env, status, version, heapBytesMax, standsAtMs, timerNs }: CanisterSettings): void {
    if (controllers !== undefined) this.controllers = controllers;
    if (env !== undefined) {
      this.#env = env;
      this.#environment = this.#shared.with(env);
    }
    if (status !== undefined) this.status = status;
    // The host does not know yet of messages that have just run, so the version never goes back.
    if (version !== undefined) this.version = Math.max(this.version, version);
    if (heapBytesMax !== undefined) this.heapBytesMax = heapBytesMax;
    if (standsAtMs !== undefined) this.#standsAtMs = standsAtMs;
    if (timerNs !== undefined) this.timerNs = timerNs;
  }

  /**
   * True if the canister's next message runs as a long one at once. Otherwise each long message would first run in vain
   * for one slice of fuel.
   */
  get isLong(): boolean {
    return this.#shortInARow !== undefined;
  }

  /** Notes that a message of the canister has used up its first slice. */
  expectLong(): void {
    this.#shortInARow = 0;
  }

  /**
   * Notes at a message's start what `beforeMessage` will return. Costs a few words of memory only, because hardly any
   * message needs it.
   */
  mark(): void {
    this.account.mark();
    this.openCalls.mark();
    takeNumbers(this.#markedNumbers, this);
    this.#markedTimerNs = this.timerNs;
  }

  /** Returns what the message in progress may have changed, as it was before the message. */
  beforeMessage(): MessageNumbers & {
    readonly balance: bigint;
    readonly timerNs: bigint;
    readonly openCalls: readonly OpenCallsEntry[];
  } {
    return {
      ...this.#markedNumbers,
      balance: this.account.balanceAtMark,
      timerNs: this.#markedTimerNs,
      openCalls: this.openCalls.entriesAtMark(),
    };
  }

  /** Notes that a message that was run as a long one took this many instructions. */
  ranLong(instructions: number): void {
    if (this.#shortInARow === undefined) return;
    this.#shortInARow = instructions >= SHORT_INSTRUCTIONS ? 0 : this.#shortInARow + 1;
    if (this.#shortInARow >= SHORT_AGAIN) this.#shortInARow = undefined;
  }

  get statusCode(): number {
    return STATUS_CODE[this.status];
  }

  isController(principal: Uint8Array): boolean {
    return this.controllers.some((controller) => Buffer.compare(controller, principal) === 0);
  }

  /** Returns the instant of a message that starts now: time never goes back for a canister. */
  instant(nowMs: number): number {
    const seenMs = this.#standsAtMs ?? nowMs;
    if (seenMs > this.instantMs) this.instantMs = seenMs;
    return this.instantMs;
  }
}

/** Doubles count exactly up to here; charges are folded into the balance long before. */
const OWED_MAX = 2 ** 52;

const BALANCE_MAX = 2n ** 128n - 1n;

/**
 * A canister's cycles. The balance has up to 128 bits and so is a BigInt. Touching a BigInt costs more than everything
 * else that a short message does with the balance. So charges add up in a Number; as long as the balance is known to be
 * ample for them and for one message more, nothing is computed with BigInts.
 */
export class CyclesAccount {
  readonly policy: MeteringPolicy;
  /** Balance that pays for a message up to the instruction limit, and for another message after it. */
  readonly #ample: bigint;
  #balance: bigint;
  #owed = 0;
  /** The most that may be owed while the rest of the balance is still ample. */
  #slack = -1;
  #markedBalance = 0n;
  #markedOwed = 0;

  constructor(balance: bigint, policy: MeteringPolicy) {
    this.policy = policy;
    this.#ample = BigInt(chargeOf(policy, policy.instructionLimit) + policy.cyclesPerMessage) + 10n;
    this.#balance = balance;
    this.#measure();
  }

  mark(): void {
    this.#markedBalance = this.#balance;
    this.#markedOwed = this.#owed;
  }

  /** Returns the balance at the last `mark`. */
  get balanceAtMark(): bigint {
    const balance = this.#markedBalance - BigInt(this.#markedOwed);
    return balance < 0n ? 0n : balance;
  }

  get balance(): bigint {
    if (this.#owed !== 0) {
      this.#balance -= BigInt(this.#owed);
      if (this.#balance < 0n) this.#balance = 0n;
      this.#measure();
    }
    return this.#balance;
  }

  /** Adds cycles, or takes them if `amount` is negative; never below 0, nor above what 128 bits hold. */
  add(amount: bigint): void {
    const balance = this.balance + amount;
    this.#balance = balance < 0n ? 0n : balance > BALANCE_MAX ? BALANCE_MAX : balance;
    this.#measure();
  }

  /** True if the balance is known to pay for the longest message and one more; false: it has to be computed. */
  get isAmple(): boolean {
    return this.#owed <= this.#slack;
  }

  get isDry(): boolean {
    return this.#owed > this.#slack && isDry(this.policy, this.balance);
  }

  /** Instructions the next charged message may use. */
  get instructionsAllowed(): number {
    return this.#owed <= this.#slack ? this.policy.instructionLimit : instructionsAllowed(this.policy, this.balance);
  }

  /** Takes the price of a message, or all that is left; returns the amount taken. */
  charge(instructions: number): number {
    const cost = chargeOf(this.policy, instructions);
    if (this.#owed <= this.#slack) {
      this.#owed += cost;
      return cost;
    }
    const balance = this.balance;
    const taken = balance < BigInt(cost) ? Number(balance) : cost;
    this.add(BigInt(-taken));
    return taken;
  }

  #measure(): void {
    this.#owed = 0;
    const slack = this.#balance - this.#ample;
    this.#slack = slack > BigInt(OWED_MAX) ? OWED_MAX : Number(slack);
  }
}
