/**
 * The face of execution, on the main thread: requests of the rest of the server to canisters' executors. Types and
 * tokens alone.
 */
import { defineCapability } from '../../kernel/index.ts';
import type { PackedRecords, StoredMemory } from '../storage/index.ts';
import type { Recall } from './wire/recalls.ts';
import type {
  CanisterStatus,
  EndedStep,
  GivenFacts,
  MessageNumbers,
  MethodKind,
  OpenCallsEntry,
  Task,
} from '../ic/index.ts';

export type { Recall } from './wire/recalls.ts';

/** The host's facts about a module, besides its code. */
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

/** A change of a canister's code, made atomically (docs/execution-rules.md, "Changes of code"). */
export type CodeChange =
  /** `install` on an empty canister, `reinstall` on any: fresh state, start, `canister_init`. */
  | {
      readonly mode: 'install' | 'reinstall';
      /**
       * True if the old code's open calls end with it; otherwise their callbacks are looked up in the new code's table.
       */
      readonly endsCalls?: boolean;
      readonly argument: Uint8Array;
      readonly caller: Uint8Array;
    }
  /**
   * `canister_pre_upgrade` (unless skipped), the new code on the kept heap or on a fresh one, start,
   * `canister_post_upgrade`.
   */
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
  /** The canister's own variables. */
  readonly env: ReadonlyMap<string, string>;
  /** Facts that operators gave the canister; NO_FACTS by default. */
  readonly facts?: GivenFacts;
  /**
   * If given, changes of the canister's steps are told (`ToldStep.changes`): heaps up to this many bytes by
   * their changed bytes, larger ones by what the step depended on. Undefined: the canister lives in memory only.
   */
  readonly snapshotBelowBytes?: number | undefined;
}

/** A canister as it is stored, to be brought to life again. */
export interface SleepingCanister {
  readonly spec: CanisterSpec;
  /** Settings and numbers as of the last step. */
  readonly settings: StandingSettings;
  readonly timerNs: bigint;
  readonly instantMs: number;
  readonly heapBytes: number;
  readonly stablePages: number;
  readonly module: ModuleInfo | undefined;
  readonly memory: StoredMemory;
  /** Number of the stored copy of the memory. */
  readonly copy: number;
  readonly globals: Uint8Array;
  readonly certifiedData: Uint8Array;
  readonly openCalls: readonly OpenCallsEntry[];
  /**
   * Beginning of the canister's log, and the log's records, which are run again. Undefined: the stored memory is the
   * newest there is.
   */
  readonly log: { readonly checkpoint: Uint8Array; readonly records: PackedRecords } | undefined;
}

/** Facts of a sleeping canister besides its stored memory: enough to unpack it. */
export type PackedFacts = Omit<SleepingCanister, 'memory' | 'copy' | 'globals' | 'certifiedData' | 'log'>;

/** Result of running a log again, with the numbers that this came to. */
export interface Replayed extends MessageNumbers {
  readonly records: number;
  /** Instructions that running the log once more would take; see ToldStep. */
  readonly loggedInstructions: number;
  readonly balance: bigint;
}

/** Settings that the management canister may change of a live canister; settings that are left out stay. */
export interface CanisterSettings {
  readonly controllers?: readonly Uint8Array[];
  readonly env?: ReadonlyMap<string, string>;
  readonly status?: CanisterStatus;
  /** The version is at least this. */
  readonly version?: number;
  /** The most heap that update methods, installation and upgrades may leave; Infinity: the module's own maximum. */
  readonly heapBytesMax?: number;
  /**
   * The canister's time from now on, ms since 1970: it stands still there, unless the canister has seen a later time.
   * For copies that nobody stores.
   */
  readonly standsAtMs?: number;
  /** When the global timer is due, ns since 1970; 0: off. For copies that nobody stores: they have no timers. */
  readonly timerNs?: bigint;
}

/** All settings of a canister, and its numbers with the version. */
export type StandingSettings = Required<Omit<CanisterSettings, 'standsAtMs' | 'timerNs'>> & MessageNumbers;

