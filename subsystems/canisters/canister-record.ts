import type { Clock, Logger } from '../../kernel/index.ts';
import { type CandidInterface, principalToText } from '../codec/index.ts';
import type { CanisterGauges, CanisterObserver, ModuleInfo, Outcome } from '../execution/index.ts';
import type {
  CanisterLogRecord,
  CanisterUsage,
  EnforcedSettings,
  HostedCanister,
  HostedCode,
  LowMemoryHook,
} from '../management/index.ts';
import { type CanisterStatus, idFromText, idToText, type Scheduler } from '../scheduler/index.ts';
import { CanisterActivity, NO_ACTIVITY } from './canister-activity.ts';
import type { CanisterKeeper } from './canister-keeper.ts';
import { CanisterOutput } from './canister-output.ts';
import type { AddressedBy, Canister, DebugLine } from './index.ts';
import type { ReplayBudget } from './replay-budget.ts';
import type { KeptIdentity, KeptNumbers } from './kept-values.ts';
import { limitsOf, NO_LIMITS, type SharedControllers, sharedVariables } from './shared-values.ts';

/** Charges are summed as a Number and taken from the balance before they leave the exact range. */
const PENDING_CHARGE_MAX = 2 ** 50;

export interface CanisterIdentity {
  readonly name: string;
  readonly id: Uint8Array;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
  /** The canister's own variables. */
  readonly environment: ReadonlyMap<string, string>;
}

export interface RecordContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly scheduler: Pick<Scheduler, 'statusOf' | 'isLive' | 'timerOf' | 'storedTimerOf' | 'lost' | 'lowMemory'>;
  readonly forwardDebugOutput: boolean;
  readonly keeper: CanisterKeeper;
  readonly replayBudget: ReplayBudget;
  readonly sharedControllers: SharedControllers;
}

/** Code as it was installed, with its interface, and where it came from. */
export interface RecordedCode extends HostedCode {
  readonly candid: CandidInterface | undefined;
}

/**
 * What the main thread knows of one canister: executors report to it, everybody else reads it. There may be very many of
 * these, nearly all asleep: what most do not have is made when it is needed, and what can be computed is not kept.
 */
export class CanisterRecord implements Canister, CanisterObserver, HostedCanister {
  /** Undefined: it has no other name than its id. */
  readonly #name: string | undefined;
  readonly idText: string;
  /** The executors' and the scheduler's name for it. */
  handle = -1;
  #code: RecordedCode | undefined = undefined;
  /** .did text that the manifest gave, for modules that carry none. */
  givenCandid: string | undefined = undefined;
  /** The manifest's file, which an upgrade without a body reads again; by the canister's name. */
  readFile: ((name: string) => Promise<Uint8Array>) | undefined = undefined;
  #controllers: readonly Uint8Array[];
  #environment: ReadonlyMap<string, string>;
  /** Without controllers and variables. */
  #settings: EnforcedSettings = NO_LIMITS;
  version = 0;
  heapBytes = 0;
  stableBytes = 0;
  messages = 0;
  traps = 0;
  lastMessageMs: number;
  lowMemoryHook: LowMemoryHook = 'condition_not_satisfied';
  /** When its last step began, ms since 1970. */
  instantMs = 0;
  /** Why its stored state cannot be used; undefined: it can. */
  damage: string | undefined = undefined;
  /** Messages of its log that were run again when it was woken last. */
  replayed = 0;
  /** It is being made with its code: a crash before it has that leaves nothing of it. */
  isUnfinished = false;
  /** Its status as it is stored, while it is stopped only for an upgrade. */
  keptStatus: CanisterStatus | undefined = undefined;
  /** It is being put to sleep. */
  fallingAsleep: Promise<void> | undefined = undefined;
  #isRemoved = false;
  readonly #context: RecordContext;
  #activity: CanisterActivity = NO_ACTIVITY;
  #output: CanisterOutput | undefined = undefined;
  #cyclesCharged = 0;
  /** Not yet taken from `#balance`: subtracting a BigInt for every message would cost more than the rest of `ended`. */
  #pendingCharge = 0;
  #balance: bigint;

  constructor(identity: CanisterIdentity, context: RecordContext) {
    this.idText = idToText(identity.id);
    this.#name = identity.name === hexOf(this.idText) ? undefined : identity.name;
    this.#context = context;
    this.#controllers = context.sharedControllers.of(identity.controllers);
    this.#environment = sharedVariables(identity.environment);
    this.#balance = identity.balance;
    this.lastMessageMs = context.clock.nowMs();
  }

  get id(): Uint8Array {
    return idFromText(this.idText);
  }

  get idHex(): string {
    return this.#activity === NO_ACTIVITY ? hexOf(this.idText) : this.#activity.idHex;
  }

  get principal(): string {
    return principalToText(this.id);
  }

  get name(): string {
    return this.#name ?? this.idHex;
  }

  /** It has a name besides its id. */
  get isNamed(): boolean {
    return this.#name !== undefined;
  }

