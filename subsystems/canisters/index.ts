import { defineCapability } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import type { CallKind, ModuleInfo, Outcome } from '../execution/index.ts';

/** A hosted canister, as the rest of the host sees it. Live: the fields follow its last ended message. */
export interface Canister {
  readonly name: string;
  /** 10 bytes, their hex form, and the textual principal. */
  readonly id: Uint8Array;
  readonly idHex: string;
  readonly principal: string;
  readonly status: 'running' | 'stopping' | 'stopped';
  readonly module: ModuleInfo;
  /** Undefined when the module carries no interface: raw calls and the lossless encoding still work. */
  readonly candid: CandidInterface | undefined;
  /** Cycles; 0 when metering is off. */
  readonly balance: bigint;
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Messages executed (queries included), and how many of them trapped. */
  readonly messages: number;
  readonly traps: number;
  /** When it last executed a message, ms since 1970. */
  readonly lastMessageMs: number;
}

export interface DebugLine {
  readonly seq: number;
  readonly timeMs: number;
  readonly text: string;
}

export interface InstallOptions {
  /** Candid bytes for `canister_init`; undefined: the empty argument list. */
  readonly argument: Uint8Array | undefined;
  readonly caller: Uint8Array;
  readonly cycles?: bigint;
  readonly candidText?: string;
  readonly env?: ReadonlyMap<string, string>;
}

/** Thrown by `install` when the init hook failed: what the canister printed comes along. */
export interface InstallFailure {
  readonly outcome: Exclude<Outcome, { kind: 'reply' }>;
  readonly logs: readonly string[];
}

/** The canisters this host has. */
export interface Canisters {
  /**
   * By name, hex id or textual principal (a name wins). Throws ServerError `missing`:
   * no such actor, or rejected at start, then with the reason.
   */
  resolve(reference: string): Canister;
  /** In order of their ids. */
  list(): readonly Canister[];
  /** Calls a method. Throws ServerError `missing` (no such method) or `invalid` (update method called as a query); a guest's fault is in the outcome. */
  call(canister: Canister, kind: CallKind, method: string, caller: Uint8Array, argument: Uint8Array): Promise<Outcome>;
  /** Creates a canister from a module (raw or gzip). Throws ServerError: the name is taken or bad, the module is refused, or its init failed (`InstallError`). */
  install(name: string, moduleBytes: Uint8Array, options: InstallOptions): Promise<Canister>;
  /** Adds cycles; the new balance. Throws ServerError `invalid` when metering is off. */
  addCycles(canister: Canister, amount: bigint): Promise<bigint>;
  /** Takes the debug output since the last read: reading clears it. */
  takeLogs(canister: Canister): readonly DebugLine[];
}
export const Canisters = defineCapability<Canisters>('canisters');
