import type { Clock, Logger } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import {
  principalToText,
  type Outcome,
  type OutputLine,
  type LowMemoryHook,
  type CanisterStatus,
  idFromText,
  idToText,
} from '../ic/index.ts';
import type { CanisterGauges, CanisterObserver, ModuleInfo } from '../execution/index.ts';
import type {
  CanisterLogRecord,
  CanisterUsage,
  EnforcedSettings,
  HostedCanister,
  HostedCode,
} from '../management/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import { ID_BYTES } from '../storage/index.ts';
import { CanisterActivity, NO_ACTIVITY } from './canister-activity.ts';
import type { CanisterStore } from './canister-store.ts';
import type { CanisterWatches } from './canister-watches.ts';
import { CanisterOutput } from './canister-output.ts';
import type { AddressedBy, Canister, DebugLine } from './index.ts';
import type { ReplayBudget } from './replay-budget.ts';
import type { StoredIdentity, StoredNumbers } from './stored-values.ts';
import type { NumberRows } from './number-rows.ts';
import type { SharedBudget } from './shared-budget.ts';
import { limitsOf, NO_LIMITS, type SharedControllers, sharedVariables } from './shared-values.ts';

/** Charges are summed as a Number and taken from the balance before they leave the exact range. */
const PENDING_CHARGE_MAX = 2 ** 50;

/** What the low-memory hook is measured by where `wasm_memory_limit` is not set, or 0; as on the replica also in 64-bit modules. */
const UNLIMITED_HEAP_BYTES = 2 ** 32;

/** Places in a record's row of numbers. */
const NUMBERS = {
  version: 0,
  heapBytes: 1,
  stableBytes: 2,
  messages: 3,
  traps: 4,
  lastMessageMs: 5,
  instantMs: 6,
  cyclesCharged: 7,
  /** Not yet taken from the balance: subtracting a BigInt for every message would cost more than the rest of `ended`. */
  pendingCharge: 8,
} as const;
/** Numbers that a record's row has. */
export const RECORD_NUMBERS = Object.keys(NUMBERS).length;

const scratch = Buffer.alloc(ID_BYTES);

export interface CanisterIdentity {
  readonly name: string;
  readonly id: Uint8Array;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
  /** The canister's own variables. */
  readonly environment: ReadonlyMap<string, string>;
}

export interface NewRecord extends Omit<CanisterIdentity, 'id' | 'balance'> {
  /** Undefined: the next free one. */
  readonly id?: Uint8Array | undefined;
  /** Undefined: the host's starting balance. */
  readonly balance?: bigint | undefined;
  /** It is there together with its code: until it has some, nothing of it is stored. */
  readonly isInstalled?: boolean;
}

export interface RecordContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly scheduler: Pick<
    Scheduler,
    'statusOf' | 'isLive' | 'queuedOf' | 'timerOf' | 'storedTimerOf' | 'lost' | 'lowMemory'
  >;
  readonly forwardDebugOutput: boolean;
  /** Of what all canisters have printed. */
  readonly outputBudget: SharedBudget;
  readonly keeper: CanisterStore;
  readonly replayBudget: Pick<ReplayBudget<CanisterRecord>, 'logged'>;
  readonly watches: CanisterWatches;
  readonly sharedControllers: SharedControllers;
  /** Of `RECORD_NUMBERS` each. */
  readonly numberRows: NumberRows;
}

/** What a canister prints while somebody listens. */
interface Heard {
  lastStep: readonly string[];
  /** Of the step that has not ended. */
  current: string[];
}

