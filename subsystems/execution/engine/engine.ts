/**
 * Runs canisters in its thread: one task at a time, as a transaction, metered.
 *
 * A task's effects on its canister happen here, all or nothing; effects beyond the canister go back in the step.
 * `run-task.ts` has methods, system tasks and inspection; `run-callback.ts` has what follows a call; `change-code.ts`
 * has installation and upgrades; `canister-image.ts` takes state out and puts it in; `suspended-frames.ts` has
 * composite queries that wait.
 *
 * Executor thread. Touches the canisters that it is handed, its control memory and the thread's pools; never another
 * thread's.
 */
import type { MeteringPolicy } from '../../metering/index.ts';
import { CanisterState } from './canister-state.ts';
import { captureState, restoreState } from '../persistence/canister-image.ts';
import { changeCode, dropState, uninstallCode } from './change-code.ts';
import type { ControlMemory } from '../memory/control-memory.ts';
import { type Certify, EngineRuntime, type EngineResult, type Running, runToEnd, TOO_LONG } from './engine-runtime.ts';
import { Environment } from './environment.ts';
import { HeapPool, type HeapPoolLimits, heapPoolLimits } from '../memory/heap-pool.ts';
import type { PageReturns } from '../memory/page-returns.ts';
import type { CanisterImage, CanisterSettings, CanisterSpec, CodeChange } from '../index.ts';
import type { Task } from '../../ic/index.ts';
import type { Shortages } from '../memory/shortage.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import type { PersistenceState } from '../persistence/persistence-state.ts';
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import type { AheadStore } from '../persistence/ahead-store.ts';
import { carriesMuch } from '../persistence/store-payloads.ts';
import { MemoryBudget } from '../memory/memory-budget.ts';
import { runCallback } from './run-callback.ts';
import { dropFrame, runInspection, runMethod, runMethodToEnd, runQuery, runSystemTask } from './run-task.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { StablePagePool } from '../memory/stable-memory.ts';
import { SuspendedFrames } from './suspended-frames.ts';
import { type StoredCanisterState, wakeCanister } from '../persistence/wake-canister.ts';
import { CanisterPacker, type PackedCanister } from '../persistence/packed-canister.ts';
import { HeapTemplates } from '../memory/heap-template.ts';

export {
  type Certify,
  type EngineResult,
  type Runnable,
  type Running,
  runSuspendable,
  runToEnd,
  TOO_LONG,
} from './engine-runtime.ts';

export interface EngineOptions {
  readonly policy: MeteringPolicy;
  readonly control: ControlMemory;
  readonly shared: SharedStores;
  /** Called with faults that are the host's own. */
  readonly reportBug: (message: string, cause: unknown) => void;
  /** Undefined: all that a change makes is told with its step. */
  readonly ahead?: AheadStore | undefined;
  /** Undefined: queries cannot wait for certificates here. */
  readonly certify?: Certify | undefined;
  readonly pieceSizes?: PieceSizes | undefined;
}

/** Stores that all engines of one thread share. */
export interface SharedStores {
  /** The variables that all canisters have. */
  environment: Environment;
  readonly pool: StablePagePool;
  readonly heaps: HeapPool;
  readonly frames: SuspendedFrames;
  /** Templates with which sleeping canisters are packed. */
  readonly templates: HeapTemplates;
  /** Budget from which the thread takes memory, as all threads do. */
  readonly budget: MemoryBudget;
}

interface StoreLimits {
  /** Bytes of written stable memory this thread holds for all its canisters. */
  readonly stableBytesMax: number;
  /** Bytes that composite queries waiting for calls hold in this thread; FRAME_BYTES_MAX unless told. */
  readonly frameBytesMax?: number;
  /** Bounds of the heaps that are kept for canisters to come; by default those of a single thread. */
  readonly heaps?: HeapPoolLimits;
  /** Who gives back the pages of large heaps; by default they are left to the collector. */
  readonly returns?: PageReturns;
  /** Unbounded by default. */
  readonly budget?: MemoryBudget;
}

