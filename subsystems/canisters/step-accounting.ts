/**
 * Sums up a canister's steps: memory, cycles, counts, and whether its low-memory hook is due. The canister's own object
 * here hears of each step (accounting.ts), marks what is to be stored and tells whoever watches.
 *
 * Main thread, after every step: so numbers are in a row of a block that many share, and charges are summed as a
 * Number.
 */
import type { Clock } from '../../kernel/index.ts';
import {
  areNumbersAt,
  type LowMemoryHook,
  MESSAGE_NUMBERS,
  type MessageNumbers,
  type NotedMessage,
  numbersAt,
  type Outcome,
  placeOf,
  putNumbers,
  type StepFault,
  type ToldStep,
} from '../ic/index.ts';
import type { CanisterUsage, EnforcedSettings } from '../management/index.ts';
import type { Admission, StepCount } from '../scheduler/index.ts';
import { CanisterActivity, NO_ACTIVITY } from './canister-activity.ts';
import type { CanisterOutput } from './canister-output.ts';
import type { CanisterStore, StorableCanister } from './canister-store.ts';
import type { CanisterWatches } from './canister-watches.ts';
import type { NumberRows } from './number-rows.ts';
import type { ReplayBudget } from './replay-budget.ts';
import type { StoredNumbers } from './stored-values.ts';

/** Charges are summed as a Number and taken from the balance before they leave the exact range. */
const PENDING_CHARGE_MAX = 2 ** 50;

/** Bound of the low-memory hook if `wasm_memory_limit` is not set, or 0; in 64-bit modules, too, as on the replica. */
const UNLIMITED_HEAP_BYTES = 2 ** 32;

/** Places in a canister's row of numbers, behind those that messages change. */
const NUMBERS = {
  heapBytes: MESSAGE_NUMBERS,
  stableBytes: MESSAGE_NUMBERS + 1,
  messages: MESSAGE_NUMBERS + 2,
  traps: MESSAGE_NUMBERS + 3,
  lastMessageMs: MESSAGE_NUMBERS + 4,
  instantMs: MESSAGE_NUMBERS + 5,
  cyclesCharged: MESSAGE_NUMBERS + 6,
  /**
   * Not yet taken from the balance: subtracting a BigInt for every message would cost more than the rest of
   * `stepEnded`.
   */
  pendingCharge: MESSAGE_NUMBERS + 7,
} as const;
const VERSION = placeOf('version');
/** Numbers that a canister's row has. */
export const STEP_NUMBERS = MESSAGE_NUMBERS + Object.keys(NUMBERS).length;

/** Who has a log to be run again. */
export interface LoggedCanister {
  readonly name: string;
  readonly handle: number;
  readonly isRemoved: boolean;
}

/** The canister whose steps these are. */
export interface AccountedCanister extends StorableCanister, LoggedCanister {
  readonly settings: EnforcedSettings;
  /** Made when it is first asked for. */
  readonly output: CanisterOutput;
  readonly outputIfAny: CanisterOutput | undefined;
}

/** One for all canisters. */
export interface StepAccountingNeeds {
  readonly clock: Clock;
  readonly scheduler: Pick<Admission, 'lowMemory'>;
  readonly store: Pick<CanisterStore, 'isDurable' | 'append' | 'numbersChanged' | 'counted'>;
  readonly replayBudget: Pick<ReplayBudget<LoggedCanister>, 'logged'>;
  readonly watches: CanisterWatches;
  /** Rows of `STEP_NUMBERS` numbers each. */
  readonly numberRows: NumberRows;
}

export class StepAccounting {
  readonly #canister: AccountedCanister;
  readonly #needs: StepAccountingNeeds;
  lowMemoryHook: LowMemoryHook = 'condition_not_satisfied';
  #activity: CanisterActivity = NO_ACTIVITY;
  #balance: bigint;
  /** The other numbers, those that messages change and then `NUMBERS`: from `#at` on. */
  #block: Float64Array;
  #at: number;

  constructor(canister: AccountedCanister, balance: bigint, needs: StepAccountingNeeds) {
    this.#canister = canister;
    this.#needs = needs;
    this.#balance = balance;
    ({ block: this.#block, at: this.#at } = needs.numberRows.take());
    this.#put(NUMBERS.lastMessageMs, needs.clock.nowMs());
  }

  #get(number: number): number {
    // `?? 0`: several times a message, and a row has all of them.
    return this.#block[this.#at + number] ?? 0;
  }

  #put(number: number, value: number): void {
    this.#block[this.#at + number] = value;
  }

