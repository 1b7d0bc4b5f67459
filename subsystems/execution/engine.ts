/**
 * Runs canisters in the thread it lives in: one task at a time, as a transaction, metered.
 *
 * What a task does to its canister happens here and is all or nothing; what reaches beyond the canister goes back in the
 * step. `run-task.ts` has methods, system tasks and inspection, `run-callback.ts` what follows a call, `change-code.ts`
 * installation and upgrades, `canister-image.ts` state out and in again, `suspended-frames.ts` composite queries that wait.
 */
import type { MeteringPolicy } from '../metering/index.ts';
import { CanisterState } from './canister-state.ts';
import { captureState, restoreState } from './canister-image.ts';
import { changeCode, uninstallCode } from './change-code.ts';
import type { ControlMemory } from './control-memory.ts';
import { EngineParts, type EngineResult } from './engine-parts.ts';
import type { CanisterImage, CanisterSettings, CanisterSpec, CodeChange, Task } from './index.ts';
import type { InstrumentedCode } from './instance.ts';
import { runCallback } from './run-callback.ts';
import { droppedFrame, runInspection, runMethod, runSystemTask } from './run-task.ts';
import { STABLE_GRANULE_BYTES, StablePagePool } from './stable-memory.ts';
import { SuspendedFrames } from './suspended-frames.ts';

export type { EngineResult } from './engine-parts.ts';

export interface EngineOptions {
  readonly policy: MeteringPolicy;
  readonly control: ControlMemory;
  readonly shared: SharedStores;
  /** Told of faults that are the host's own. */
  readonly reportBug: (message: string, cause: unknown) => void;
}

/** What all engines of one thread share. */
export interface SharedStores {
  readonly pool: StablePagePool;
  readonly frames: SuspendedFrames;
}

export interface StoreLimits {
  /** Bytes of written stable memory this thread holds for all its canisters. */
  readonly stableBytesMax: number;
  /** Bytes that composite queries waiting for calls hold in this thread; FRAME_BYTES_MAX unless told. */
  readonly frameBytesMax?: number;
}

export function createStores({ stableBytesMax, frameBytesMax = FRAME_BYTES_MAX }: StoreLimits): SharedStores {
  return { pool: new StablePagePool(stableBytesMax), frames: new SuspendedFrames(frameBytesMax) };
}

export const FRAME_BYTES_MAX = 256 * 1024 * 1024;

export class Engine {
  readonly #parts: EngineParts;

  constructor({ policy, control, shared, reportBug }: EngineOptions) {
    this.#parts = new EngineParts({ policy, control, reportBug, ...shared });
  }

  createCanister(spec: CanisterSpec): CanisterState {
    return new CanisterState(spec, this.#parts.policy, this.#parts.pool);
  }

  /** Written stable memory that this thread holds, of all its canisters. */
  get stableBytesStored(): number {
    return this.#parts.pool.used * STABLE_GRANULE_BYTES;
  }

  /** Bytes that waiting composite queries hold. */
  get frameBytesStored(): number {
    return this.#parts.frames.bytes;
  }

  /** Gives back what a canister holds; it must not be used afterwards. */
  removeCanister(canister: CanisterState): void {
    uninstallCode(this.#parts, canister);
  }

  /** Runs one task; its buffers are only read meanwhile. */
  execute(canister: CanisterState, task: Task, nowMs: number): EngineResult {
    this.#adopt(canister);
    switch (task.kind) {
      case 'update':
      case 'query':
        return runMethod(this.#parts, canister, task, nowMs);
      case 'callback':
        return runCallback(this.#parts, canister, task, nowMs);
      case 'system':
        return runSystemTask(this.#parts, canister, task, nowMs);
      case 'inspect':
        return runInspection(this.#parts, canister, task, nowMs);
      case 'dropFrame':
        this.#parts.frames.take(task.frame);
        return droppedFrame();
    }
  }

  /** Replaces the code; a step without fault means that it is done, any other that nothing has changed but the charge. */
  change(canister: CanisterState, code: InstrumentedCode, change: CodeChange, nowMs: number): EngineResult {
    this.#adopt(canister);
    return changeCode(this.#parts, canister, code, change, nowMs);
  }

  /** The message in hand is left for a while: what it still reads of its task must be its own. */
  suspend(): void {
    const { x } = this.#parts;
    x.argument = x.argument.slice();
  }

  /** A canister may have run in another engine of the thread before. */
  #adopt({ installed }: CanisterState): void {
    installed?.instance.moveTo(this.#parts.imports, this.#parts.control);
  }

  /** Drops code and state; the version counts one more. */
  uninstall(canister: CanisterState): void {
    uninstallCode(this.#parts, canister);
  }

  configure(canister: CanisterState, settings: CanisterSettings): void {
    canister.configure(settings);
  }

  /** A copy of the whole state, less the code. */
  capture(canister: CanisterState): Omit<CanisterImage, 'module'> {
    return captureState(canister);
  }

  /** Puts code and state in place of the present ones, running nothing; why it cannot be, or undefined. */
  restore(
    canister: CanisterState,
    code: InstrumentedCode | undefined,
    image: Omit<CanisterImage, 'module'>,
  ): string | undefined {
    return restoreState(this.#parts, canister, code, image);
  }
}
