/**
 * Runs canisters in the thread it lives in: one task at a time, as a transaction, metered.
 *
 * What a task does to its canister happens here and is all or nothing; what reaches beyond the canister goes back in the
 * step. `run-task.ts` has methods, system tasks and inspection, `run-callback.ts` what follows a call, `change-code.ts`
 * installation and upgrades, `canister-image.ts` state out and in again, `suspended-frames.ts` composite queries that wait.
 *
 * Executor thread. Touches the canisters that it is handed, its control memory and the thread's pools; never another
 * thread's.
 */
import type { MeteringPolicy } from '../../metering/index.ts';
import { CanisterState } from './canister-state.ts';
import { captureState, restoreState } from '../persistence/canister-image.ts';
import { changeCode, dropState, uninstallCode } from './change-code.ts';
import type { ControlMemory } from '../memory/control-memory.ts';
import { EngineRuntime, type EngineResult, type Running, runToEnd, TOO_LONG } from './engine-runtime.ts';
import { Environment } from './environment.ts';
import { HeapPool, type HeapPoolLimits, heapPoolLimits } from '../memory/heap-pool.ts';
import type { CanisterImage, CanisterSettings, CanisterSpec, CodeChange } from '../index.ts';
import type { Task } from '../../ic/index.ts';
import type { Shortages } from '../memory/shortage.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import type { PersistenceState } from '../persistence/persistence-state.ts';
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import type { AheadStore } from '../persistence/ahead-store.ts';
import { MemoryBudget } from '../memory/memory-budget.ts';
import { runCallback } from './run-callback.ts';
import { dropFrame, runInspection, runMethod, runMethodToEnd, runSystemTask } from './run-task.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { StablePagePool } from '../memory/stable-memory.ts';
import { SuspendedFrames } from './suspended-frames.ts';
import { type StoredCanisterState, wakeCanister } from '../persistence/wake-canister.ts';
import { CanisterPacker, type PackedCanister } from '../persistence/packed-canister.ts';
import { HeapTemplates } from '../memory/heap-template.ts';

export {
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
  /** Told of faults that are the host's own. */
  readonly reportBug: (message: string, cause: unknown) => void;
  /** Undefined: all that a change makes is told with its step. */
  readonly ahead?: AheadStore | undefined;
  readonly pieceSizes?: PieceSizes | undefined;
}

/** What all engines of one thread share. */
export interface SharedStores {
  /** The variables that all canisters have. */
  environment: Environment;
  readonly pool: StablePagePool;
  readonly heaps: HeapPool;
  readonly frames: SuspendedFrames;
  /** What sleeping canisters are packed with. */
  readonly templates: HeapTemplates;
  /** What its memory is taken from, as that of all threads. */
  readonly budget: MemoryBudget;
}

export interface StoreLimits {
  /** Bytes of written stable memory this thread holds for all its canisters. */
  readonly stableBytesMax: number;
  /** Bytes that composite queries waiting for calls hold in this thread; FRAME_BYTES_MAX unless told. */
  readonly frameBytesMax?: number;
  /** Heaps kept for canisters to come; those of a thread alone unless told. */
  readonly heaps?: HeapPoolLimits;
  /** One that nobody reaches unless told. */
  readonly budget?: MemoryBudget;
}

export function createStores({
  stableBytesMax,
  frameBytesMax = FRAME_BYTES_MAX,
  heaps = heapPoolLimits(1),
  budget = MemoryBudget.unbounded(),
}: StoreLimits): SharedStores {
  return {
    environment: new Environment(new Map()),
    pool: new StablePagePool(stableBytesMax, budget),
    heaps: new HeapPool(heaps),
    frames: new SuspendedFrames(frameBytesMax, budget),
    templates: new HeapTemplates(),
    budget,
  };
}

export const FRAME_BYTES_MAX = 256 * 1024 * 1024;

export class Engine {
  readonly #parts: EngineRuntime;
  readonly #shared: SharedStores;
  readonly #packer: CanisterPacker;

  constructor({ shared, ...options }: EngineOptions) {
    const { pool, heaps, frames } = shared;
    this.#parts = new EngineRuntime({ ...options, pool, heaps, frames });
    this.#shared = shared;
    this.#packer = new CanisterPacker(shared.templates);
  }

