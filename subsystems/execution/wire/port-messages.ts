/**
 * Messages that cross by the port as a whole, in either direction, and the options of an executor thread.
 * Both sides; types only.
 */
import type { MessagePort } from 'node:worker_threads';
import type { GivenFacts } from '../../ic/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import type {
  CanisterImage,
  CanisterSettings,
  CanisterSpec,
  CodeChange,
  Replayed,
  SleepingCanister,
} from '../index.ts';
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import type { RestAnswer, RouseRecord, SleepRecord } from './sleep-record.ts';
import type { InstrumentedCode } from './instrumented-code.ts';

/** A canister's state without its code, which is named apart. */
type StateImage = Omit<CanisterImage, 'module'>;

/** Messages by the port to an executor. `install` is answered by a step, the others with a `call` by the port. */
export type Command = HostCommand | CanisterCommand;

/** Commands that concern no canister. */
export type HostCommand =
  /** Comes before the first command that names its hash. */
  | { readonly kind: 'module'; readonly hash: string; readonly code: InstrumentedCode }
  | { readonly kind: 'forgetModule'; readonly hash: string }
  /** The variables of all canisters, with the host's root key. */
  | { readonly kind: 'environment'; readonly variables: ReadonlyMap<string, string> }
  /** The changes that a message has handed over as `ahead` are durable. */
  | { readonly kind: 'stored'; readonly ticket: number }
  /** The answer to `certify`: a certificate, or why there is none. */
  | { readonly kind: 'certified'; readonly ticket: number; readonly answer: Uint8Array | string }
  /** The memory that the thread can spare is needed. */
  | { readonly kind: 'trim'; readonly call: number };

/** Commands that concern one canister, in order with its tasks. */
export type CanisterCommand =
  | { readonly kind: 'create'; readonly handle: number; readonly spec: CanisterSpec }
  | {
      readonly kind: 'install';
      readonly call: number;
      readonly handle: number;
      readonly hash: string;
      readonly change: CodeChange;
      readonly nowMs: number;
    }
  | { readonly kind: 'uninstall'; readonly call: number; readonly handle: number }
  | { readonly kind: 'configure'; readonly handle: number; readonly settings: CanisterSettings }
  | { readonly kind: 'giveFacts'; readonly handle: number; readonly facts: GivenFacts }
  | { readonly kind: 'capture'; readonly call: number; readonly handle: number }
  | {
      readonly kind: 'restore';
      readonly call: number;
      readonly handle: number;
      readonly image: StateImage;
      readonly hash: string | undefined;
    }
  | { readonly kind: 'addCycles'; readonly call: number; readonly handle: number; readonly amount: bigint }
  | { readonly kind: 'remove'; readonly handle: number }
  /** This record and `rouse` go by the ring. */
  | SleepRecord
  | RouseRecord
  | {
      readonly kind: 'wake';
      readonly call: number;
      readonly handle: number;
      readonly hash: string | undefined;
      readonly canister: Omit<SleepingCanister, 'module'>;
    }
  /** With `isPreparing`, some of the checkpoint's work is done ahead. */
  | { readonly kind: 'checkpoint'; readonly call: number; readonly handle: number; readonly isPreparing: boolean };

/** Messages that an executor sends by the port. */
export type PortMessage =
  /** Operations for storage that no step brings. Here and in all messages, changes come in pieces. */
  | { readonly kind: 'changes'; readonly handle: number; readonly changes: readonly Uint8Array[] }
  /** Operations ahead of those of a step: its message waits until they are durable (`stored`). */
  | {
      readonly kind: 'ahead';
      readonly ticket: number;
      readonly handle: number;
      readonly changes: readonly Uint8Array[];
    }
  /** A query waits for a certificate of its canister's data (`certified`). */
  | { readonly kind: 'certify'; readonly ticket: number; readonly id: Uint8Array; readonly data: Uint8Array }
  | {
      readonly kind: 'done';
      readonly call: number;
      readonly handle: number;
      readonly changes: readonly Uint8Array[] | undefined;
      /** For a checkpoint that is being prepared: true if not much is left. */
      readonly isReady: boolean;
    }
  | {
      readonly kind: 'asleep';
      readonly call: number;
      readonly handle: number;
      readonly changes: readonly Uint8Array[];
      readonly answer: RestAnswer;
    }
  | {
      readonly kind: 'awake';
      readonly call: number;
      readonly handle: number;
      readonly changes: readonly Uint8Array[] | undefined;
      /** Reason why the canister is not awake. */
      readonly problem: string | undefined;
      /** True if the reason is lack of memory at the moment. */
      readonly isShort: boolean;
      readonly replayed: Replayed | undefined;
    }
  | {
      readonly kind: 'balance';
      readonly call: number;
      readonly handle: number;
      readonly balance: bigint;
      readonly changes: readonly Uint8Array[] | undefined;
    }
  | { readonly kind: 'image'; readonly call: number; readonly image: StateImage }
  | {
      readonly kind: 'restored';
      readonly call: number;
      readonly handle: number;
      readonly problem: string | undefined;
      readonly isShort: boolean;
      readonly changes: readonly Uint8Array[] | undefined;
    }
  | { readonly kind: 'trimmed'; readonly call: number }
  /**
   * Has the meaning of the answer of the same name in the ring (sleep-record.ts), and returns a large argument that had
   * been handed over.
   */
  | { readonly kind: 'takenBack'; readonly call: number; readonly argument: Uint8Array }
  /** There is no memory for the request. */
  | { readonly kind: 'notCaptured'; readonly call: number; readonly problem: string; readonly isShort: boolean }
  /** A fault of the host's own, for the log. */
  | { readonly kind: 'bug'; readonly message: string };

/** Handed to an executor thread when it starts. */
export interface ExecutorOptions {
  /** The executor's number. */
  readonly executorIndex: number;
  readonly inbox: SharedArrayBuffer;
  readonly outbox: SharedArrayBuffer;
  readonly port: MessagePort;
  readonly policy: MeteringPolicy;
  readonly wasmStackBytes: number;
  /** Number of executors. */
  readonly executors: number;
  /** Memory budget of all executors: memory-budget.ts. */
  readonly memory: SharedArrayBuffer;
  /** Table in which all executors write their work: executor-book.ts. */
  readonly book: SharedArrayBuffer;
  /** Table of the canisters whose tasks the main thread takes back: recalls.ts. */
  readonly recalls: SharedArrayBuffer;
  /** PIECE_SIZES by default. */
  readonly pieceSizes?: PieceSizes | undefined;
}
