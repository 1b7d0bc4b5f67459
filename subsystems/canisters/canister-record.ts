/**
 * A canister as the main thread has it: its data. What its steps come to is in `step-accounting.ts`, what it prints in
 * `canister-output.ts`; where it is, and its status, only the scheduler knows.
 */
import type { CandidInterface } from '../codec/index.ts';
import {
  principalToText,
  factsAmong,
  factsToStore,
  type GivenFacts,
  type LowMemoryHook,
  type CanisterStatus,
  idFromText,
  idToText,
  NO_FACTS,
} from '../ic/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { CanisterUsage, EnforcedSettings, HostedCanister, HostedCode } from '../management/index.ts';
import type { Metering } from '../metering/index.ts';
import type { Admission, AsScheduled } from '../scheduler/index.ts';
import { ID_BYTES } from '../storage/index.ts';
import { CanisterOutput, type OutputNeeds } from './canister-output.ts';
import type { CanisterStore } from './canister-store.ts';
import type { ActorFiles, Canister, OpenMethods } from './index.ts';
import { NO_OPEN_METHODS, openMethodsOf, openMethodsToStore, openUnder } from './open-methods.ts';
import { limitsOf, NO_LIMITS, type SharedControllers, sharedVariables } from './shared-values.ts';
import { type AccountedCanister, StepAccounting, type StepAccountingNeeds } from './step-accounting.ts';
import type { StoredIdentity, StoredNumbers } from './stored-values.ts';

const scratch = Buffer.alloc(ID_BYTES);

export interface CanisterIdentity {
  readonly name: string;
  readonly id: Uint8Array;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
  /** The canister's own variables. */
  readonly environment: ReadonlyMap<string, string>;
  /** NO_FACTS by default. */
  readonly facts?: GivenFacts;
  readonly givenCandid?: string | undefined;
  readonly readFiles?: CanisterRecord['readFiles'];
}

export interface NewRecord extends Omit<CanisterIdentity, 'id' | 'balance'> {
  /** Undefined: the next free one. */
  readonly id?: Uint8Array | undefined;
  /** Undefined: the host's starting balance. */
  readonly balance?: bigint | undefined;
  /** True if the canister comes into being with its code: until it has some, nothing of it is stored. */
  readonly isInstalled?: boolean;
}

/** One for all records. */
export interface RecordContext extends StepAccountingNeeds, OutputNeeds {
  readonly scheduler: Pick<Admission, 'stateOf' | 'lowMemory'>;
  readonly store: CanisterStore;
  readonly metering: Metering;
  readonly sharedControllers: SharedControllers;
  /** Number of canisters that have open methods. */
  readonly opened: { count: number };
}

/** Code as it was installed, with its interface, and where it came from. */
export interface RecordedCode extends HostedCode {
  readonly candid: CandidInterface | undefined;
  /**
   * Why the interface that the module carries was not understood, with line and column; undefined: it was, or there is
   * none.
   */
  readonly candidProblem: string | undefined;
}

/** Presence of a canister. An unfinished one is being made with its code: a crash before that leaves nothing of it. */
type Presence = 'unfinished' | 'present' | 'removed';

/**
 * Who one canister is, as the main thread knows it: names, settings, code, whether it is there. Its numbers are its
 * steps' (step-accounting.ts), what it prints is its output's. There may be very many of these, nearly all asleep: what
 * most do not have is made when it is needed, and what can be computed is not kept.
 */
