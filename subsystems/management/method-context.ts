import { type MessageTrace, sameBytes } from '../ic/index.ts';
import { type Clock, NEVER_ABORTED, type Random, ServerError } from '../../kernel/index.ts';
import type { ArgumentOf, MethodName, NatJson, PrincipalJson, ResultOf } from './candid-types.ts';
import { toNat, toPrincipal, toPrincipalText } from './candid-values.ts';
import type { CanisterRecordExtras, CanisterRecords } from './canister-records.ts';
import type { Change, ChangeDetails, ChangeOrigin } from './change.ts';
import type { ManagementBackend, HostedCanister } from './backend.ts';
import { Refusal, REFUSE } from './refusal.ts';
import type { SigningKeys } from './keys/signing-keys.ts';

/** A call that is being executed. */
export interface Call {
  readonly sender: Uint8Array;
  readonly senderIsCanister: boolean;
  readonly isAdmin: boolean;
  readonly isTrusted: boolean;
  readonly mayCreate: boolean;
  readonly certifiesCreated: boolean;
  readonly method: MethodName;
  readonly cycles: bigint;
  /** Place of the message that makes the call; undefined: not known. */
  readonly cause: MessageTrace | undefined;
  /** Returns false from when on nobody waits for the answer. */
  readonly isAwaited: () => boolean;
  /** The part of the attached cycles that the method keeps; applies only if the method succeeds. */
  cyclesTaken: bigint;
}

/** A method. Its argument has been checked against the interface's types. */
type Method<M extends MethodName> = (argument: ArgumentOf<M>, call: Call) => ResultOf<M> | Promise<ResultOf<M>>;
export type Methods = { readonly [M in MethodName]: Method<M> };

/** Callers other than controllers that may do something with a canister. */
interface AlsoAllowed {
  readonly admin?: boolean;
  readonly itself?: boolean;
}

/** State and checks that the methods share. */
export class MethodContext {
  readonly host: ManagementBackend;
  readonly records: CanisterRecords;
  readonly clock: Clock;
  readonly random: Random;
  readonly keys: SigningKeys;
  readonly hostVersion: string;
  readonly stopTimeoutMs: number;

  constructor(parts: {
    readonly host: ManagementBackend;
    readonly records: CanisterRecords;
    readonly clock: Clock;
    readonly random: Random;
    readonly keys: SigningKeys;
    readonly hostVersion: string;
    readonly stopTimeoutMs: number;
  }) {
    this.host = parts.host;
    this.records = parts.records;
    this.clock = parts.clock;
    this.random = parts.random;
    this.keys = parts.keys;
    this.hostVersion = parts.hostVersion;
    this.stopTimeoutMs = parts.stopTimeoutMs;
  }

  /** Returns the time in ns since 1970, at the resolution that actors see. */
  nowNs(): bigint {
    return BigInt(Math.trunc(this.clock.nowMs() * 1000)) * 1000n;
  }

  /** Returns the canister. Refuses unknown canisters, and those whose stored state cannot be used. */
  find(id: PrincipalJson): HostedCanister {
    const canister = this.host.find(toPrincipal(id));
    if (canister === undefined) throw REFUSE.noCanister(id);
    if (canister.damage !== undefined)
      throw REFUSE.unavailable(`canister ${id} cannot be used, and stays as it is stored: ${canister.damage}`);
    return canister;
  }

  recordOf(canister: HostedCanister): CanisterRecordExtras {
    return this.records.of(canister);
  }

  mayControl(call: Call, canister: HostedCanister, also: AlsoAllowed = {}): boolean {
    if (also.admin === true && call.isAdmin) return true;
    if (also.itself === true && sameBytes(call.sender, canister.id)) return true;
    return canister.controllers.some((controller) => sameBytes(controller, call.sender));
  }

  expectControl(call: Call, canister: HostedCanister, also: AlsoAllowed = {}): void {
    if (this.mayControl(call, canister, also)) return;
    throw REFUSE.notAllowed(
      `${toPrincipalText(call.sender)} may not call ${call.method} for canister ${toPrincipalText(canister.id)}: ` +
        'the caller is not one of its controllers',
    );
  }

  /** Returns the canister if the sender controls it. */
  controlled(call: Call, id: PrincipalJson, also: AlsoAllowed = {}): HostedCanister {
    const canister = this.find(id);
    this.expectControl(call, canister, also);
    return canister;
  }

  /**
   * Changes a canister that the sender controls, after the changes before it. Existence and control are checked when
   * the change has its turn. `work` that takes long ends with the reason of `deletion` once that is aborted.
   */
  change<T>(
    call: Call,
    id: PrincipalJson,
    also: AlsoAllowed,
    work: (canister: HostedCanister, record: CanisterRecordExtras, deletion: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const canister = this.controlled(call, id, also);
    return this.host.inTurn(canister, async (deletion = NEVER_ABORTED) => {
      this.expectPresent(canister);
      this.expectControl(call, canister, also);
      try {
        return await this.records.use(canister, (record) => work(canister, record, deletion));
      } catch (error) {
        const isRefused = error instanceof ServerError || error instanceof Refusal;
        throw deletion.aborted && isRefused ? REFUSE.noCanister(id) : error;
      }
    });
  }

  /** Throws a Refusal if the canister was removed during a wait. */
  expectPresent(canister: HostedCanister): void {
    if (this.host.find(canister.id) !== canister) throw REFUSE.noCanister(toPrincipalText(canister.id));
  }

  /**
   * Reads `sender_canister_version`. The sender's version may have increased since it made the call, so only a version
   * that it has not reached yet is certainly wrong.
   */
  originOf(call: Call, senderVersion: NatJson | null): ChangeOrigin {
    const { sender, senderIsCanister } = call;
    if (!senderIsCanister) return { kind: 'user', id: sender };
    const version = senderVersion === null ? undefined : toNat(senderVersion);
    const canister = this.host.find(sender);
    if (version !== undefined && canister !== undefined && version > BigInt(canister.version))
      throw REFUSE.wrongState(`sender_canister_version is ${version}, but the sender's version is ${canister.version}`);
    return { kind: 'canister', id: sender, version };
  }

  /** Adds a change that has just been made to the canister's history. */
  enter(canister: HostedCanister, origin: ChangeOrigin, details: ChangeDetails): void {
    this.record(canister, { origin, details });
  }

  record(canister: HostedCanister, change: Change): void {
    this.records.histories.add(canister, { ...change, timeNs: this.nowNs(), version: canister.version });
  }
}
