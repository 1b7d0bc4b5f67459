/**
 * Copies of actors' states as their upgrade hook leaves them. The copy is a canister that nobody can address: it gets
 * the actor's state, runs `canister_pre_upgrade` as an upgrade would, is captured and forgotten. It takes the turns of
 * a long message in its executor. The actor itself is only read, and one that sleeps goes on sleeping.
 *
 * An upgrade of the copy to a module without code makes the hook run. That module runs nothing, so a heap that is kept
 * stays as the hook has left it.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { NO_BYTES } from '../bytes/index.ts';
import type { CanisterImage, CanisterSpec, Execution, ModuleInfo } from '../execution/index.ts';
import { ANONYMOUS, type StepFault, TAKEN_BACK } from '../ic/index.ts';
import type { StateCopy } from './index.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { StoredCanisterLoader } from './stored-canister-loader.ts';

/** Time that an upgrade hook may take on a copy. */
const HOOK_MS_MAX = 1_000;
/** Cycles of a copy, so that metering does not end its hook; they exist nowhere else. */
const COPY_CYCLES = 10n ** 30n;

interface StateCopiesNeeds {
  readonly execution: Execution;
  readonly directory: Pick<CanisterDirectory, 'specOf'>;
  readonly loader: Pick<StoredCanisterLoader, 'wakeCopy'>;
  readonly clock: Clock;
}

export class StateCopies {
  readonly #needs: StateCopiesNeeds;

  constructor(needs: StateCopiesNeeds) {
    this.#needs = needs;
  }

  /**
   * Resolves with a copy. Rejects with ServerError: `variables-hook-failed` if the hook trapped or took too long,
   * `memory-full`, and what waking and capturing reject with.
   */
  async copyOf(record: CanisterRecord): Promise<StateCopy> {
    const { module } = record;
    if (module === undefined)
      throw new ServerError('invalid', 'variables-none', `actor ${record.name} is empty: no code is installed`);
    const { execution } = this.#needs;
    const keepsHeap = module.metadata.has('enhanced-orthogonal-persistence');
    const empty = await execution.prepare(moduleWithoutCode(module.pointerWidth));
    using _kept = execution.keep(empty);
    // No metering ends its hook.
    const handle = await this.filled(record, module, { ...this.specOfCopy(record), balance: COPY_CYCLES });
    try {
      await this.#runHook(handle, empty, keepsHeap, record);
      const image = await execution.capture(handle, undefined);
      return { ...image, module, heap: keepsHeap ? image.heap : NO_BYTES };
    } finally {
      execution.remove(handle);
    }
  }

  /** Returns the spec of a copy: nobody stores it. */
  specOfCopy(record: CanisterRecord): CanisterSpec {
    return { ...this.#needs.directory.specOf(record), snapshotBelowBytes: undefined };
  }

  /** Makes a canister with the state of another one; resolves with its handle. The caller has it removed. */
  async filled(record: CanisterRecord, module: ModuleInfo, spec: CanisterSpec): Promise<number> {
    const { execution, loader } = this.#needs;
    const image = record.isLive ? await this.#captured(record, module) : undefined;
    const handle = image === undefined ? execution.createAsleep(record.steps.instantMs) : execution.create(spec);
    try {
      if (image === undefined) await loader.wakeCopy(record, handle, spec);
      else await execution.restore(handle, image);
      return handle;
    } catch (error) {
      execution.remove(handle);
      throw error;
    }
  }

  /** Returns the actor's state; undefined if it has fallen asleep meanwhile. */
  async #captured(record: CanisterRecord, module: ModuleInfo): Promise<CanisterImage | undefined> {
    try {
      return await this.#needs.execution.capture(record.handle, module);
    } catch (error) {
      if (record.isLive) throw error;
      return undefined;
    }
  }

  async #runHook(handle: number, empty: ModuleInfo, keepsHeap: boolean, { name }: CanisterRecord): Promise<void> {
    const { execution, clock } = this.#needs;
    const change = {
      mode: 'upgrade',
      keepsHeap,
      skipsPreUpgrade: false,
      argument: NO_BYTES,
      caller: ANONYMOUS,
    } as const;
    using _limit = clock.after(HOOK_MS_MAX, () => execution.recall(handle, 'everything'));
    const fault = await new Promise<StepFault | undefined | 'late'>((resolve) => {
      execution.change(handle, empty, change, (ended) =>
        resolve(ended.step === TAKEN_BACK ? 'late' : ended.step.fault),
      );
    });
    execution.recall(handle, 'nothing');
    if (fault === undefined) return;
    const why = fault === 'late' ? `took longer than ${HOOK_MS_MAX} ms` : `failed: ${fault.message}`;
    throw new ServerError('invalid', 'variables-hook-failed', `on a copy of actor ${name} the hook preupgrade ${why}`);
  }
}

/** Returns a module that has a memory with the given width of addresses, and nothing else. */
function moduleWithoutCode(pointerWidth: 32 | 64): Uint8Array {
  const limits = pointerWidth === 64 ? 0x04 : 0x00;
  return Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, limits, 0);
}
