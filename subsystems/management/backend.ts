/**
 * What the management canister needs of the host: which canisters there are, their numbers, and the few things that
 * only the execution, the scheduler and the registry can do to them.
 *
 * The division of work:
 * - The host keeps what it must know to run a canister: id, name, status, version, controllers, environment, code,
 *   state, balance, logs, and the settings that it enforces (`EnforcedSettings`).
 * - The management canister keeps the rest by itself (other settings, history, chunk store, snapshots), checks every
 *   argument and every permission before it asks for anything, and asks for one change of a canister at a time.
 *
 * So nothing here checks who asks. What cannot be done throws, or rejects with, a ServerError: kind `unavailable` when
 * trying again may help, any other kind when not. Anything else that is thrown is a bug.
 */
import type { CanisterStatus, LowMemoryHook, Outcome, StepFault } from '../ic/index.ts';
import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { CanisterImage, CodeChange, ModuleInfo } from '../execution/index.ts';
import type { Change } from './change.ts';
import type { ManagementAnswer, ManagementRequest } from './request.ts';

/**
 * A canister as the management canister sees it. Live: the fields follow the last ended step. Always the same object
 * for the same canister, so that records can be kept with it.
 */
export interface HostedCanister {
  readonly id: Uint8Array;
  readonly name: string;
  readonly status: CanisterStatus;
  /** Why what is stored of it cannot be used; undefined: it can. It takes no calls and is not changed. */
  readonly damage: string | undefined;
  /** As `status`, but a canister that is stopped only while its code is changed is running. */
  readonly storedStatus: CanisterStatus;
  /** Adds 1 for each successful change by a method of `CanisterHost`, and for what docs/execution-rules.md ("The version of a canister") lists besides. */
  readonly version: number;
  readonly controllers: readonly Uint8Array[];
  /** The canister's own variables, without those that the host gives to every actor (`PUBLIC_CANISTER_ID:…`). */
  readonly environment: ReadonlyMap<string, string>;
  /** Undefined: the canister is empty. */
  readonly code: HostedCode | undefined;
  readonly balance: bigint;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Ns since 1970 at which the global timer fires; 0: off. */
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
  readonly usage: CanisterUsage;
  /** How many entries its history has ever had: the management canister's, kept here because there may be very many. */
  historyEntries: number;
}

export interface HostedCode {
  readonly module: ModuleInfo;
  /** The bytes as uploaded (raw or gzip), shared: not to be written to. */
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

/** The settings that running a canister depends on. What is left out stays. */
export interface EnforcedSettings {
  readonly controllers?: readonly Uint8Array[];
  /** Replaces all of the canister's own variables. */
  readonly environment?: ReadonlyMap<string, string>;
  /** Calls of other canisters that attach less are rejected with code 5 and a full refund; default 0. */
  readonly minimumIncomingCanisterCallCycles?: bigint;
  /** Bytes of heap for update methods, init and post_upgrade; 0, the default: no limit. */
  readonly wasmMemoryLimit?: number;
  /** The low-memory hook runs when less than this is left below the limit, or below 4 GiB where there is none; default 0. */
  readonly wasmMemoryThreshold?: number;
}

export interface NewCanister {
  /** Undefined: the host's next free one. Otherwise 10 bytes as the host's own ids are built. */
  readonly id: Uint8Array | undefined;
  /** Undefined: the host's starting balance. */
  readonly balance: bigint | undefined;
  /** With controllers in any case. */
  readonly settings: EnforcedSettings & { readonly controllers: readonly Uint8Array[] };
}

/** A state to be put in place of the present one. */
export interface RestoredState {
  readonly image: CanisterImage;
  /** The uploaded bytes of `image.module`; undefined exactly if that is. */
  readonly wasm: Uint8Array | undefined;
  /** Undefined: the present timer stays. */
  readonly timerNs: bigint | undefined;
  /** Undefined: evaluated anew. */
  readonly lowMemoryHook: LowMemoryHook | undefined;
}

export interface CanisterLogRecord {
  readonly index: number;
  readonly timeNs: bigint;
  readonly content: Uint8Array;
}

/** A WebAssembly global's value as its bits, 32, 64 or 128 of them, unsigned. */
export interface GlobalValue {
  readonly type: 'i32' | 'i64' | 'f32' | 'f64' | 'v128';
  readonly bits: bigint;
}

/** An outcall, as a history tells of it. */
export interface EndedOutcall {
  readonly method: string;
  readonly url: string;
  /** Of the response; 0: there was none. */
  readonly status: number;
  /** Ms since 1970. */
  readonly startedMs: number;
  readonly endedMs: number;
}

export interface ManagementBackend {
  /** Called once, before anything starts: every call to `aaaaa-aa` goes there from now on. Without it the host cannot start. */
  attach(management: ManagementHooks): void;

