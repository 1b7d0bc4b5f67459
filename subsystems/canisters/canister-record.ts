import type { Clock, Logger } from '../../kernel/index.ts';
import { type CandidInterface, principalToText } from '../codec/index.ts';
import type { CanisterGauges, CanisterObserver, ModuleInfo, Outcome } from '../execution/index.ts';
import { hexOf } from './canister-id.ts';
import { DebugBuffer } from './debug-buffer.ts';
import type { Canister } from './index.ts';

/** Charges are summed as a Number and taken from the balance before they leave the exact range. */
const PENDING_CHARGE_MAX = 2 ** 50;

export interface CanisterIdentity {
  readonly name: string;
  readonly id: Uint8Array;
  readonly module: ModuleInfo;
  readonly candid: CandidInterface | undefined;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
}

export interface RecordContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly forwardDebugOutput: boolean;
}

/** What the main thread knows of one canister: executors report to it, everybody else reads it. */
export class CanisterRecord implements Canister, CanisterObserver {
  readonly name: string;
  readonly id: Uint8Array;
  readonly idHex: string;
  readonly principal: string;
  readonly module: ModuleInfo;
  readonly candid: CandidInterface | undefined;
  readonly status = 'running';
  readonly controllers: readonly Uint8Array[];
  readonly debugBuffer = new DebugBuffer();
  /** The executors' name for it. */
  handle = -1;
  heapBytes = 0;
  stableBytes = 0;
  messages = 0;
  traps = 0;
  lastMessageMs: number;
  readonly #context: RecordContext;
  /** Not yet taken from `#balance`: subtracting a BigInt for every message would cost more than the rest of `ended`. */
  #pendingCharge = 0;
  #balance: bigint;

  constructor(identity: CanisterIdentity, context: RecordContext) {
    this.name = identity.name;
    this.id = identity.id;
    this.idHex = hexOf(identity.id);
    this.principal = principalToText(identity.id);
    this.module = identity.module;
    this.candid = identity.candid;
    this.controllers = identity.controllers;
    this.#balance = identity.balance;
    this.#context = context;
    this.lastMessageMs = context.clock.nowMs();
  }

  get balance(): bigint {
    if (this.#pendingCharge > 0) {
      this.#balance -= BigInt(this.#pendingCharge);
      this.#pendingCharge = 0;
    }
    return this.#balance;
  }

  setBalance(balance: bigint): void {
    this.#pendingCharge = 0;
    this.#balance = balance;
  }

  debug(text: string): void {
    this.debugBuffer.append(this.#context.clock.nowMs(), text);
    if (this.#context.forwardDebugOutput) this.#context.log.info(`[${this.name}] ${text}`);
  }

  ended(gauges: CanisterGauges): void {
    this.heapBytes = gauges.heapBytes;
    this.stableBytes = gauges.stableBytes;
    if (gauges.balance !== undefined) this.setBalance(gauges.balance);
    else this.#pendingCharge += gauges.charge;
    if (this.#pendingCharge > PENDING_CHARGE_MAX) this.setBalance(this.balance);
  }

  /** Counts one ended message. */
  count(outcome: Outcome): void {
    this.messages++;
    if (outcome.kind === 'trap' || outcome.kind === 'limit') this.traps++;
    this.lastMessageMs = this.#context.clock.nowMs();
  }
}