  createCanister(spec: CanisterSpec): CanisterState {
    return new CanisterState(spec, this.#parts.policy, this.#parts.pool, this.#shared.environment);
  }

  /** Written stable memory that this thread holds, of all its canisters. */
  get stableBytesStored(): number {
    return this.#parts.pool.used * PAGE_BYTES;
  }

  /** Whether the canister's instance is on this engine's journal. */
  isHomeOf({ installed }: CanisterState): boolean {
    return installed?.instance.isOn(this.#parts.control) === true;
  }

  /** Takes a canister's instance over from another engine of the thread. */
  adopt({ installed }: CanisterState): void {
    installed?.instance.moveTo(this.#parts.imports, this.#parts.control);
  }

  /** By how much the pre-images of its largest message have made the control memory larger. */
  get journalBytes(): number {
    return this.#parts.control.grownBytes;
  }

  /** Lets go of the control memory: nothing must run here any more. */
  dispose(): void {
    const { heaps, control } = this.#parts;
    heaps.forgetControl(control);
    heaps.dropped(control.release());
  }

  /** Bytes that waiting composite queries hold. */
  get frameBytesStored(): number {
    return this.#parts.frames.bytes;
  }

  /** Gives back what a canister holds; it must not be used afterwards. */
  removeCanister(canister: CanisterState): void {
    assertClosed(canister);
    dropState(this.#parts, canister);
  }

  /**
   * Gives back what a canister holds, after what is stored of it is up to date; it must not be used afterwards. Returns what may be
   * kept of it instead, for `waking`, as long as nobody changes what is stored.
   */
  putToSleep(canister: CanisterState): PackedCanister | undefined {
    this.checkpoint(canister);
    const packed = this.#packer.pack(canister);
    dropState(this.#parts, canister);
    return packed;
  }

  /** What was done to canisters outside of `execute` and `change`, for storage. */
  takeChanges(): readonly Uint8Array[] | undefined {
    return this.#parts.changes.take();
  }

  /** Some of what a checkpoint needs, ahead of it; true: it may come. */
  prepareCheckpoint(canister: CanisterState): boolean {
    assertClosed(canister);
    return canister.kept === undefined || this.#parts.changes.prepareCheckpoint(canister, canister.kept);
  }

  checkpoint(canister: CanisterState): void {
    assertClosed(canister);
    if (canister.kept !== undefined) this.#parts.changes.checkpoint(canister, canister.kept);
  }

  /**
   * Runs one task in one go; its buffers are only read meanwhile. TOO_LONG when a run ended as too long: then the same task
   * is to be executed by an engine whose messages can be suspended, with `isAgain`.
   */
  execute(canister: CanisterState, task: Task, nowMs: number): EngineResult {
    // What `executing` does, but for methods without generators: see `runMethodToEnd`.
    this.#open(canister);
    if (canister.kept !== undefined) canister.mark();
    try {
      const result =
        task.kind === 'update' || task.kind === 'query' || task.kind === 'transform'
          ? runMethodToEnd(this.#parts, canister, task, nowMs)
          : runToEnd(this.#running(canister, task, nowMs, false));
      return this.#told(canister, task, result);
    } finally {
      canister.isInMessage = false;
    }
  }

  /** The same, for whoever drives it: see `Running`. `refused`: what it was refused before, if its log is run again. */
  *executing(
    canister: CanisterState,
    task: Task,
    nowMs: number,
    isAgain = false,
    refused?: Shortages,
  ): Running<EngineResult> {
    this.#open(canister, refused);
    // Begun again, it has an effect or two already.
    if (canister.kept !== undefined && !isAgain) canister.mark();
    try {
      return this.#told(canister, task, yield* this.#running(canister, task, nowMs, isAgain));
    } finally {
      canister.isInMessage = false;
    }
  }

  /** Adds what storage is to be told of a task. */
  #told(canister: CanisterState, task: Task, result: EngineResult): EngineResult {
    const { kept } = canister;
    if (kept === undefined || result === TOO_LONG || isQuery(task)) return result;
    const { shortages } = this.#parts.control.message;
    const { changes } = this.#parts;
    if (!kept.isLogged) changes.chooseWay(canister, kept);
    else if (result.step.fault?.kind !== 'unavailable') {
      kept.instructions += result.step.instructions + RECORD_INSTRUCTIONS;
      // The instant that the message saw: later than the clock's after that went back.
      changes.record(canister, kept, {
        kind: 'task',
        nowMs: canister.instantMs,
        task,
        shared: sharedIfNew(canister, kept),
        ...(shortages === undefined ? NOT_SHORT : { shortages }),
      });
    }
    result.changes = changes.take();
    return result;
  }

  #running(canister: CanisterState, task: Task, nowMs: number, isAgain: boolean): Running<EngineResult> {
    switch (task.kind) {
      case 'update':
      case 'query':
      case 'transform':
        return runMethod(this.#parts, canister, task, nowMs);
      case 'callback':
        return runCallback(this.#parts, canister, task, nowMs, isAgain);
      case 'system':
        return runSystemTask(this.#parts, canister, task, nowMs);
      case 'inspect':
        return runInspection(this.#parts, canister, task, nowMs);
      case 'dropFrame':
        return dropFrame(this.#parts, task.frame);
    }
  }

  /** Replaces the code; a step without fault means that it is done, any other that nothing has changed but the charge. */
  change(canister: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): EngineResult {
    return runToEnd(this.changing(canister, code, change, nowMs));
  }

  /** The same, for whoever drives it; TOO_LONG as in `executing`. */
  *changing(canister: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): Running<EngineResult> {
    this.#open(canister);
    let result: EngineResult;
    try {
      result = yield* changeCode(this.#parts, canister, code, change, nowMs);
    } finally {
      canister.isInMessage = false;
    }
    if (canister.kept === undefined || result === TOO_LONG) return result;
    // Whatever a hook that failed has cost.
    if (result.step.fault !== undefined) this.#parts.changes.numbers(canister);
    return { ...result, changes: this.#parts.changes.take() };
  }

  /**
   * Begins a message. A canister has one message at a time, whoever brings it and however large it is: another would run
   * on a half-changed heap. It may have run in another engine of the thread before.
   */
  #open(canister: CanisterState, refused?: Shortages): void {
    assertClosed(canister);
    this.adopt(canister);
    this.#parts.control.message.beginTask(refused);
    canister.isInMessage = true;
    canister.hasReadEnvironment = false;
  }

  /** Drops code and state; the version counts one more. */
  uninstall(canister: CanisterState): void {
    assertClosed(canister);
    uninstallCode(this.#parts, canister);
  }

  configure(canister: CanisterState, settings: CanisterSettings): void {
    assertClosed(canister);
    canister.configure(settings);
    const { kept } = canister;
    if (kept?.isLogged === true) this.#parts.changes.record(canister, kept, { kind: 'configure', settings });
  }

  /** Adds cycles; the new balance. */
  addCycles(canister: CanisterState, amount: bigint): bigint {
    assertClosed(canister);
    canister.account.add(amount);
    this.#parts.changes.numbers(canister);
    return canister.account.balance;
  }

  /** Brings a stored canister to life in one that is empty; why it cannot be, or how many records of its log were run again. */
  wake(canister: CanisterState, code: InstrumentedCode | undefined, stored: StoredCanisterState): string | number {
    return runToEnd(this.waking(canister, code, stored));
  }

  /** The same, for whoever drives it: not by an engine whose messages end as `long`. */
  waking(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    stored: StoredCanisterState,
  ): Running<string | number> {
    return wakeCanister(this.#parts, this, canister, code, stored);
  }

  /** A copy of the whole state, less the code. */
  capture(canister: CanisterState): Omit<CanisterImage, 'module'> {
    return runToEnd(this.capturing(canister));
  }

  /** The same, for whoever drives it, and keeps everything else from the canister meanwhile. */
  capturing(canister: CanisterState): Running<Omit<CanisterImage, 'module'>> {
    assertClosed(canister);
    return this.#parts.inPieces(captureState(canister, this.#shared.budget));
  }

  /** Puts code and state in place of the present ones, running nothing; why it cannot be, or undefined. */
  restore(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
  ): string | undefined {
    return runToEnd(this.restoring(canister, code, image));
  }

  /** The same, driven as `capturing` is. */
  restoring(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
  ): Running<string | undefined> {
    assertClosed(canister);
    return restoreState(this.#parts, canister, code, image);
  }
}

const NOT_SHORT = {};

/**
 * What a record costs to be read and begun, in instructions that could be executed meanwhile: 2 µs, two thirds of them for
 * the row in the tables (benchmarks/macro/durable-replay.bench.ts with half a million records).
 */
const RECORD_INSTRUCTIONS = 2_000;

/** The variables that all canisters have, if this message has looked at them, and the log does not have them yet. */
function sharedIfNew(
  { shared, hasReadEnvironment }: CanisterState,
  kept: PersistenceState,
): ReadonlyMap<string, string> | undefined {
  if (!hasReadEnvironment || kept.sharedInLog === shared) return undefined;
  kept.sharedInLog = shared;
  return shared.texts;
}

function assertClosed({ isInMessage }: CanisterState): void {
  if (isInMessage) throw new Error('a canister is entered while a message of its own is under way');
}

/** Nothing that it does is kept. */
function isQuery(task: Task): boolean {
  return (
    task.kind === 'query' ||
    task.kind === 'transform' ||
    task.kind === 'inspect' ||
    task.kind === 'dropFrame' ||
    (task.kind === 'callback' && task.frame !== 0)
  );
}
