/**
 * The management canister's view of the host: canisters, their numbers, and the few operations on them that only the
 * execution, the scheduler and the registry can perform.
 *
 * The division of work:
 * - The host keeps everything needed to run a canister: id, name, status, version, controllers, environment, code,
 *   state, balance, logs, and the settings that it enforces (`EnforcedSettings`).
 * - The management canister keeps the rest itself (other settings, history, chunk store, snapshots), checks every
 *   argument and every permission before it asks for anything, and asks for one change of a canister at a time.
 *
 * So nothing here checks permissions. An operation that is impossible throws, or rejects with, a ServerError: kind
 * `unavailable` if trying again may help, any other kind if not. Any other error is a bug.
 */
import type { CanisterStatus, LowMemoryHook, MessageTrace, Outcome, StepFault } from '../ic/index.ts';
import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { CanisterImage, CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Change } from './change.ts';
import type { ManagementAnswer, ManagementRequest } from './request.ts';

/**
 * A canister as the management canister sees it. The fields are live: they follow the last ended step. The same
 * canister always has the same object, so that records can be kept with it.
 */
export interface HostedCanister {
  readonly id: Uint8Array;
  readonly name: string;
  readonly status: CanisterStatus;
  /**
   * Reason why the canister's stored state cannot be used; undefined: it can. A damaged canister takes no calls and is
   * not changed.
   */
  readonly damage: string | undefined;
  /** Equals `status`, but a canister that is stopped only while its code is changed is running. */
  readonly storedStatus: CanisterStatus;
  /**
   * Increases by 1 for each successful change by a method of `ManagementBackend`, and for the other events that
   * docs/execution-rules.md ("The version of a canister") lists.
   */
  readonly version: number;
  readonly controllers: readonly Uint8Array[];
  /** The canister's own variables, without those that the host gives to every actor (`PUBLIC_CANISTER_ID:…`). */
  readonly environment: ReadonlyMap<string, string>;
  /** Undefined if the canister is empty. */
  readonly code: HostedCode | undefined;
  readonly balance: bigint;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Time at which the global timer fires, in ns since 1970; 0: off. */
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
  readonly usage: CanisterUsage;
  /**
   * Number of entries that the canister's history has ever had. The management canister owns it; it is here because
   * there may be very many canisters.
   */
  historyEntries: number;
}

export interface HostedCode {
  readonly module: ModuleInfo;
  /** The bytes as uploaded (raw or gzip). They are shared and must not be written to. */
  readonly wasm: Uint8Array;
}

/** Totals since the canister was created. */
export interface CanisterUsage {
  /** Cycles charged for executions. */
  readonly cyclesCharged: bigint;
  /** Cycles that the canister burned itself. */
  readonly cyclesBurned: bigint;
  readonly queryCalls: number;
  readonly queryInstructions: number;
  readonly queryRequestBytes: number;
  readonly queryResponseBytes: number;
}

/** The settings that running a canister depends on. Missing ones stay as they are. */
export interface EnforcedSettings {
  readonly controllers?: readonly Uint8Array[];
  /** Variables that replace all of the canister's own. */
  readonly environment?: ReadonlyMap<string, string>;
  /** Calls of other canisters that attach fewer cycles are rejected with code 5 and a full refund; default 0. */
  readonly minimumIncomingCanisterCallCycles?: bigint;
  /** Limit in bytes of the heap for update methods, init and post_upgrade; 0, the default: no limit. */
  readonly wasmMemoryLimit?: number;
  /**
   * The low-memory hook runs when fewer bytes than this are left below the limit, or below 4 GiB if there is none;
   * default 0.
   */
  readonly wasmMemoryThreshold?: number;
}

export interface NewCanister {
  /** Id of the new canister: 10 bytes in the format of the host's own ids. Undefined: the host's next free one. */
  readonly id: Uint8Array | undefined;
  /** Initial balance; undefined: the host's starting balance. */
  readonly balance: bigint | undefined;
  /** True if its queries find a certificate of its data that the host has signed. */
  readonly isCertified?: boolean;
  /** Settings, always with controllers. */
  readonly settings: EnforcedSettings & { readonly controllers: readonly Uint8Array[] };
}

/** A state that replaces the present one. */
export interface RestoredState {
  readonly image: CanisterImage;
  /** The uploaded bytes of `image.module`; undefined if and only if the module is. */
  readonly wasm: Uint8Array | undefined;
  /** The timer; undefined: the present one stays. */
  readonly timerNs: bigint | undefined;
  /** The hook's state; undefined: it is evaluated anew. */
  readonly lowMemoryHook: LowMemoryHook | undefined;
}

export interface CanisterLogRecord {
  readonly index: number;
  readonly timeNs: bigint;
  readonly content: Uint8Array;
}

/** Bits of a WebAssembly global's value, 32, 64 or 128 of them, unsigned. */
export interface GlobalValue {
  readonly type: 'i32' | 'i64' | 'f32' | 'f64' | 'v128';
  readonly bits: bigint;
}

/** An ended outcall, as the history of messages shows it. */
export interface EndedOutcall {
  readonly method: string;
  readonly url: string;
  /** Status of the response; 0: there was none. */
  readonly status: number;
  /** Start of the outcall in ms since 1970. */
  readonly startedMs: number;
  readonly endedMs: number;
  /** Place of the message that made the outcall; undefined: not known. */
  readonly cause: MessageTrace | undefined;
}

