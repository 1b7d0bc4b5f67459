/**
 * What an executor knows of one canister besides its live instance's memory.
 * Executor thread: one object a canister, touched by the engine whose message runs, and between messages by
 * executor-thread.ts.
 */
import { chargeOf, instructionsAllowed, isDry, type MeteringPolicy } from '../../metering/index.ts';
import type { CanisterSettings, CanisterSpec } from '../index.ts';
import type { MethodKind } from '../../ic/index.ts';
import type { Environment } from './environment.ts';
import type { Instance } from './instance.ts';
import { PersistenceState } from '../persistence/persistence-state.ts';
import { OpenCalls, type OpenCallsEntry } from './open-calls.ts';
import { StableMemory, type StablePagePool } from '../memory/stable-memory.ts';
import type { SuspendedFrame } from './suspended-frames.ts';

/** Code in place and running: the instance, and what kind of method each entry point of its module is. */
export interface InstalledCode {
  readonly instance: Instance;
  readonly roles: readonly EntryRole[];
}

/** What an entry point is: how its method is exported, or what the system calls it for. */
export type EntryRole = MethodKind | 'timer' | 'task' | 'inspect' | 'hook';

/** `ic0.canister_status`. */
export const STATUS_CODE = { running: 1, stopping: 2, stopped: 3 } as const;
export type CanisterStatus = keyof typeof STATUS_CODE;

const NO_BYTES = new Uint8Array(0);
/** A message of fewer instructions ends within its first slice of fuel. */
const SHORT_INSTRUCTIONS = 2 ** 20;
/** After so many short messages in a row, a canister's next one is taken for a short one again. */
const SHORT_AGAIN = 64;

export class CanisterState {
  readonly id: Uint8Array;
  controllers: readonly Uint8Array[];
  readonly account: CyclesAccount;
  /** Replaced as a whole when code is installed on fresh state. */
  stable: StableMemory;
  /** A message has looked at the variables: what it did depends on them. */
  hasReadEnvironment = false;
  status: CanisterStatus = 'running';
  /** Counts what changed the canister; see docs/execution-rules.md, "The version of a canister". */
  version = 0;
  /** What update methods, installation and upgrades may leave of heap (`wasm_memory_limit`). */
  heapBytesMax = Number.POSITIVE_INFINITY;
  certifiedData: Uint8Array = NO_BYTES;
  /** Its queries find a certificate. No update does, so no log depends on it. */
  hasCertificate: boolean;
  /** The global timer's deadline, ns since 1970; 0: off. */
  timerNs = 0n;
  /** Calls that wait for their responses. */
  readonly openCalls = new OpenCalls();
  /** A message of its is under way, perhaps suspended. */
  isInMessage = false;
  /** Its last message in a row that were run as long ones and were short; undefined: it is not taken for one with long messages. */
  #shortInARow: number | undefined = undefined;
  /** Composite queries that wait for theirs, when there are any. */
  frames: Set<SuspendedFrame> | undefined = undefined;
  /** Undefined until code is installed. */
  installed: InstalledCode | undefined = undefined;
  /** How it is kept; undefined: in memory only. */
  readonly kept: PersistenceState | undefined;
  /** When its last message began, ms since 1970. */
  instantMs = 0;
  #markedVersion = 0;
  #markedTimerNs = 0n;
  /** Its own variables, and what all canisters have. */
  #env: ReadonlyMap<string, string>;
  #shared: Environment;
  #environment: Environment;

  constructor(spec: CanisterSpec, policy: MeteringPolicy, pool: StablePagePool, shared: Environment) {
    this.id = spec.id;
    this.controllers = spec.controllers;
    this.account = new CyclesAccount(spec.balance, policy);
    this.stable = new StableMemory(pool);
    this.kept = spec.snapshotBelowBytes === undefined ? undefined : new PersistenceState(spec.snapshotBelowBytes);
    this.hasCertificate = spec.hasCertificate ?? false;
    this.#env = spec.env;
    this.#shared = shared;
    this.#environment = shared.with(spec.env);
  }

  /** Its own variables over those that all canisters have, for a message. */
  get environment(): Environment {
    this.hasReadEnvironment = true;
    return this.#environment;
  }

  /** What all canisters have. */
  get shared(): Environment {
    return this.#shared;
  }

  set shared(shared: Environment) {
    this.#shared = shared;
    this.#environment = shared.with(this.#env);
  }

  /** What `configure` would have to be given for them. */
  get settings(): Required<CanisterSettings> {
    const { controllers, status, version, heapBytesMax } = this;
    return { controllers, env: this.#env, status, version, heapBytesMax };
  }

  /** Takes over what was set; what was left out stays. */
  configure({ controllers, env, status, version, heapBytesMax }: CanisterSettings): void {
    if (controllers !== undefined) this.controllers = controllers;
    if (env !== undefined) {
      this.#env = env;
      this.#environment = this.#shared.with(env);
    }
    if (status !== undefined) this.status = status;
    // The host does not know yet of messages that have just run: the version never goes back.
    if (version !== undefined) this.version = Math.max(this.version, version);
    if (heapBytesMax !== undefined) this.heapBytesMax = heapBytesMax;
  }

  /** Whether its next message is to be run as a long one at once: what it runs in vain first is a slice of fuel each time. */
  get isLong(): boolean {
    return this.#shortInARow !== undefined;
  }

  /** A message of its has used up its first slice. */
  seemsLong(): void {
    this.#shortInARow = 0;
  }

  /** A message begins: what `beforeMessage` is to remember. It costs a few words, for nearly none needs it. */
  mark(): void {
    this.account.mark();
    this.openCalls.mark();
    this.#markedVersion = this.version;
    this.#markedTimerNs = this.timerNs;
  }

  /** What the message in progress has changed, as it was before. */
  beforeMessage(): {
    readonly balance: bigint;
    readonly version: number;
    readonly timerNs: bigint;
    readonly openCalls: readonly OpenCallsEntry[];
  } {
    return {
      balance: this.account.balanceAtMark,
      version: this.#markedVersion,
      timerNs: this.#markedTimerNs,
      openCalls: this.openCalls.entriesAtMark(),
    };
  }

  /** A message of its that was run as a long one took so many instructions. */
  wasLong(instructions: number): void {
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

  /** The instant of a message that starts now: time never goes back for a canister. */
  instant(nowMs: number): number {
    if (nowMs > this.instantMs) this.instantMs = nowMs;
    return this.instantMs;
  }
}

/** A double counts exactly up to here; charges are folded into the balance long before. */
const OWED_MAX = 2 ** 52;

const BALANCE_MAX = 2n ** 128n - 1n;

/**
 * A canister's cycles. The balance has up to 128 bits and so is a BigInt, which costs more to touch than all else
 * that a short message needs of it. So charges add up in a Number, and as long as the balance is known to be ample
 * for them and for one message more, nothing is computed with BigInts.
 */
export class CyclesAccount {
  readonly policy: MeteringPolicy;
  /** Balance that makes the instruction limit affordable, and after it another message. */
  readonly #ample: bigint;
  #balance: bigint;
  #owed = 0;
  /** The most that may be owed while the rest is still ample. */
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

  /** What the balance was then. */
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

  /** Whether the balance is known to pay for the longest message and one more; false: it has to be looked at. */
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

  /** Takes the price of a message, or all there is; what was taken. */
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