/** Code as it was installed, with its interface, and where it came from. */
export interface RecordedCode extends HostedCode {
  readonly candid: CandidInterface | undefined;
  /** Why the interface that the module carries was not understood, with line and column; undefined: it was, or there is none. */
  readonly candidProblem: string | undefined;
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
  /** .did text that the manifest or a client gave, for modules that carry none. */
  givenCandid: string | undefined = undefined;
  /** Its queries find a placeholder for a certificate. */
  #hasCertificate = false;
  /** The manifest's file, which an upgrade without a body reads again; by the canister's name. */
  readFile: ((name: string) => Promise<Uint8Array>) | undefined = undefined;
  #controllers: readonly Uint8Array[];
  #environment: ReadonlyMap<string, string>;
  /** Without controllers and variables. */
  #settings: EnforcedSettings = NO_LIMITS;
  lowMemoryHook: LowMemoryHook = 'condition_not_satisfied';
  historyEntries = 0;
  /** Why its stored state cannot be used; undefined: it can. */
  damage: string | undefined = undefined;
  /** Messages of its log that were run again when it was woken last. */
  replayed = 0;
  /** It is being made with its code: a crash before it has that leaves nothing of it. */
  isUnfinished = false;
  /** Its status as it is stored, while it is stopped only for an upgrade. */
  keptStatus: CanisterStatus | undefined = undefined;
  #isRemoved = false;
  readonly #context: RecordContext;
  #activity: CanisterActivity = NO_ACTIVITY;
  #output: CanisterOutput | undefined = undefined;
  /** While its code is changed. */
  #heard: Heard | undefined = undefined;
  #balance: bigint;
  /** Its other numbers (`NUMBERS`): from `#at` on in a block that many share. */
  #block: Float64Array;
  #at: number;