export interface ManagementBackend {
  /**
   * Connects the management canister: from now on every call to `aaaaa-aa` goes to it. Called once, before anything
   * starts; the host cannot start without it.
   */
  attach(management: ManagementHooks): void;
  /**
   * Has calls of canisters to that id answered by host code, as long as no canister has the id; called before anything
   * starts. Without this method such calls are rejected: there is no canister.
   */
  serve?(id: Uint8Array, canister: Pick<ManagementHooks, 'call'>): void;

  find(id: Uint8Array): HostedCanister | undefined;
  /** Returns all canisters in order of their ids. */
  list(): readonly HostedCanister[];

  /**
   * Creates an empty, running canister. Throws `invalid` if the id cannot be given: in use, used before, or of another
   * form.
   */
  create(spec: NewCanister): HostedCanister;
  configure(canister: HostedCanister, settings: EnforcedSettings): void;

  /**
   * Runs a change of the canister in turn with all others, whoever makes them: one at a time for each canister, in the
   * order in which they came. Must not be used within such a change of the same canister: it would wait for itself.
   * `change` finds out itself if the canister is still there. `deletion` is aborted once the canister is about to be
   * deleted with its calls: a change that takes long then ends. A backend that never does that leaves it out.
   */
  inTurn<T>(canister: HostedCanister, change: (deletion?: AbortSignal) => Promise<T>): Promise<T>;

  /** Prepares a module like `Execution.prepare`. */
  prepare(wasm: Uint8Array): Promise<ModuleInfo>;
  /**
   * Changes the code, after the tasks given before. Resolves with the fault if the change failed; nothing has changed
   * then. Rejects with the reason of `deletion` if that is aborted meanwhile.
   */
  change(
    canister: HostedCanister,
    code: HostedCode,
    change: CodeChange,
    deletion?: AbortSignal,
  ): Promise<StepFault | undefined>;
  /** Drops code, state, timer and logs; open call contexts are rejected with code 4. */
  uninstall(canister: HostedCanister): Promise<void>;

  /**
   * Takes a canister from stopping or stopped to running; callers that wait for its stop get `started`. For a running
   * one, only the version changes.
   */
  start(canister: HostedCanister): Promise<void>;
  /**
   * Takes a canister from running to stopping, and to stopped once no call context is open. Settles when it has stopped
   * (at once if it already has), when it was started instead, or when it was removed; there is no time limit.
   */
  stop(canister: HostedCanister): Promise<'stopped' | 'started' | 'removed'>;
  /** Forgets a stopped canister with its cycles, and calls `ManagementHooks.forget`. */
  remove(canister: HostedCanister): Promise<void>;

  /** Adds cycles and resolves with the new balance. */
  addCycles(canister: HostedCanister, amount: bigint): Promise<bigint>;

  /** Copies the state, after the tasks given before. The caller owns the buffers. */
  capture(canister: HostedCanister): Promise<CanisterImage>;
  /** Replaces the state. Open call contexts stay. The image's buffers are copied, so the caller may keep them. */
  restore(canister: HostedCanister, state: RestoredState): Promise<void>;
  /** Returns the values of `image.globals`, in index order. */
  readGlobals(image: CanisterImage): readonly GlobalValue[];
  /** Returns the bytes for `CanisterImage.globals`. Throws `invalid` if number or types differ from the module's. */
  writeGlobals(module: ModuleInfo, values: readonly GlobalValue[]): Uint8Array;

  /**
   * Runs a query method as the transform of an outcall, with the management canister as the caller, even in a canister
   * that is stopping. The argument's buffer is transferred.
   */
  transform(canister: HostedCanister, method: string, argument: Uint8Array): Promise<Outcome>;
  /** Adds the outcall to the canister's history of messages; does nothing if the canister is gone. */
  outcallEnded(canister: HostedCanister, outcall: EndedOutcall, outcome: Outcome): void;

  /** Returns the canister's debug output and its traps, oldest first; the host limits their number. */
  logs(canister: HostedCanister): readonly CanisterLogRecord[];
}
export const ManagementBackend = defineCapability<ManagementBackend>('management-backend');

/** The part of the management canister that the host calls. */
export interface ManagementHooks {
  call(request: ManagementRequest): Promise<ManagementAnswer>;
  /**
   * Reads the records of the host's canisters. Called once at the start, when the host has its canisters back and
   * before any other request. Resolves with the canisters whose records are damaged, each with a ServerError
   * `state-corrupt` that names the key: they must not be served. Rejects if records common to all are damaged. Records
   * of canisters that the host does not have stay as they are.
   */
  restore(): Promise<ReadonlyMap<HostedCanister, ServerError>>;
  /**
   * Reads the records of one canister that has come to this server, before any other request for it. Resolves with what
   * is damaged, as `restore` does. One that lacks this and `left` keeps nothing.
   */
  arrived?(canister: HostedCanister): Promise<ServerError | undefined>;
  /** Drops everything kept of a canister in memory: what is on disk is another server's. */
  left?(canister: HostedCanister): void;
  /**
   * Drops everything kept of a canister, in memory and on disk. Called when the canister is gone, whatever removed it.
   */
  forget(canister: HostedCanister): void;
  /** Gives a new canister the settings of another one, as far as they are kept here; one that lacks this keeps none. */
  inherit?(canister: HostedCanister, parent: HostedCanister): void;
  /** Adds to a canister's history a change that was not made by `call` (over HTTP, from the manifest). */
  record(canister: HostedCanister, change: Change): void;
}