  /** Numbers that messages change. */
  get numbers(): MessageNumbers {
    return numbersAt(this.#block, this.#at);
  }

  get version(): number {
    return this.#get(VERSION);
  }

  set version(version: number) {
    this.#put(VERSION, version);
  }

  get heapBytes(): number {
    return this.#get(NUMBERS.heapBytes);
  }

  get stableBytes(): number {
    return this.#get(NUMBERS.stableBytes);
  }

  get messages(): number {
    return this.#get(NUMBERS.messages);
  }

  get traps(): number {
    return this.#get(NUMBERS.traps);
  }

  get lastMessageMs(): number {
    return this.#get(NUMBERS.lastMessageMs);
  }

  /** When the last step began, by the canister's own time, which may be ahead of the clock; ms since 1970. */
  get instantMs(): number {
    return this.#get(NUMBERS.instantMs);
  }

  get cyclesCharged(): number {
    return this.#get(NUMBERS.cyclesCharged);
  }

  get balance(): bigint {
    const pending = this.#get(NUMBERS.pendingCharge);
    if (pending > 0) this.#setBalance(this.#balance - BigInt(pending));
    return this.#balance;
  }

  #setBalance(balance: bigint): void {
    this.#put(NUMBERS.pendingCharge, 0);
    this.#balance = balance;
  }

  /** The canister's activity in this process. */
  get activity(): Readonly<CanisterActivity> {
    return this.#activity;
  }

  get usage(): CanisterUsage {
    const { queries } = this.#activity;
    return {
      cyclesCharged: BigInt(this.cyclesCharged),
      // Burned cycles leave with the balance and are not counted apart.
      cyclesBurned: 0n,
      queryCalls: queries.calls,
      queryInstructions: queries.instructions,
      queryRequestBytes: queries.requestBytes,
      queryResponseBytes: queries.responseBytes,
    };
  }

  // ---- what is no step