/** A canister's whole state in an executor. Buffers are the image's own: they may be kept. */
export interface CanisterImage {
  readonly module: ModuleInfo | undefined;
  /** Bytes that threads share (`sharedBytes`); otherwise the main thread has a copy of them. */
  readonly heap: Uint8Array;
  readonly globals: Uint8Array;
  /** Granules of stable memory that hold anything: offset and bytes, shared as the heap is. */
  readonly stable: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  readonly stablePages: number;
  readonly certifiedData: Uint8Array;
}

/**
 * Hears what executors say of canisters besides the ends of steps, in the turn in which they say it. One for all
 * canisters.
 */
export interface ExecutionListener {
  /**
   * Called with operations for storage, for the unit of this turn; before `ended`, or without it. The bytes are the
   * listener's.
   */
  changed(handle: number, changes: readonly Uint8Array[]): void;
  /** Resolves when all operations told so far are durable. */
  settled(): Promise<void>;
  /**
   * Called when cycles came outside of any step, such as a refund that no callback waits for; with the balance since.
   */
  credited(handle: number, balance: bigint): void;
  /**
   * Called when the canister's executor has died and the canister with it. A canister that is kept sleeps now; any
   * other answers `unavailable` from now on.
   */
  lost(handle: number): void;
}

/** Memory that canisters have together, as `--memory-bytes` counts it. */
export interface MemoryFigures {
  readonly bytesMax: number;
  readonly bytesUsed: number;
  /** Number of bytes in use above which idle canisters are put to sleep. */
  readonly bytesHigh: number;
  /** Number of refused requests. */
  readonly refusals: number;
}

/**
 * The memory of `MemoryFigures` by its use, in bytes. Figures of a thread are as of its last pause, at most a tenth of
 * a second ago.
 */
export interface MemoryByKind {
  /** Heaps of live actors, and all memory that belongs to none of the other kinds. */
  readonly heaps: number;
  /** Written stable memory of live actors. */
  readonly stable: number;
  /** Journals for undoing messages. */
  readonly journals: number;
  /** Suspended composite queries. */
  readonly queries: number;
  /** Heaps kept for the next actor that needs one, and packed state of actors that sleep. */
  readonly spare: number;
  /** Heaps that nobody uses and that are not collected yet. */
  readonly garbage: number;
  /** State of waking actors while it is being read. */
  readonly waking: number;
}

/** Work of executor threads since the start. A thread that takes the place of a dead one continues its counts. */
export interface ExecutorFigures {
  /** Executors in the order of their numbers. */
  readonly executors: readonly {
    /** Seconds in which there was something to do. */
    readonly busySeconds: number;
    /** Executions that have ended: messages, callbacks, hooks. */
    readonly steps: number;
    /** Instructions that these executions took. */
    readonly instructions: number;
    /** Number of tasks and commands that the executor has been given and has not ended. */
    readonly underWay: number;
  }[];
  /** Number of threads that have died. */
  readonly replaced: number;
  /** Bytes of the rings between the main thread and executors; `--memory-bytes` does not count them. */
  readonly ringBytes: number;
}

/**
 * Called when a piece of a checkpoint is durable, with the milliseconds that it took; the next piece begins when this
 * resolves.
 */
export type PieceWritten = (pieceMs: number) => Promise<void>;

/** Work that an executor has been given and has not ended. */
export interface Executing {
  readonly handle: number;
  /** A task, or the way in which the code is being changed. */
  readonly what: Task | CodeChange['mode'];
  /** Time at which the work was given, ms since 1970. */
  readonly sinceMs: number;
}

/** Abilities that an execution may lack. All methods are there; without an ability they do as little as they say. */
interface ExecutionSupports {
  /** Modules are described without their code, as `describe` says. */
  readonly descriptions: boolean;
  /** Canisters that sleep stay packed, and `rouse` brings them back. */
  readonly packing: boolean;
  /** Work that was given is taken back by `recall`. */
  readonly recall: boolean;
}

