/**
 * The face of execution, on the main thread: what the rest of the server asks of canisters' executors. Types and tokens
 * alone.
 */
import { defineCapability } from '../../kernel/index.ts';
import type { PackedRecords, StoredMemory } from '../storage/index.ts';
import type { OpenCallsEntry } from './engine/open-calls.ts';
import type { Recall } from './wire/recalls.ts';
import type { CanisterStatus, MethodKind, OutputLine, Step, Task } from '../ic/index.ts';

export type { OpenCallsEntry } from './engine/open-calls.ts';
export type { Recall } from './wire/recalls.ts';

/** What the host needs to know of a module, besides its code. */
export interface ModuleInfo {
  /** SHA-256 of the bytes as uploaded, hex. */
  readonly hash: string;
  readonly pointerWidth: 32 | 64;
  readonly methods: ReadonlyMap<string, MethodKind>;
  /** Numbers of the entry points by export name (`canister_update inc`, `canister_heartbeat`), for tasks. */
  readonly entries: ReadonlyMap<string, number>;
  /** The mutable globals: where in `CanisterImage.globals` each is kept, in index order. */
  readonly globals: readonly { readonly type: 'i32' | 'i64' | 'f32' | 'f64' | 'v128'; readonly at: number }[];
  readonly globalsBytes: number;
  /** Contents of the `icp:public` and `icp:private` sections by name. */
  readonly metadata: ReadonlyMap<string, { readonly isPublic: boolean; readonly content: Uint8Array }>;
  /** Interface text: `candid:service`, else what `get_candid_pointer` returns. */
  readonly candid: string | undefined;
  readonly candidArgs: string | undefined;
}

/** A canister's numbers as of its last ended step. */
export interface CanisterGauges {
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly version: number;
  /** Cycles taken for the step. */
  readonly charge: number;
  /** The balance afterwards, when something besides `charge` changed it; undefined otherwise. */
  readonly balance: bigint | undefined;
  /** When the message began, ms since 1970: time never goes back for the canister. */
  readonly instantMs: number;
  /** Instructions that running its log again takes; 0: it has none. */
  readonly loggedInstructions: number;
}

/** What becomes of a canister's code, atomically (docs/execution-rules.md, "Changes of code"). */
export type CodeChange =
  /** `install` on an empty canister, `reinstall` on any: fresh state, start, `canister_init`. */
  | {
      readonly mode: 'install' | 'reinstall';
      /** Calls that the old code has open end with it; otherwise their callbacks are looked up in the table of the new code. */
      readonly endsCalls?: boolean;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
    }
  /** `canister_pre_upgrade` (unless skipped), the new code on the kept heap or on a fresh one, start, `canister_post_upgrade`. */
  | {
      readonly mode: 'upgrade';
      readonly keepsHeap: boolean;
      readonly skipsPreUpgrade: boolean;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
    };

export interface CanisterSpec {
  /** 10 bytes. */
  readonly id: Uint8Array;
  readonly balance: bigint;
  readonly controllers: readonly Uint8Array[];
  /** Its own variables. */
  readonly env: ReadonlyMap<string, string>;
  /** Its queries find a certificate, a placeholder that certifies nothing; default false. */
  readonly hasCertificate?: boolean;
  /**
   * Given: what the canister's steps change is told (`CanisterObserver.changed`); heaps up to this many bytes by what
   * changed, larger ones by what the step depended on. Undefined: it lives in memory only.
   */
  readonly snapshotBelowBytes?: number | undefined;
}