  constructor(identity: CanisterIdentity, context: RecordContext) {
    this.idText = idToText(identity.id);
    this.#name = identity.name === hexOf(this.idText) ? undefined : identity.name;
    this.#context = context;
    this.#controllers = context.sharedControllers.of(identity.controllers);
    this.#environment = sharedVariables(identity.environment);
    this.#balance = identity.balance;
    ({ block: this.#block, at: this.#at } = context.numberRows.take());
    this.#put(NUMBERS.lastMessageMs, context.clock.nowMs());
  }

  get id(): Uint8Array {
    return idFromText(this.idText);
  }

  get idHex(): string {
    return hexOf(this.idText);
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

  get hasCertificate(): boolean {
    return this.#hasCertificate;
  }

  /** For good: an actor that needs one does not serve without. */
  giveCertificate(): void {
    this.#hasCertificate = true;
    this.#context.keeper.identityChanged(this);
  }

  get code(): RecordedCode | undefined {
    return this.#code;
  }

  set code(code: RecordedCode | undefined) {
    this.#code = code;
    this.isUnfinished = false;
    this.#context.keeper.identityChanged(this);
    this.#context.watches.codeChanged(this.handle);
  }

  get isRemoved(): boolean {
    return this.#isRemoved;
  }

  // ---- its numbers

  #get(number: number): number {
    return this.#block[this.#at + number] ?? 0;
  }

  #put(number: number, value: number): void {
    this.#block[this.#at + number] = value;
  }

  get version(): number {
    return this.#get(NUMBERS.version);
  }

  set version(version: number) {
    this.#put(NUMBERS.version, version);
  }

  get heapBytes(): number {
    return this.#get(NUMBERS.heapBytes);
  }

  set heapBytes(heapBytes: number) {
    this.#put(NUMBERS.heapBytes, heapBytes);
  }

  get stableBytes(): number {
    return this.#get(NUMBERS.stableBytes);
  }

  set stableBytes(stableBytes: number) {
    this.#put(NUMBERS.stableBytes, stableBytes);
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

  /** When its last step began, ms since 1970. */
  get instantMs(): number {
    return this.#get(NUMBERS.instantMs);
  }

  // ---- what is stored

  get identity(): StoredIdentity {
    const { name, controllers, environment, settings, givenCandid } = this;
    const moduleHash = this.#code?.module.hash;
    const identity = { name, controllers, environment, settings, givenCandid, moduleHash };
    return this.#hasCertificate ? { ...identity, hasCertificate: true } : identity;
  }

  get numbers(): StoredNumbers {
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
      cyclesCharged: this.#get(NUMBERS.cyclesCharged),
      status: this.keptStatus ?? this.status,
      lowMemoryHook: this.lowMemoryHook,
    };
  }

  /** Takes over what another process has stored. */
  recovered(code: RecordedCode | undefined, identity: StoredIdentity, numbers: StoredNumbers): void {
    this.#code = code;
    this.settings = identity.settings;
    this.givenCandid = identity.givenCandid;
    this.#hasCertificate = identity.hasCertificate ?? false;
    this.setBalance(numbers.balance);
    this.version = numbers.version;
    this.heapBytes = numbers.heapBytes;
    this.stableBytes = numbers.stableBytes;
    this.#put(NUMBERS.messages, numbers.messages);
    this.#put(NUMBERS.traps, numbers.traps);
    this.#put(NUMBERS.lastMessageMs, numbers.lastMessageMs);
    this.#put(NUMBERS.instantMs, numbers.instantMs);
    this.#put(NUMBERS.cyclesCharged, numbers.cyclesCharged);
    this.lowMemoryHook = numbers.lowMemoryHook;
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
    if (this.#activity === NO_ACTIVITY) this.#activity = new CanisterActivity();
    return this.#activity;
  }

  // ----

  get module(): ModuleInfo | undefined {
    return this.#code?.module;
  }

  get candid(): CandidInterface | undefined {
    return this.#code?.candid;
  }

  get candidProblem(): string | undefined {
    return this.#code?.candidProblem;
  }

  get status(): CanisterStatus {
    return this.#isRemoved ? 'stopped' : this.#context.scheduler.statusOf(this.handle);
  }

  get isLive(): boolean {
    return !this.#isRemoved && this.#context.scheduler.isLive(this.handle);
  }

  get queued(): number {
    return this.#isRemoved ? 0 : this.#context.scheduler.queuedOf(this.handle);
  }

  get timerNs(): bigint {
    const timerMs = this.#isRemoved ? undefined : this.#context.scheduler.timerOf(this.handle);
    return timerMs === undefined ? 0n : BigInt(Math.round(timerMs * 1000)) * 1000n;
  }

  get balance(): bigint {
    const pending = this.#get(NUMBERS.pendingCharge);
    if (pending > 0) this.setBalance(this.#balance - BigInt(pending));
    return this.#balance;
  }

  get usage(): CanisterUsage {
    const { queries } = this.#activity;
    return {
      cyclesCharged: BigInt(this.#get(NUMBERS.cyclesCharged)),
      // Burned cycles leave with the balance and are not counted apart.
      cyclesBurned: 0n,
      queryCalls: queries.calls,
      queryInstructions: queries.instructions,
      queryRequestBytes: queries.requestBytes,
      queryResponseBytes: queries.responseBytes,
    };
  }

  setBalance(balance: bigint): void {
    this.#put(NUMBERS.pendingCharge, 0);
    this.#balance = balance;
  }

  /** Whoever watches it is to look again. */
  noteChange(): void {
    this.#context.watches.changed(this.handle);
  }

  /** Something of what is stored has changed outside of a step. */
  changedOutside(): void {
    this.#context.keeper.identityChanged(this);
  }

  /** It is deleted: nobody knows its status any more. */
  removed(): void {
    this.#context.replayBudget.logged(this, 0);
    this.#isRemoved = true;
    this.#context.watches.removed(this.handle);
    // Whoever still has the record sees its own numbers.
    ({ block: this.#block, at: this.#at } = this.#context.numberRows.giveBack({ block: this.#block, at: this.#at }));
  }

  /** Its code is gone, and what came with it. */
  emptied(): void {
    this.code = undefined;
    this.heapBytes = 0;
    this.stableBytes = 0;
    this.lowMemoryHook = 'condition_not_satisfied';
    this.#output?.log.clear();
  }

  /** The low-memory hook is due once each time the condition comes to hold (docs/execution-rules.md, "Time, heartbeats and timers"). */
  checkMemory(): void {
    const { wasmMemoryLimit, wasmMemoryThreshold = 0 } = this.settings;
    const isLow = (wasmMemoryLimit || UNLIMITED_HEAP_BYTES) < this.heapBytes + wasmMemoryThreshold;
    if (!isLow) this.lowMemoryHook = 'condition_not_satisfied';
    else if (this.lowMemoryHook !== 'executed') {
      // A canister that is not running gets its hook when it is started.
      this.lowMemoryHook = this.#context.scheduler.lowMemory(this.handle) ? 'executed' : 'ready';
    }
  }

  // ---- what it prints

  debug(line: OutputLine): void {
    const timeMs = this.#context.clock.nowMs();
    this.#heard?.current.push(line.text);
    // What a message prints tells of a state that is not durable yet.
    if (this.#context.keeper.isKept) this.output.unprinted.push({ timeMs, line });
    else this.#print(this.output, timeMs, line);
  }

  /** Made when it is first asked for. */
  get output(): CanisterOutput {
    return (this.#output ??= new CanisterOutput(this.#context.outputBudget));
  }

  get outputIfAny(): CanisterOutput | undefined {
    return this.#output;
  }

  #print(output: CanisterOutput, timeMs: number, line: OutputLine): void {
    output.print(timeMs, line);
    if (this.#context.forwardDebugOutput) this.#context.log.info(`[${this.name}] ${line.text}`);
  }

  #printAfterwards(output: CanisterOutput): void {
    const lines = output.unprinted;
    output.unprinted = [];
    this.#context.keeper.afterwards(() => {
      for (const { timeMs, line } of lines) this.#print(output, timeMs, line);
    });
  }

  /** Takes the lines since the last time, without those whose step is not durable. */
  takePrinted(): readonly DebugLine[] {
    return this.#output?.take() ?? [];
  }

  /** What is returned ends it, and gives the lines of the last step that ended meanwhile. Whoever reads the output gets them as well. */
  listen(): () => readonly string[] {
    const heard: Heard = { lastStep: [], current: [] };
    this.#heard = heard;
    return () => {
      this.#heard = undefined;
      return heard.lastStep;
    };
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
    if (this.#heard !== undefined) {
      this.#heard.lastStep = this.#heard.current;
      this.#heard.current = [];
    }
    if (keeper.isKept) {
      const isChanged = gauges.charge > 0 || gauges.balance !== undefined || gauges.version !== this.version;
      if (isChanged) keeper.numbersChanged(this);
      this.#put(NUMBERS.instantMs, gauges.instantMs);
      this.#context.replayBudget.logged(this, gauges.loggedInstructions);
      const output = this.#output;
      if (output !== undefined && output.unprinted.length > 0) this.#printAfterwards(output);
    }
    const isMemoryChanged = gauges.heapBytes !== this.heapBytes;
    this.heapBytes = gauges.heapBytes;
    this.stableBytes = gauges.stableBytes;
    if (gauges.version > this.version) {
      this.version = gauges.version;
      this.#context.watches.changed(this.handle);
    }
    this.#put(NUMBERS.cyclesCharged, this.#get(NUMBERS.cyclesCharged) + gauges.charge);
    if (gauges.balance === undefined) this.#charge(gauges.charge);
    else this.setBalance(gauges.balance);
    if (isMemoryChanged) this.checkMemory();
  }

  #charge(cycles: number): void {
    const pending = this.#get(NUMBERS.pendingCharge) + cycles;
    if (pending > PENDING_CHARGE_MAX) this.setBalance(this.#balance - BigInt(pending));
    else this.#put(NUMBERS.pendingCharge, pending);
  }

  credited(balance: bigint): void {
    this.setBalance(balance);
    this.#context.watches.changed(this.handle);
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
    this.#put(NUMBERS.messages, this.messages + 1);
    this.#put(NUMBERS.traps, this.traps + traps);
    if (addressedBy === 'name') this.executed(1, traps);
    else {
      activity.messagesById++;
      activity.trapsById += traps;
    }
    this.#put(NUMBERS.lastMessageMs, this.#context.clock.nowMs());
    this.#context.keeper.counted(this);
    if (kind === 'update') return;
    const responseBytes = outcome.kind === 'reply' ? outcome.data.length : 0;
    activity.countQuery(outcome.instructions, requestBytes, responseBytes);
  }
}

/** For every answer: so without a buffer of its own. */
function hexOf(idText: string): string {
  return scratch.toString('hex', 0, scratch.write(idText, 'latin1'));
}

/** The record behind what this room has handed out. Throws when it comes from elsewhere. */
export function recordOf(canister: Canister | HostedCanister): CanisterRecord {
  if (canister instanceof CanisterRecord) return canister;
  throw new Error(`${canister.name} is not a canister of this host`);
}