/** The host as it vouches for its canisters. Both methods reject with ServerError `unavailable`. */
export interface HostCertification {
  /** Resolves with the root key, DER. */
  rootKey(): Promise<Uint8Array>;
  /** Resolves with a certificate that a canister has this data. */
  certify(id: Uint8Array, data: Uint8Array): Promise<Uint8Array>;
}

/** Modules, checked and compiled once for all canisters that have them. */
export interface ModuleStore {
  /**
   * Checks, instruments and compiles a module (raw or gzip), off the main thread. The same bytes give the same object.
   * Rejects with ServerError `invalid` and the reason.
   */
  prepare(bytes: Uint8Array): Promise<ModuleInfo>;
  /**
   * Does the same as `prepare`, but leaves the code of a module that an earlier process has prepared for later, if
   * enough is kept to describe the module. The bytes are kept, and must not change. Without `descriptions` it does the
   * same as `prepare`.
   */
  describe(bytes: Uint8Array): Promise<ModuleInfo>;
  /**
   * Prepares the code of a module that has only been described; must be done before a canister with it wakes. Resolves
   * at once if its code is there. Rejects as `prepare` does.
   */
  complete(module: ModuleInfo): Promise<void>;
  /**
   * Notes that the state has a module of that hash from now on, or no longer has it: the files that the next start
   * needs of it are kept, or are not.
   */
  storedIs(hash: string, isStored: boolean): void;
  /** Keeps a module that no canister has yet, until the result is disposed of. */
  keep(module: ModuleInfo): Disposable;
  /**
   * Announces a module, which is usually being compiled: threads that have to start for it start now, and end if none
   * comes soon. `canisters` is the number of canisters that are about to come: their threads start, too.
   */
  expect(canisters?: number): void;
}

/** Life cycle of canisters in executors: created, put to sleep, woken, checkpointed, forgotten. */
export interface CanisterLifecycle {
  /** Names the listener; once, before anything starts. */
  attend(listener: ExecutionListener): void;
  /** Creates a canister without code; returns its handle. */
  create(spec: CanisterSpec): number;
  /**
   * Returns a handle for a canister that sleeps. `instantMs` is the time at which its last message began, ms since
   * 1970: its time continues from there.
   */
  createAsleep(instantMs: number): number;
  /**
   * Brings a sleeping canister, or one that was never live, to life; undefined if no log had to be run again. Rejects
   * with ServerError `state-unfit` if its parts do not fit together, or running its log again takes another course,
   * with `memory-full` if there is no room for it now.
   */
  wake(handle: number, canister: SleepingCanister): Promise<Replayed | undefined>;
  /**
   * Brings a canister back from the state that was packed at `sleep`, which equals the stored state. False: nothing is
   * kept, and `wake` is needed, as always without `packing`. Rejects as `wake` does.
   */
  rouse(handle: number, canister: PackedFacts): Promise<boolean>;
  /**
   * Drops a canister from memory: all its changes have been told when this resolves. A canister with a log is
   * checkpointed first. The handle stays; nothing may be asked of it until the canister is woken.
   */
  sleep(handle: number): Promise<void>;
  /** Forgets a canister whose tasks have all ended. */
  remove(handle: number): void;
  /**
   * Brings the stored state of a canister with a log up to date, and begins its log anew; resolves when that is told.
   * Large state is written in pieces: `pause` is awaited after each piece, with the milliseconds that the piece took;
   * without `pause` they follow each other.
   */
  checkpoint(handle: number, pause?: PieceWritten): Promise<void>;
  /** Sets variables that every canister gets besides its own; for canisters that are created or woken from now on. */
  shareEnvironment(variables: ReadonlyMap<string, string>): void;
  /** Returns the variables of `shareEnvironment`, and the root key if code has read it. */
  sharedEnvironment?(): ReadonlyMap<string, string>;
  /**
   * Names who certifies, and is asked for the root key before code runs that reads it. Without it, and with an
   * execution that lacks this, canisters read a key of zeros, and nothing is certified.
   */
  certifiedBy?(host: HostCertification): void;
  /**
   * Returns the ms by which the canister's time is ahead of the clock: 0, unless the clock was ahead once before a
   * restart.
   */
  aheadOf(handle: number): number;
}