/** A canister as it is stored, to be brought to life again. */
export interface SleepingCanister {
  readonly spec: CanisterSpec;
  /** As of its last step. */
  readonly settings: Required<CanisterSettings>;
  readonly timerNs: bigint;
  readonly instantMs: number;
  readonly heapBytes: number;
  readonly stablePages: number;
  readonly module: ModuleInfo | undefined;
  readonly memory: StoredMemory;
  /** Which copy of the stored memory that is. */
  readonly copy: number;
  readonly globals: Uint8Array;
  readonly certifiedData: Uint8Array;
  readonly openCalls: readonly OpenCallsEntry[];
  /** What its log begins with, and its records: they are run again. Undefined: its memory is the newest there is. */
  readonly log: { readonly checkpoint: Uint8Array; readonly records: PackedRecords } | undefined;
}

/** The same, less what is stored of its memory. */
export type DozingCanister = Omit<SleepingCanister, 'memory' | 'copy' | 'globals' | 'certifiedData' | 'log'>;

/** What came of running a log again. */
export interface Replayed {
  readonly records: number;
  /** What running the log once more would take; see CanisterGauges. */
  readonly loggedInstructions: number;
  readonly balance: bigint;
  readonly version: number;
}

/** What the management canister may change of a canister that lives; what is left out stays. */
export interface CanisterSettings {
  readonly controllers?: readonly Uint8Array[];
  readonly env?: ReadonlyMap<string, string>;
  readonly status?: CanisterStatus;
  /** The version is at least this. */
  readonly version?: number;
  /** What update methods, installation and upgrades may leave of heap; Infinity: what the module says. */
  readonly heapBytesMax?: number;
}

/** Everything a canister's state consists of, in an executor. Buffers are its own: they may be kept. */
export interface CanisterImage {
  readonly module: ModuleInfo | undefined;
  /** Bytes that threads share (`sharedBytes`), or there is a copy of them on the main thread. */
  readonly heap: Uint8Array;
  readonly globals: Uint8Array;
  /** Granules of stable memory that hold anything: offset and bytes, shared as the heap is. */
  readonly stable: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  readonly stablePages: number;
  readonly certifiedData: Uint8Array;
}

/** What an executor tells the host about a canister besides outcomes. */
export interface CanisterObserver {
  /** One debug print, or the text of a trap; in order, before the outcome of its message. */
  debug(line: OutputLine): void;
  /** Called after each step, before its `done`. The same object is used again: copy what is to be kept. */
  ended(gauges: CanisterGauges): void;
  /** Operations for storage, for the unit of this turn; before `ended`, or without it. The bytes are the observer's. */
  changed?(operations: Uint8Array): void;
  /** Resolves when what was told is durable. */
  settled?(): Promise<void>;
  /** Cycles came outside of any step, such as a refund that no callback waits for; with the balance since. */
  credited?(balance: bigint): void;
  /** The canister's executor has died and the canister with it. One that is kept sleeps now; any other answers `unavailable` from now on. */
  lost(): void;
}

/** Memory that canisters have together, as `--memory-bytes` counts it. */
export interface MemoryFigures {
  readonly bytesMax: number;
  readonly bytesUsed: number;
  /** With more in use, idle canisters are put to sleep. */
  readonly bytesHigh: number;
  /** How often somebody was refused. */
  readonly refusals: number;
}

/** The same memory by what it is for, in bytes. What a thread has of each kind is as of its last pause, at most a tenth of a second ago. */
export interface MemoryByKind {
  /** Of live actors: all that none of the other kinds is. */
  readonly heaps: number;
  /** Written stable memory of live actors. */
  readonly stable: number;
  /** For undoing messages. */
  readonly journals: number;
  /** Suspended composite queries. */
  readonly queries: number;
  /** Heaps kept for the next actor that needs one, and what is kept of actors that sleep. */
  readonly spare: number;
  /** Heaps that nobody uses and that are not collected yet. */
  readonly garbage: number;
  /** What is being read of actors that wake. */
  readonly waking: number;
}