  /** Takes over what another process has stored. */
  recovered(numbers: Omit<StoredNumbers, 'timerMs' | 'status'>): void {
    this.#setBalance(numbers.balance);
    putNumbers(this.#block, this.#at, numbers.ofMessages);
    this.setMemory(numbers.heapBytes, numbers.stableBytes);
    this.#put(NUMBERS.messages, numbers.messages);
    this.#put(NUMBERS.traps, numbers.traps);
    this.#put(NUMBERS.lastMessageMs, numbers.lastMessageMs);
    this.#put(NUMBERS.instantMs, numbers.instantMs);
    this.#put(NUMBERS.cyclesCharged, numbers.cyclesCharged);
    this.lowMemoryHook = numbers.lowMemoryHook;
  }

  /** The canister's memory is another. */
  setMemory(heapBytes: number, stableBytes: number): void {
    this.#put(NUMBERS.heapBytes, heapBytes);
    this.#put(NUMBERS.stableBytes, stableBytes);
  }

  /** The canister's code is gone, and its memory with it. */
  emptied(): void {
    this.setMemory(0, 0);
    this.lowMemoryHook = 'condition_not_satisfied';
  }

  /** The canister is deleted: whoever still has it sees its own numbers. */
  end(): void {
    this.logIs(0);
    ({ block: this.#block, at: this.#at } = this.#needs.numberRows.free({ block: this.#block, at: this.#at }));
  }

  /**
   * The low-memory hook is due once each time the condition comes to hold (docs/execution-rules.md, "Time, heartbeats
   * and timers"). It stays `ready`, which is stored, until it has run: a canister that is not running gets its hook
   * when it is started, and one whose executor or server has ended before, when it is back.
   */
  checkMemory(): void {
    if (this.#canister.isRemoved) return;
    const { wasmMemoryLimit, wasmMemoryThreshold = 0 } = this.#canister.settings;
    const isLow = (wasmMemoryLimit || UNLIMITED_HEAP_BYTES) < this.heapBytes + wasmMemoryThreshold;
    const before = this.lowMemoryHook;
    if (isLow && before === 'executed') return;
    this.#hookIs(isLow ? 'ready' : 'condition_not_satisfied');
    if (isLow || before === 'ready') this.#needs.scheduler.lowMemory(this.#canister.handle, isLow);
  }

  /** The hook that was due has run, or the code has none. */
  lowMemoryRan(): void {
    if (this.lowMemoryHook === 'ready') this.#hookIs('executed');
  }

  #hookIs(hook: LowMemoryHook): void {
    if (hook === this.lowMemoryHook) return;
    this.lowMemoryHook = hook;
    this.#needs.store.numbersChanged(this.#canister);
  }

  // ---- what executors report

  /** The canister has fallen asleep, which ends its log, or has come back: no step tells of it. */
  logIs(instructions: number): void {
    this.#needs.replayBudget.logged(this.#canister, instructions);
  }

  stepEnded(ended: ToldStep, count: StepCount, message: number): void {
    const { store } = this.#needs;
    const { step, changes, lines, heapBytes, balance } = ended;
    const { charge } = step;
    for (const piece of changes) store.append(piece);
    if (store.isDurable) {
      const isSame = charge === 0 && balance === undefined && areNumbersAt(this.#block, this.#at, ended);
      if (!isSame) store.numbersChanged(this.#canister);
      this.#put(NUMBERS.instantMs, ended.instantMs);
      this.logIs(ended.loggedInstructions);
    }
    // Not before: the lines belong to the unit that the step belongs to.
    if (lines.length > 0) this.#canister.output.stepEnded(lines, message);
    const isMemoryChanged = heapBytes !== this.heapBytes;
    this.setMemory(heapBytes, ended.stableBytes);
    this.#takeNumbers(ended);
    this.#put(NUMBERS.cyclesCharged, this.cyclesCharged + charge);
    if (balance === undefined) this.#charge(charge);
    else this.#setBalance(balance);
    this.#count(step.fault, count);
    // One that is due may have found nobody to run it.
    if (isMemoryChanged || this.lowMemoryHook === 'ready') this.checkMemory();
  }

  /** Takes over the numbers after a step; but a version that the host has raised meanwhile stays. */
  #takeNumbers(ended: MessageNumbers): void {
    const { version } = this;
    putNumbers(this.#block, this.#at, ended);
    if (ended.version > version) this.#needs.watches.changed(this.#canister.handle);
    else this.version = version;
  }

  #count(fault: StepFault | undefined, count: StepCount): void {
    if (count === 'nothing' || fault?.kind === 'unavailable') return;
    const traps = fault?.kind === 'trap' || fault?.kind === 'calledTrap' || fault?.kind === 'limit' ? 1 : 0;
    const messages = count === 'message' ? 1 : 0;
    if (messages + traps > 0) this.executed(messages, traps);
  }

  #charge(cycles: number): void {
    const pending = this.#get(NUMBERS.pendingCharge) + cycles;
    if (pending > PENDING_CHARGE_MAX) this.#setBalance(this.#balance - BigInt(pending));
    else this.#put(NUMBERS.pendingCharge, pending);
  }

  credited(balance: bigint): void {
    this.#setBalance(balance);
    this.#needs.watches.changed(this.#canister.handle);
    this.#needs.store.numbersChanged(this.#canister);
  }

  /** The canister's executor has died, and with it a hook that was on its way. */
  lost(): void {
    if (this.lowMemoryHook === 'ready') this.checkMemory();
  }

  // ---- what has ended

  #active(): CanisterActivity {
    if (this.#activity === NO_ACTIVITY) this.#activity = new CanisterActivity();
    return this.#activity;
  }

  /** Counts what was addressed by name, and what no client sent. */
  executed(messages: number, traps: number): void {
    const activity = this.#active();
    activity.messagesByName += messages;
    activity.trapsByName += traps;
  }

  /** Counts one ended message from a client. */
  count(outcome: Outcome, { kind, argumentBytes, addressedBy = 'name' }: NotedMessage): void {
    const traps = outcome.kind === 'trap' || outcome.kind === 'limit' ? 1 : 0;
    const activity = this.#active();
    this.#put(NUMBERS.messages, this.messages + 1);
    this.#put(NUMBERS.traps, this.traps + traps);
    if (addressedBy === 'name') this.executed(1, traps);
    else {
      activity.messagesById++;
      activity.trapsById += traps;
    }
    this.#put(NUMBERS.lastMessageMs, this.#needs.clock.nowMs());
    this.#needs.store.counted(this.#canister);
    if (kind === 'update') return;
    const responseBytes = outcome.kind === 'reply' ? outcome.data.length : 0;
    activity.countQuery(outcome.instructions, argumentBytes, responseBytes);
  }
}
