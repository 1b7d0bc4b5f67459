import { defineCapability } from '../../kernel/index.ts';

/** Interface spec, "Reject codes": 1 SYS_FATAL … 6 SYS_UNKNOWN. */
export type RejectCode = 1 | 2 | 3 | 4 | 5 | 6;

/** How a method is exported. */
export type MethodKind = 'update' | 'query' | 'composite_query';
/** How a message reaches it: a query method called as `update` runs replicated, its changes are dropped all the same. */
export type CallKind = 'update' | 'query';

/** What the host needs to know of a module, besides its code. */
export interface ModuleInfo {
  /** SHA-256 of the bytes as uploaded, hex. */
  readonly hash: string;
  readonly pointerWidth: 32 | 64;
  readonly methods: ReadonlyMap<string, MethodKind>;
  /** Contents of the `icp:public` and `icp:private` sections by name. */
  readonly metadata: ReadonlyMap<string, { readonly isPublic: boolean; readonly content: Uint8Array }>;
  /** Interface text: `candid:service`, else what `get_candid_pointer` returns. */
  readonly candid: string | undefined;
  readonly candidArgs: string | undefined;
}

/** The outcome of one message. A guest's fault is a value: nobody has to catch anything. */
export type Outcome = {
  /** Instructions used, in the IC's weighted units. */
  readonly instructions: number;
  /** Cycles charged for the execution. */
  readonly charge: number;
} & (
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  /** `reject`: the canister said so (code 4). `trap` and `limit` have code 5. `noReply`: returned without an answer (code 5). `outOfCycles`: balance dry, or spent before the end. */
  | { readonly kind: 'reject' | 'trap' | 'limit' | 'noReply' | 'outOfCycles' | 'unavailable'; readonly code: RejectCode; readonly message: string }
);

/** A canister's numbers as of its last ended message. */
export interface CanisterGauges {
  readonly heapBytes: number;
  readonly stableBytes: number;
  /** Cycles taken for the message. */
  readonly charge: number;
  /** The balance afterwards, when something besides `charge` changed it; undefined otherwise. */
  readonly balance: bigint | undefined;
}

export interface InstallRequest {
  readonly module: ModuleInfo;
  readonly argument: Uint8Array;
  readonly caller: Uint8Array;
}

export interface CanisterSpec {
  /** 10 bytes. */
  readonly id: Uint8Array;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
  readonly env: ReadonlyMap<string, string>;
}

/** What an executor tells the host about a canister besides outcomes. */
export interface CanisterObserver {
  /** One debug print, or the text of a trap; in order, before the outcome of its message. */
  debug(text: string): void;
  /** Called after each message, before its `done`. The same object is used again: copy what is to be kept. */
  ended(gauges: CanisterGauges): void;
}

/** A message for a canister. */
export interface CanisterMessage {
  readonly handle: number;
  readonly kind: CallKind;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly argument: Uint8Array;
}

/**
 * Runs canisters: one message at a time each, atomically, metered, in executor threads.
 * Canisters are named by the handle that `create` returned.
 */
export interface Execution {
  /** How many executor threads there are; each runs one message at a time. */
  readonly lanes: number;
  /** The executor thread a canister lives in, 0 ≤ lane < lanes. */
  laneOf(handle: number): number;
  /**
   * Checks, instruments and compiles a module (raw or gzip), off the main thread. The same bytes give the same object.
   * Rejects with ServerError `invalid` and the reason.
   */
  prepare(bytes: Uint8Array): Promise<ModuleInfo>;
  /** A canister without code. */
  create(spec: CanisterSpec, observer: CanisterObserver): number;
  /** Start and `canister_init` on fresh state. Any outcome but `reply` (of no bytes) leaves the canister as it was. */
  install(handle: number, request: InstallRequest): Promise<Outcome>;
  /** Runs one message; `done` is called exactly once, later, from the event loop. Messages of one canister run in the order given. */
  execute(message: CanisterMessage, done: (outcome: Outcome) => void): void;
  /** Adds cycles; resolves with the new balance. */
  addCycles(handle: number, amount: bigint): Promise<bigint>;
  /** Forgets a canister whose messages have all ended. */
  remove(handle: number): void;
  /** From now on executors start nothing new: what waits for them is answered `unavailable`. The executing messages go on. */
  refuseNew(): void;
}
export const Execution = defineCapability<Execution>('execution');