/** Runs canisters: one step at a time each, atomically, metered, in executor threads. All of it in the order given. */
export interface CanisterRunner {
  /** Number of executor threads; each runs one step at a time. */
  readonly executorCount: number;
  executorFigures(): ExecutorFigures;
  /** Returns the executor thread a canister lives in, 0 ≤ lane < lanes. */
  executorOf(handle: number): number;
  /**
   * Runs one task; `ended` is called exactly once, later, from the event loop. Tasks of one canister run in the order
   * given. With the step TAKEN_BACK the task was recalled, and is as if it had never been given. If `ended` returns a
   * promise for a large step, the thread tells nothing else until the promise resolves.
   */
  run(handle: number, task: Task, ended: (ended: EndedStep) => Promise<void> | void): void;
  /**
   * Takes back tasks that the canister's executor has been given and has not begun, until this is called with
   * `nothing`: each of these ends with TAKEN_BACK. With `everything` also the message, or the change of code, that
   * executes: it is undone. Meanwhile the canister must not be given any work, and `nothing` must not be set before all
   * work has ended; a change of code is done, unless `everything` is taken back. Without the ability all work that was
   * given is done.
   */
  recall(handle: number, recall: Recall): void;
  /**
   * Replaces the code. A step without fault means that it is done, TAKEN_BACK that it was recalled. In order with the
   * canister's tasks.
   */
  change(handle: number, module: ModuleInfo, change: CodeChange, ended: (ended: EndedStep) => void): void;
  /**
   * Drops code and state, after the tasks given before; the canister stays, empty. Rejects with ServerError
   * `unavailable` if the canister is lost, or sleeps.
   */
  uninstall(handle: number): Promise<void>;
  /** Changes settings, in order with the canister's tasks. */
  configure(handle: number, settings: CanisterSettings): void;
  /** Replaces the facts that operators gave the canister. No effect on a sleeping canister: its spec says them. */
  giveFacts(handle: number, facts: GivenFacts): void;
  /**
   * Adds cycles; resolves with the new balance. Rejects with ServerError `unavailable` if the canister is lost, or
   * sleeps.
   */
  addCycles(handle: number, amount: bigint): Promise<bigint>;
  /**
   * Returns a copy of the whole state, as of the tasks given before; `module` is the code it goes with. Rejects as
   * `uninstall` does.
   */
  capture(handle: number, module: ModuleInfo | undefined): Promise<CanisterImage>;
  /** Replaces the present state by a captured one; the code comes with it. Rejects as `uninstall` does. */
  restore(handle: number, image: CanisterImage): Promise<void>;
  /** Returns, for each canister with work in an executor, the work that executes now, or next. */
  executing(): readonly Executing[];
  /**
   * Makes executors start nothing new from now on: waiting work is answered `unavailable`. The executing steps go on.
   */
  refuseNew(): void;
}

/** The memory that all canisters have together (`--memory-bytes`). */
export interface SharedMemory {
  readonly memory: MemoryFigures;
  memoryByKind(): MemoryByKind;
  /**
   * Calls `answer` when memory for so many bytes is needed; `answer` puts idle canisters to sleep, and has done so when
   * it resolves: with true if it is worth asking again, because there was room for all of it. Until this is called,
   * executors give back only memory that they can spare.
   */
  attendMemory(answer: (bytesWanted: number) => Promise<unknown>): void;
  /**
   * Takes memory for the state of a sleeping canister that is about to be read; the returned function gives it back.
   * Throws ServerError `memory-full` if there is no room for it.
   */
  holdMemory(bytes: number): () => void;
  /** Makes every executor give back the memory that nobody uses any more. */
  trim(): Promise<void>;
}

/** Runs canisters in executor threads. Canisters are named by the handle that `create` or `createAsleep` returned. */
export interface Execution extends ModuleStore, CanisterLifecycle, CanisterRunner, SharedMemory {
  readonly supports: ExecutionSupports;
}
export const Execution = defineCapability<Execution>('execution');