/** What executor threads have done since the start. A thread that takes the place of a dead one goes on with its counts. */
export interface ExecutorFigures {
  /** By their numbers. */
  readonly executors: readonly {
    /** Seconds in which there was something to do. */
    readonly busySeconds: number;
    /** Executions that have ended: messages, callbacks, hooks. */
    readonly steps: number;
    /** That these took. */
    readonly instructions: number;
    /** What it has been given and has not ended. */
    readonly underWay: number;
  }[];
  /** Threads that have died. */
  readonly replaced: number;
  /** Of the rings between the main thread and executors; `--memory-bytes` does not count them. */
  readonly ringBytes: number;
}

/** A piece of a checkpoint took so many milliseconds until it was durable; the next one begins when this resolves. */
export type PieceWritten = (pieceMs: number) => Promise<void>;

/** Something that an executor has been given and has not ended. */
export interface Executing {
  readonly handle: number;
  /** A task, or how the code is being changed. */
  readonly what: Task | CodeChange['mode'];
  /** When it was given, ms since 1970. */
  readonly sinceMs: number;
}

/** Modules, checked and compiled once for all canisters that have them. */
export interface ModuleStore {
  /**
   * Checks, instruments and compiles a module (raw or gzip), off the main thread. The same bytes give the same object.
   * Rejects with ServerError `invalid` and the reason.
   */
  prepare(bytes: Uint8Array): Promise<ModuleInfo>;
  /**
   * As `prepare`, but of a module that an earlier process has prepared its code is left for later, where enough is kept of it
   * to say what it is. The bytes are kept, and stay as they are. Optional: who has no such method is asked to prepare.
   */
  describe?(bytes: Uint8Array): Promise<ModuleInfo>;
  /**
   * Prepares the code of a module that has only been described; to be done before a canister with it wakes. Resolves at once when its
   * code is there. Rejects as `prepare` does.
   */
  complete?(module: ModuleInfo): Promise<void>;
  /** The state has a module of that hash from now on, or has it no more: what the next start needs of it is kept, or is not. */
  storedIs?(hash: string, isStored: boolean): void;
  /** Keeps a module that no canister has yet; until it is disposed of. */
  keep(module: ModuleInfo): Disposable;
  /**
   * A module is on its way, being compiled as a rule: what has to start for it starts now, and ends if none comes soon. So many are
   * `kept`: their canisters' threads start, too.
   */
  expect(kept?: number): void;
}

/** Which canisters executors have: they are created, put to sleep, woken, checkpointed, forgotten. */
export interface CanisterLifecycle {
  /** A canister without code. */
  create(spec: CanisterSpec, observer: CanisterObserver): number;
  /** A handle for a canister that sleeps; `instantMs`: when its last message began, ms since 1970. Its time goes on from there. */
  createAsleep(observer: CanisterObserver, instantMs: number): number;
  /**
   * Brings a sleeping canister, or one that was never live, to life; undefined if no log had to be run again. Rejects
   * with ServerError `state-unfit` when its parts do not fit together, or running its log again goes another way, with
   * `memory-full` when there is no room for it now.
   */
  wake(handle: number, canister: SleepingCanister): Promise<Replayed | undefined>;
  /**
   * Brings a canister back from what has been kept of it since `sleep`, which is what is stored. False: nothing is kept, and
   * `wake` is needed. Rejects as `wake` does. Optional: who has no such method keeps nothing.
   */
  rouse?(handle: number, canister: DozingCanister): Promise<boolean>;
  /**
   * Drops a canister from memory: what it changed has been told when this resolves. One with a log is checkpointed first.
   * The handle stays; nothing may be asked of it until it is woken.
   */
  sleep(handle: number): Promise<void>;
  /** Forgets a canister whose tasks have all ended. */
  remove(handle: number): void;
  /**
   * Brings what is stored of a canister with a log up to date, and begins its log anew; resolves when that is told. Much is
   * written in pieces: `pause` is waited for after each of them, which took so many milliseconds; without it they follow
   * each other.
   */
  checkpoint(handle: number, pause?: PieceWritten): Promise<void>;
  /** Variables that every canister gets besides its own; for those that are created or woken from now on. */
  shareEnvironment(variables: ReadonlyMap<string, string>): void;
  /** Ms by which what the canister sees as time is ahead of the clock: 0, unless the clock was ahead once before a restart. */
  aheadOf(handle: number): number;
}