  find(id: Uint8Array): HostedCanister | undefined;
  /** In order of their ids. */
  list(): readonly HostedCanister[];

  /** An empty, running canister. Throws `invalid` when the id cannot be given: in use, used once, or of another form. */
  create(spec: NewCanister): HostedCanister;
  configure(canister: HostedCanister, settings: EnforcedSettings): void;

  /** As `Execution.prepare`. */
  prepare(wasm: Uint8Array): Promise<ModuleInfo>;
  /** Changes the code, after the tasks given before; the fault if it failed, and then nothing has changed. */
  change(canister: HostedCanister, code: HostedCode, change: CodeChange): Promise<StepFault | undefined>;
  /** Drops code, state, timer and logs; open call contexts are rejected with code 4. */
  uninstall(canister: HostedCanister): Promise<void>;

  /** From stopping or stopped to running; those who wait for it to stop get `started`. On a running one nothing but the version changes. */
  start(canister: HostedCanister): Promise<void>;
  /**
   * From running to stopping, and to stopped once no call context is open. Settles when that is so (at once for a
   * stopped one), when it was started instead, or when it was removed; without limit of time.
   */
  stop(canister: HostedCanister): Promise<'stopped' | 'started' | 'removed'>;
  /** Forgets a stopped canister, its cycles included, and calls `ManagementHooks.forget`. */
  remove(canister: HostedCanister): Promise<void>;

  /** The new balance. */
  addCycles(canister: HostedCanister, amount: bigint): Promise<bigint>;

  /** A copy of the state, after the tasks given before. The buffers are the caller's. */
  capture(canister: HostedCanister): Promise<CanisterImage>;
  /** Open call contexts stay. The image's buffers may be kept by the caller: they are copied. */
  restore(canister: HostedCanister, state: RestoredState): Promise<void>;
  /** Values of `image.globals`, in index order. */
  readGlobals(image: CanisterImage): readonly GlobalValue[];
  /** The bytes for `CanisterImage.globals`. Throws `invalid` when number or types are not those of the module. */
  writeGlobals(module: ModuleInfo, values: readonly GlobalValue[]): Uint8Array;

  /**
   * Runs a query method as the transform of an outcall, called by the management canister; also of one that is stopping. The
   * argument is handed over.
   */
  transform(canister: HostedCanister, method: string, argument: Uint8Array): Promise<Outcome>;
  /** For the canister's history of messages; nothing where it is gone. */
  outcallEnded(canister: HostedCanister, outcall: EndedOutcall, outcome: Outcome): void;

  /** What the canister printed and its traps, oldest first; bounded by the host. */
  logs(canister: HostedCanister): readonly CanisterLogRecord[];
}
export const ManagementBackend = defineCapability<ManagementBackend>('canister-host');

/** The part of the management canister that the host calls. */
export interface ManagementHooks {
  call(request: ManagementRequest): Promise<ManagementAnswer>;
  /**
   * Called once at the start, when the host has its canisters back and before anything else is asked: reads what was
   * kept of them. Answers those whose records are damaged, each with a ServerError `state-corrupt` that names the key:
   * they must not be served. Rejects when what all share is damaged. What is kept of canisters that the host does not
   * have stays as it is.
   */
  restore(): Promise<ReadonlyMap<HostedCanister, ServerError>>;
  /** A canister is gone, whoever removed it: what is kept of it goes, in memory and on disk. */
  forget(canister: HostedCanister): void;
  /** Enters into a canister's history what was done to it other than by `call` (over HTTP, from the manifest). */
  record(canister: HostedCanister, change: Change): void;
  /**
   * Runs such a change in turn with those of calls, of which there is one at a time for a canister. Not to be used
   * from within a method of `CanisterHost`: it would wait for itself.
   */
  exclusive<T>(canister: HostedCanister, change: () => Promise<T>): Promise<T>;
}