export function createStores({
  stableBytesMax,
  frameBytesMax = FRAME_BYTES_MAX,
  heaps = heapPoolLimits(1),
  returns,
  budget = MemoryBudget.unbounded(),
}: StoreLimits): SharedStores {
  return {
    environment: new Environment(new Map()),
    pool: new StablePagePool(stableBytesMax, budget),
    heaps: new HeapPool(heaps, returns, (pages) => budget.free(pages)),
    frames: new SuspendedFrames(frameBytesMax, budget),
    templates: new HeapTemplates(),
    budget,
  };
}

const FRAME_BYTES_MAX = 256 * 1024 * 1024;

export class Engine {
  readonly #runtime: EngineRuntime;
  readonly #shared: SharedStores;
  readonly #packer: CanisterPacker;

  constructor({ shared, ...options }: EngineOptions) {
    const { pool, heaps, frames } = shared;
    this.#runtime = new EngineRuntime({ ...options, pool, heaps, frames });
    this.#shared = shared;
    this.#packer = new CanisterPacker(shared.templates);
  }

  createCanister(spec: CanisterSpec): CanisterState {
    return new CanisterState(spec, this.#runtime.policy, this.#runtime.pool, this.#shared.environment);
  }

  /** Bytes of written stable memory that this thread holds for all its canisters. */
  get stableBytesStored(): number {
    return this.#runtime.pool.used * PAGE_BYTES;
  }

  /** Returns true if the canister's instance is on this engine's journal. */
  isHomeOf({ installed }: CanisterState): boolean {
    return installed?.instance.isOn(this.#runtime.control) === true;
  }

  /** Takes a canister's instance over from another engine of the thread. */
  adopt({ installed }: CanisterState): void {
    installed?.instance.moveTo(this.#runtime.imports, this.#runtime.control);
  }

  /** Bytes by which the pre-images of this engine's largest message have enlarged the control memory. */
  get journalBytes(): number {
    return this.#runtime.control.grownBytes;
  }

  /** Lets go of the control memory: nothing may run here afterwards. */
  dispose(): void {
    const { heaps, control } = this.#runtime;
    heaps.forgetControl(control);
    heaps.leave(control.memory, control.release());
  }

  /** Bytes that waiting composite queries hold. */
  get frameBytesStored(): number {
    return this.#runtime.frames.bytes;
  }

  /** Gives back what a canister holds; it must not be used afterwards. */
  removeCanister(canister: CanisterState): void {
    assertClosed(canister);
    dropState(this.#runtime, canister);
  }

  /**
   * Gives back what a canister holds, after its stored state is up to date; it must not be used afterwards. Returns
   * what may be kept of it instead, for `waking`, as long as nobody changes its stored state.
   */
  putToSleep(canister: CanisterState): PackedCanister | undefined {
    this.checkpoint(canister);
    const packed = this.#packer.pack(canister);
    dropState(this.#runtime, canister);
    return packed;
  }

  /** Returns what was done to canisters outside of `execute` and `change`, for storage. */
  takeChanges(): readonly Uint8Array[] | undefined {
    return this.#runtime.changes.take();
  }

  /** Does some of a checkpoint's work ahead of it; returns true when the checkpoint may come. */
  prepareCheckpoint(canister: CanisterState): boolean {
    assertClosed(canister);
    return (
      canister.persistence === undefined || this.#runtime.changes.prepareCheckpoint(canister, canister.persistence)
    );
  }

  checkpoint(canister: CanisterState): void {
    assertClosed(canister);
    if (canister.persistence !== undefined) this.#runtime.changes.checkpoint(canister, canister.persistence);
  }

  /**
   * Runs one task in one go; its buffers are only read meanwhile. Returns TOO_LONG if the run ended as too long: then
   * an engine whose messages can be suspended has to execute the same task, with `isAgain`.
   */
  execute(canister: CanisterState, task: Task, nowMs: number): EngineResult {
    // Does the same as `executing`, but without generators for methods: see `runMethodToEnd`.
    this.#open(canister);
    if (canister.persistence !== undefined) canister.mark();
    try {
      const result =
        task.kind === 'update' || task.kind === 'query' || task.kind === 'transform'
          ? runMethodToEnd(this.#runtime, canister, task, nowMs)
          : runToEnd(this.#running(canister, task, nowMs, false));
      return this.#told(canister, task, result);
    } finally {
      canister.isInMessage = false;
    }
  }

  /** Returns true for a task that has to wait for others' units: an engine where it can is to execute it. */
  carriesMuch(canister: CanisterState, task: Task): boolean {
    return carriesMuch(this.#runtime, canister, task);
  }

  /**
   * Does the same as `execute`, for a driver: see `Running`. If the canister's log is run again, `refused` is what the
   * task was refused before.
   */
  *executing(
    canister: CanisterState,
    task: Task,
    nowMs: number,
    isAgain = false,
    refused?: Shortages,
  ): Running<EngineResult> {
    this.#open(canister, refused);
    // A task that begins again has already had an effect or two.
    if (canister.persistence !== undefined && !isAgain) canister.mark();
    try {
      const result = yield* this.#running(canister, task, nowMs, isAgain);
      if (result !== TOO_LONG && this.carriesMuch(canister, task)) yield this.#runtime.standing;
      return this.#told(canister, task, result);
    } finally {
      canister.isInMessage = false;
    }
  }

  /** Adds what storage is told of a task. */
  #told(canister: CanisterState, task: Task, result: EngineResult): EngineResult {
    const { persistence } = canister;
    if (persistence === undefined || result === TOO_LONG || isQuery(task)) return result;
    const { shortages } = this.#runtime.control.message;
    const { changes } = this.#runtime;
    if (!persistence.isLogged) changes.chooseWay(canister, persistence);
    else if (result.step.fault?.kind !== 'unavailable') {
      persistence.instructions += result.step.instructions + RECORD_INSTRUCTIONS;
      // The instant that the message saw: later than the clock's if the clock went back.
      changes.record(canister, persistence, {
        kind: 'task',
        nowMs: canister.instantMs,
        task,
        shared: sharedIfNew(canister, persistence),
        ...(shortages === undefined ? NOT_SHORT : { shortages }),
      });
    }
    result.changes = changes.take();
    return result;
  }

  #running(canister: CanisterState, task: Task, nowMs: number, isAgain: boolean): Running<EngineResult> {
    switch (task.kind) {
      case 'query':
        return runQuery(this.#runtime, canister, task, nowMs);
      case 'update':
      case 'transform':
        return runMethod(this.#runtime, canister, task, nowMs);
      case 'callback':
        return runCallback(this.#runtime, canister, task, nowMs, isAgain);
      case 'system':
        return runSystemTask(this.#runtime, canister, task, nowMs);
      case 'inspect':
        return runInspection(this.#runtime, canister, task, nowMs);
      case 'dropFrame':
        return dropFrame(this.#runtime, task.frame);
    }
  }

  /**
   * Replaces the code. A step without fault means that it is done; after a step with a fault nothing has changed but
   * the charge.
   */
  change(canister: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): EngineResult {
    return runToEnd(this.changing(canister, code, change, nowMs));
  }

  /** Does the same as `change`, for a driver; TOO_LONG as in `executing`. */
  *changing(canister: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): Running<EngineResult> {
    this.#open(canister);
    // The root key may have come for this very code.
    canister.shared = this.#shared.environment;
    let result: EngineResult;
    try {
      result = yield* changeCode(this.#runtime, canister, code, change, nowMs);
    } finally {
      canister.isInMessage = false;
    }
    if (canister.persistence === undefined || result === TOO_LONG) return result;
    // A hook that failed may have cost cycles.
    if (result.step.fault !== undefined) this.#runtime.changes.numbers(canister);
    return { ...result, changes: this.#runtime.changes.take() };
  }

  /**
   * Begins a message. A canister has one message at a time, whoever brings it and however large it is: another would
   * run on a half-changed heap. The canister may have run in another engine of the thread before.
   */
  #open(canister: CanisterState, refused?: Shortages): void {
    assertClosed(canister);
    this.adopt(canister);
    this.#runtime.control.message.beginTask(refused);
    canister.isInMessage = true;
    canister.hasReadEnvironment = false;
  }

  /** Drops code and state; the version counts one more. */
  uninstall(canister: CanisterState): void {
    assertClosed(canister);
    uninstallCode(this.#runtime, canister);
  }

  configure(canister: CanisterState, settings: CanisterSettings): void {
    assertClosed(canister);
    canister.configure(settings);
    const { persistence } = canister;
    if (persistence?.isLogged === true)
      this.#runtime.changes.record(canister, persistence, { kind: 'configure', settings });
  }

  /** Adds cycles; returns the new balance. */
  addCycles(canister: CanisterState, amount: bigint): bigint {
    assertClosed(canister);
    canister.account.add(amount);
    this.#runtime.changes.numbers(canister);
    return canister.account.balance;
  }

  /**
   * Brings a stored canister to life in an empty one. Returns the reason for a refusal, or the number of records of its
   * log that were run again.
   */
  wake(canister: CanisterState, code: InstrumentedCode | undefined, stored: StoredCanisterState): string | number {
    return runToEnd(this.waking(canister, code, stored));
  }

  /** Does the same as `wake`, for a driver; never by an engine whose messages end as `long`. */
  waking(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    stored: StoredCanisterState,
  ): Running<string | number> {
    return wakeCanister(this.#runtime, this, canister, code, stored);
  }

  /** Returns a copy of the whole state, less the code. */
  capture(canister: CanisterState): Omit<CanisterImage, 'module'> {
    return runToEnd(this.capturing(canister));
  }

  /**
   * Does the same as `capture`, for a driver, which keeps all other work from the canister meanwhile. Throws Recalled
   * once `isRecalled` returns true, and TooLong where it has to wait for memory and the driver cannot.
   */
  capturing(canister: CanisterState, isRecalled = isNever): Running<Omit<CanisterImage, 'module'>> {
    assertClosed(canister);
    return captureState(this.#runtime, canister, isRecalled);
  }

  /** Replaces code and state, running nothing. Returns the reason for a refusal, or undefined. */
  restore(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
  ): string | undefined {
    return runToEnd(this.restoring(canister, code, image));
  }

  /** Does the same as `restore`, driven as `capturing` is. */
  restoring(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
    isRecalled = isNever,
  ): Running<string | undefined> {
    assertClosed(canister);
    canister.shared = this.#shared.environment;
    return restoreState(this.#runtime, canister, code, image, isRecalled);
  }
}

const isNever = (): boolean => false;

const NOT_SHORT = {};

/**
 * Cost of reading a record and beginning its task, in instructions that could be executed meanwhile: 2 µs, two thirds
 * of them for the row in the tables (benchmarks/macro/durable-replay.bench.ts with half a million records).
 */
const RECORD_INSTRUCTIONS = 2_000;

/** Returns the variables that all canisters have, if this message has read them and the log does not have them yet. */
function sharedIfNew(
  { shared, hasReadEnvironment }: CanisterState,
  persistence: PersistenceState,
): ReadonlyMap<string, string> | undefined {
  if (!hasReadEnvironment || persistence.sharedInLog === shared) return undefined;
  persistence.sharedInLog = shared;
  return shared.texts;
}

function assertClosed({ isInMessage }: CanisterState): void {
  if (isInMessage) throw new Error('a canister is entered while a message of its own is under way');
}

/** Returns true if nothing that the task does is kept. */
function isQuery(task: Task): boolean {
  return (
    task.kind === 'query' ||
    task.kind === 'transform' ||
    task.kind === 'inspect' ||
    task.kind === 'dropFrame' ||
    (task.kind === 'callback' && task.frame !== 0)
  );
}