  get controllers(): readonly Uint8Array[] {
    return this.#controllers;
  }

  set controllers(controllers: readonly Uint8Array[]) {
    this.#controllers = this.#context.sharedControllers.of(controllers);
  }

  get environment(): ReadonlyMap<string, string> {
    return this.#environment;
  }

  set environment(environment: ReadonlyMap<string, string>) {
    this.#environment = sharedVariables(environment);
  }

  get settings(): EnforcedSettings {
    return this.#settings;
  }

  set settings(settings: EnforcedSettings) {
    this.#settings = limitsOf(settings);
  }

  get code(): RecordedCode | undefined {
    return this.#code;
  }

  set code(code: RecordedCode | undefined) {
    this.#code = code;
    this.isUnfinished = false;
    this.#context.keeper.identityChanged(this);
  }

  get isRemoved(): boolean {
    return this.#isRemoved;
  }

  // ---- what is stored

  get identity(): KeptIdentity {
    const { name, controllers, environment, settings, givenCandid } = this;
    return { name, controllers, environment, settings, givenCandid, moduleHash: this.#code?.module.hash };
  }

  get numbers(): KeptNumbers {
    return {
      balance: this.balance,
      version: this.version,
      timerMs: this.#isRemoved
        ? Number.POSITIVE_INFINITY
        : (this.#context.scheduler.storedTimerOf(this.handle) ?? Number.POSITIVE_INFINITY),
      heapBytes: this.heapBytes,
      stableBytes: this.stableBytes,
      messages: this.messages,
      traps: this.traps,
      lastMessageMs: this.lastMessageMs,
      instantMs: this.instantMs,
      cyclesCharged: this.#cyclesCharged,
      status: this.keptStatus ?? this.status,
      lowMemoryHook: this.lowMemoryHook,
    };
  }

  /** Takes over what another process has stored. */
  recovered(code: RecordedCode | undefined, identity: KeptIdentity, numbers: KeptNumbers): void {
    this.#code = code;
    this.settings = identity.settings;
    this.givenCandid = identity.givenCandid;
    this.setBalance(numbers.balance);
    this.version = numbers.version;
    this.heapBytes = numbers.heapBytes;
    this.stableBytes = numbers.stableBytes;
    this.messages = numbers.messages;
    this.traps = numbers.traps;
    this.lastMessageMs = numbers.lastMessageMs;
    this.instantMs = numbers.instantMs;
    this.lowMemoryHook = numbers.lowMemoryHook;
    this.#cyclesCharged = numbers.cyclesCharged;
  }

  // ---- what it did in this process

  get messagesByName(): number {
    return this.#activity.messagesByName;
  }

  get trapsByName(): number {
    return this.#activity.trapsByName;
  }

  get messagesById(): number {
    return this.#activity.messagesById;
  }

  get trapsById(): number {
    return this.#activity.trapsById;
  }

  #active(): CanisterActivity {
    if (this.#activity === NO_ACTIVITY) this.#activity = new CanisterActivity(hexOf(this.idText));
    return this.#activity;
  }

  // ----

  get module(): ModuleInfo | undefined {
    return this.#code?.module;
  }

  get candid(): CandidInterface | undefined {
    return this.#code?.candid;
  }

  get status(): CanisterStatus {
    return this.#isRemoved ? 'stopped' : this.#context.scheduler.statusOf(this.handle);
  }

  get isLive(): boolean {
    return !this.#isRemoved && this.#context.scheduler.isLive(this.handle);
  }

  get timerNs(): bigint {
    const timerMs = this.#isRemoved ? undefined : this.#context.scheduler.timerOf(this.handle);
    return timerMs === undefined ? 0n : BigInt(Math.round(timerMs * 1000)) * 1000n;
  }

  get balance(): bigint {
    if (this.#pendingCharge > 0) {
      this.#balance -= BigInt(this.#pendingCharge);
      this.#pendingCharge = 0;
    }
    return this.#balance;
  }

  get usage(): CanisterUsage {
    return {
      cyclesCharged: BigInt(this.#cyclesCharged),
      // Burned cycles leave with the balance and are not counted apart.
      cyclesBurned: 0n,
      queryCalls: this.#activity.queryCalls,
      queryInstructions: this.#activity.queryInstructions,
      queryRequestBytes: this.#activity.queryRequestBytes,
      queryResponseBytes: this.#activity.queryResponseBytes,
    };
  }

  setBalance(balance: bigint): void {
    this.#pendingCharge = 0;
    this.#balance = balance;
  }

  /** Something of what is stored has changed outside of a step. */
  changedOutside(): void {
    this.#context.keeper.identityChanged(this);
  }

  /** It is deleted: nobody knows its status any more. */
  removed(): void {
    this.#context.replayBudget.logged(this, 0);
    this.#isRemoved = true;
  }

  /** Its code is gone, and what came with it. */
  emptied(): void {
    this.code = undefined;
    this.heapBytes = 0;
    this.stableBytes = 0;
    this.lowMemoryHook = 'condition_not_satisfied';
    this.#output?.log.clear();
  }

  /** The low-memory hook is due once each time the condition comes to hold (reference/execution.md §8). */
  checkMemory(): void {
    const { wasmMemoryLimit = 0, wasmMemoryThreshold = 0 } = this.settings;
    const isLow = wasmMemoryLimit > 0 && wasmMemoryLimit < this.heapBytes + wasmMemoryThreshold;
    if (!isLow) this.lowMemoryHook = 'condition_not_satisfied';
    else if (this.lowMemoryHook !== 'executed') {
      // A canister that is not running gets its hook when it is started.
      this.lowMemoryHook = this.#context.scheduler.lowMemory(this.handle) ? 'executed' : 'ready';
    }
  }

  // ---- what it prints

  debug(text: string): void {
    const timeMs = this.#context.clock.nowMs();
    this.#output ??= new CanisterOutput();
    // What a message prints tells of a state that is not durable yet.
    if (this.#context.keeper.isKept) this.#output.unprinted.push({ timeMs, text });
    else this.#print(this.#output, timeMs, text);
  }

  #print(output: CanisterOutput, timeMs: number, text: string): void {
    output.print(timeMs, text);
    if (this.#context.forwardDebugOutput) this.#context.log.info(`[${this.name}] ${text}`);
  }

  #printAfterwards(output: CanisterOutput): void {
    const lines = output.unprinted;
    output.unprinted = [];
    this.#context.keeper.afterwards(() => {
      for (const { timeMs, text } of lines) this.#print(output, timeMs, text);
    });
  }

  /** Takes the lines since the last time, without those whose step is not durable. */
  takePrinted(): readonly DebugLine[] {
    return this.#output?.buffer.take() ?? [];
  }

  /** Takes all lines since the last time. */
  takeLines(): readonly DebugLine[] {
    const output = this.#output;
    if (output === undefined) return [];
    for (const { timeMs, text } of output.unprinted.splice(0)) this.#print(output, timeMs, text);
    return output.buffer.take();
  }

  get logRecords(): readonly CanisterLogRecord[] {
    return this.#output?.log.records ?? [];
  }

  /** Lines that it ever printed in this process. */
  get logLength(): number {
    return this.#output?.log.length ?? 0;
  }

  /** Drops from the log the lines that were there when there had been `length` of them. */
  forgetLog(length: number): void {
    this.#output?.log.forget(length);
  }

  // ---- what executors report

  changed(operations: Uint8Array): void {
    this.#context.keeper.append(operations);
  }

  ended(gauges: CanisterGauges): void {
    const { keeper } = this.#context;
    if (keeper.isKept) {
      const isChanged = gauges.charge > 0 || gauges.balance !== undefined || gauges.version !== this.version;
      if (isChanged) keeper.numbersChanged(this);
      this.instantMs = gauges.instantMs;
      this.#context.replayBudget.logged(this, gauges.loggedInstructions);
      const output = this.#output;
      if (output !== undefined && output.unprinted.length > 0) this.#printAfterwards(output);
    }
    const isMemoryChanged = gauges.heapBytes !== this.heapBytes;
    this.heapBytes = gauges.heapBytes;
    this.stableBytes = gauges.stableBytes;
    if (gauges.version > this.version) this.version = gauges.version;
    this.#cyclesCharged += gauges.charge;
    if (gauges.balance !== undefined) this.setBalance(gauges.balance);
    else this.#pendingCharge += gauges.charge;
    if (this.#pendingCharge > PENDING_CHARGE_MAX) this.setBalance(this.balance);
    if (isMemoryChanged) this.checkMemory();
  }

  credited(balance: bigint): void {
    this.setBalance(balance);
    this.#context.keeper.numbersChanged(this);
  }

  settled(): Promise<void> {
    return this.#context.keeper.settled();
  }

  lost(): void {
    this.#context.scheduler.lost(this.handle);
  }

  /** Counts what was addressed by name, and what no client sent. */
  executed(messages: number, traps: number): void {
    const activity = this.#active();
    activity.messagesByName += messages;
    activity.trapsByName += traps;
  }

  /** Counts one ended message from a client. */
  count(outcome: Outcome, kind: 'update' | 'query', requestBytes: number, addressedBy: AddressedBy): void {
    const traps = outcome.kind === 'trap' || outcome.kind === 'limit' ? 1 : 0;
    const activity = this.#active();
    this.messages++;
    this.traps += traps;
    if (addressedBy === 'name') this.executed(1, traps);
    else {
      activity.messagesById++;
      activity.trapsById += traps;
    }
    this.lastMessageMs = this.#context.clock.nowMs();
    this.#context.keeper.counted(this);
    if (kind === 'update') return;
    activity.queryCalls++;
    activity.queryInstructions += outcome.instructions;
    activity.queryRequestBytes += requestBytes;
    activity.queryResponseBytes += outcome.kind === 'reply' ? outcome.data.length : 0;
  }
}

function hexOf(idText: string): string {
  return Buffer.from(idText, 'latin1').toString('hex');
}