/** Runs canisters: one step at a time each, atomically, metered, in executor threads. All of it in the order given. */
export interface CanisterRunner {
  /** How many executor threads there are; each runs one step at a time. */
  readonly executorCount: number;
  executorFigures(): ExecutorFigures;
  /** The executor thread a canister lives in, 0 ≤ lane < lanes. */
  executorOf(handle: number): number;
  /**
   * Runs one task; `done` is called exactly once, later, from the event loop. Tasks of one canister run in the order given. With the
   * step TAKEN_BACK it was recalled, and is as if it had never been given; `argument` is its own again, if that was large. What `done`
   * returns for a step that is large is waited for before the thread tells anything else.
   */
  run(handle: number, task: Task, done: (step: Step, argument?: Uint8Array) => Promise<void> | void): void;
  /**
   * Takes back what the canister's executor has been given and has not begun, until this is called with `nothing`: `done` is called
   * with TAKEN_BACK. With `everything` also the message, or the change of code, that executes: it is undone. Not to be given
   * anything meanwhile, and not to be let go before all has ended; a change of code is done, unless `everything` is taken back.
   * Optional: who has no such method does what was given.
   */
  recall?(handle: number, recall: Recall): void;
  /** Replaces the code; a step without fault means it is done, TAKEN_BACK that it was recalled. In order with the canister's tasks. */
  change(handle: number, module: ModuleInfo, change: CodeChange, done: (step: Step) => void): void;
  /** Drops code and state, after the tasks given before; the canister stays, empty. Rejects with ServerError `unavailable` when it is lost, or sleeps. */
  uninstall(handle: number): Promise<void>;
  /** In order with the canister's tasks. */
  configure(handle: number, settings: CanisterSettings): void;
  /** From now on its queries find a placeholder for a certificate. No effect on one that sleeps: its spec says it. */
  giveCertificate(handle: number): void;
  /** Adds cycles; resolves with the new balance. Rejects with ServerError `unavailable` when the canister is lost, or sleeps. */
  addCycles(handle: number, amount: bigint): Promise<bigint>;
  /** A copy of the whole state, as of the tasks given before; `module` is the code it goes with. Rejects as `uninstall` does. */
  capture(handle: number, module: ModuleInfo | undefined): Promise<CanisterImage>;
  /** Puts a captured state in place of the present one; the code comes with it. Rejects as `uninstall` does. */
  restore(handle: number, image: CanisterImage): Promise<void>;
  /** For each canister that executors have been given something for: what it executes, or executes next. */
  executing(): readonly Executing[];
  /** From now on executors start nothing new: what waits for them is answered `unavailable`. The executing steps go on. */
  refuseNew(): void;
}

/** The memory that all canisters have together (`--memory-bytes`). */
export interface SharedMemory {
  readonly memory: MemoryFigures;
  memoryByKind(): MemoryByKind;
  /**
   * `answer` is called when somebody needs so many bytes, and puts idle canisters to sleep; it has when it resolves. Until
   * this is called executors give back what they can spare, and that is all.
   */
  attendMemory(answer: (bytesWanted: number) => Promise<void>): void;
  /**
   * Takes memory for what is about to be read of a sleeping canister; the function gives it back. Throws ServerError
   * `memory-full` when there is no room for it.
   */
  holdMemory(bytes: number): () => void;
  /** Has every executor give back the memory that nobody uses any more. */
  trim(): Promise<void>;
}

/** Runs canisters in executor threads. Canisters are named by the handle that `create` or `createAsleep` returned. */
export interface Execution extends ModuleStore, CanisterLifecycle, CanisterRunner, SharedMemory {}
export const Execution = defineCapability<Execution>('execution');