export class CanisterRecord implements Canister, HostedCanister, AccountedCanister {
  /** Undefined: it has no other name than its id. */
  readonly #name: string | undefined;
  readonly idText: string;
  /** The executors' and the scheduler's name for it. */
  readonly handle: number;
  #code: RecordedCode | undefined = undefined;
  /** .did text that the manifest or a client gave, for modules that carry none. */
  givenCandid: string | undefined;
  /** One object for all canisters whose operators gave none. */
  #facts: GivenFacts;
  /** The manifest's files, which an upgrade without a body reads again; by the canister's name. */
  readFiles: ((name: string) => Promise<ActorFiles>) | undefined;
  #controllers: readonly Uint8Array[];
  #environment: ReadonlyMap<string, string>;
  /** Without controllers and variables. */
  #settings: EnforcedSettings = NO_LIMITS;
  #openMethods: OpenMethods = NO_OPEN_METHODS;
  historyEntries = 0;
  codeChanges = 0;
  /** Why its stored state cannot be used; undefined: it can. */
  damage: string | undefined = undefined;
  /** Messages of its log that were run again when it was woken last. */
  replayed = 0;
  /** Bytes of stable memory that were written, when it was last read from storage. */
  storedStableBytes = 0;
  storedModule: string | undefined = undefined;
  /** Told of each step. */
  readonly steps: StepAccounting;
  #presence: Presence;
  readonly #context: RecordContext;
  #output: CanisterOutput | undefined = undefined;

  constructor(handle: number, identity: CanisterIdentity, context: RecordContext, isUnfinished = false) {
    this.handle = handle;
    this.idText = idToText(identity.id);
    this.#name = identity.name === hexOf(this.idText) ? undefined : identity.name;
    this.#context = context;
    this.#controllers = context.sharedControllers.of(identity.controllers);
    this.#environment = sharedVariables(identity.environment);
    this.#facts = identity.facts ?? NO_FACTS;
    this.givenCandid = identity.givenCandid;
    this.readFiles = identity.readFiles;
    this.#presence = isUnfinished ? 'unfinished' : 'present';
    this.steps = new StepAccounting(this, identity.balance, context);
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

  /** True if the canister has a name besides its id. */
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

  /** Facts that operators gave the canister. */
  get facts(): GivenFacts {
    return this.#facts;
  }

  set facts(facts: GivenFacts) {
    this.#facts = facts;
    this.#context.store.identityChanged(this);
  }

  get code(): RecordedCode | undefined {
    return this.#code;
  }

  set code(code: RecordedCode | undefined) {
    this.codeChanges++;
    this.#take(code);
  }

  /** Puts the same code with another interface in its place. */
  takeInterface(code: RecordedCode): void {
    this.#take(code);
  }

  #take(code: RecordedCode | undefined): void {
    const before = this.#code?.module;
    this.#code = code;
    if (this.#presence === 'unfinished') this.#presence = 'present';
    const open = openUnder(this.#openMethods, this, before, this.#context.log);
    this.#context.store.identityChanged(this);
    if (open !== this.#openMethods) this.openMethods = open;
    this.#context.watches.codeChanged(this.handle);
  }

  get openMethods(): OpenMethods {
    return this.#openMethods;
  }

  set openMethods(open: OpenMethods) {
    this.#open(open);
    this.#context.store.identityChanged(this);
    this.#context.watches.openMethodsChanged(this.handle);
  }

  #open(open: OpenMethods): void {
    this.#context.opened.count += Math.sign(open.names.size) - Math.sign(this.#openMethods.names.size);
    this.#openMethods = open;
  }

  get isUnfinished(): boolean {
    return this.#presence === 'unfinished';
  }

  get isRemoved(): boolean {
    return this.#presence === 'removed';
  }

  // ---- what its steps came to

  get version(): number {
    return this.steps.version;
  }

  get heapBytes(): number {
    return this.steps.heapBytes;
  }

  get stableBytes(): number {
    return this.steps.stableBytes;
  }

  get messages(): number {
    return this.steps.messages;
  }

  get traps(): number {
    return this.steps.traps;
  }

  get lastMessageMs(): number {
    return this.steps.lastMessageMs;
  }

  /**
   * While metering is off nobody pays, and none is shown: what it has (`steps.balance`) is kept for when it is on
   * again.
   */
  get balance(): bigint {
    return this.#context.metering.policy.isEnabled ? this.steps.balance : 0n;
  }

  get lowMemoryHook(): LowMemoryHook {
    return this.steps.lowMemoryHook;
  }

  get usage(): CanisterUsage {
    return this.steps.usage;
  }

  get messagesByName(): number {
    return this.steps.activity.messagesByName;
  }

  get trapsByName(): number {
    return this.steps.activity.trapsByName;
  }

  get messagesById(): number {
    return this.steps.activity.messagesById;
  }

  get trapsById(): number {
    return this.steps.activity.trapsById;
  }

  // ---- what is stored

  get identity(): StoredIdentity {
    const { name, controllers, environment, settings, givenCandid } = this;
    const moduleHash = this.#code?.module.hash;
    const open = openMethodsToStore(this.#openMethods);
    return { name, controllers, environment, settings, givenCandid, moduleHash, ...open, ...factsToStore(this.#facts) };
  }

  get numbers(): StoredNumbers {
    const { steps } = this;
    return {
      balance: steps.balance,
      ofMessages: steps.numbers,
      timerMs: this.isRemoved ? Number.POSITIVE_INFINITY : (this.#scheduled.storedTimerMs ?? Number.POSITIVE_INFINITY),
      heapBytes: steps.heapBytes,
      stableBytes: steps.stableBytes,
      messages: steps.messages,
      traps: steps.traps,
      lastMessageMs: steps.lastMessageMs,
      instantMs: steps.instantMs,
      cyclesCharged: steps.cyclesCharged,
      status: this.storedStatus,
      lowMemoryHook: steps.lowMemoryHook,
    };
  }

  /** Takes over what another process has stored. */
  recovered(code: RecordedCode | undefined, identity: StoredIdentity, numbers: StoredNumbers): void {
    this.#code = code;
    this.settings = identity.settings;
    this.givenCandid = identity.givenCandid;
    this.#facts = factsAmong(identity) ?? NO_FACTS;
    if (identity.openMethods !== undefined) this.#open(openMethodsOf(identity.openMethods));
    // The code's own string: thousands may share it.
    this.#context.store.recovered(this, code?.module.hash ?? identity.moduleHash);
    this.steps.recovered(numbers);
  }

  // ---- where it stands

  get module(): ModuleInfo | undefined {
    return this.#code?.module;
  }

  get candid(): CandidInterface | undefined {
    return this.#code?.candid;
  }

  get candidProblem(): string | undefined {
    return this.#code?.candidProblem;
  }

  get #scheduled(): AsScheduled {
    return this.#context.scheduler.stateOf(this.handle);
  }

  get status(): CanisterStatus {
    return this.isRemoved ? 'stopped' : this.#scheduled.status;
  }

  /** As `status`, but one that is stopped only while its code is changed is running. */
  get storedStatus(): CanisterStatus {
    return this.isRemoved ? 'stopped' : this.#scheduled.storedStatus;
  }

  get isLive(): boolean {
    return !this.isRemoved && !this.#scheduled.isAsleep;
  }

  get queued(): number {
    return this.isRemoved ? 0 : this.#scheduled.queued;
  }

  get timerNs(): bigint {
    const timerMs = this.isRemoved ? undefined : this.#scheduled.timerMs;
    return timerMs === undefined ? 0n : BigInt(Math.round(timerMs * 1000)) * 1000n;
  }

  /** Tells all watchers to look again. */
  noteChange(): void {
    this.#context.watches.changed(this.handle);
  }

  /** Something of what is stored has changed outside of a step. */
  changedOutside(): void {
    this.#context.store.identityChanged(this);
  }

  /** Notes the deletion: nobody knows the canister's status any more. */
  removed(): void {
    this.#presence = 'removed';
    this.#open(NO_OPEN_METHODS);
    this.#context.watches.removed(this.handle);
    this.steps.end();
  }

  /** Notes that the code is gone, and everything that came with it. */
  emptied(): void {
    this.code = undefined;
    this.steps.emptied();
    this.#output?.log.clear();
  }

  // ---- what it prints

  get output(): CanisterOutput {
    return (this.#output ??= new CanisterOutput(this.name, this.#context));
  }

  get outputIfAny(): CanisterOutput | undefined {
    return this.#output;
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
