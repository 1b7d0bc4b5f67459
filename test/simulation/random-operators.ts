/**
 * Operators of the host in one of its lives: they change code, capture and restore state, add cycles, checkpoint, and
 * delete.
 */
import assert from 'node:assert/strict';
import { NEVER_ABORTED, ServerError } from '../../kernel/index.ts';
import type { RecordedCode } from '../../subsystems/canisters/canister-record.ts';
import type { ChangingCanister } from '../../subsystems/canisters/code-changes.ts';
import { upgrade, type UpgradeNeeds } from '../../subsystems/canisters/upgrade.ts';
import type { UpgradeFindings } from '../../subsystems/compatibility/index.ts';
import type { CanisterImage, CodeChange, ModuleInfo } from '../../subsystems/execution/index.ts';
import type { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import type { ChangedCode } from '../../subsystems/scheduler/index.ts';
import { moduleBytes } from './random-modules.ts';
import { OPERATOR } from './random-steps.ts';
import type { RandomThreads } from './random-threads.ts';
import { type Draw, drawBytes, seal } from './sealed.ts';
import type { Tally } from './tally.ts';

const CALLER = Uint8Array.of(5);
const NO_BYTES = new Uint8Array(0);
const UPGRADE = { keepsHeap: false, skipsPreUpgrade: false };
const nothing = (): void => undefined;
const NO_LOG = { event: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing, announce: nothing };
const NO_DIFFERENCES = { compatible: true, added: [], removed: [], changed: [] };
/** Findings for modules without code, which are not compared. */
const SAME: UpgradeFindings = {
  stable: { ...NO_DIFFERENCES, checked: true, checker: null, message: null },
  candid: NO_DIFFERENCES,
  refusal: undefined,
  warnings: [],
};
/** Requests that go to an executor directly. */
const ERRANDS = ['capture', 'restore', 'pay', 'checkpoint'] as const;

/** Mistakes of operators. */
export type PlantedOperators = 'reinstall-ends-nothing' | 'upgrade-stops-nothing';

interface RandomOperatorsOptions {
  readonly planted?: PlantedOperators | undefined;
  readonly draw: Draw;
  readonly tally: Tally;
  readonly threads: RandomThreads;
  readonly scheduler: RoundScheduler;
  /** Called when cycles have been made. */
  readonly minted: (amount: bigint) => void;
}

export class RandomOperators {
  readonly #needs: RandomOperatorsOptions;
  readonly #modules = new Map<number, ModuleInfo>();
  readonly #images = new Map<number, CanisterImage>();
  /** End of the last waiting or running change, by canister. */
  readonly #turns = new Map<number, Promise<void>>();

  constructor(options: RandomOperatorsOptions) {
    this.#needs = options;
  }

  async moduleOf(version: number): Promise<ModuleInfo> {
    const known = this.#modules.get(version);
    if (known !== undefined) return known;
    const module = await this.#needs.threads.prepare(moduleBytes(version));
    this.#modules.set(version, module);
    return module;
  }

  // ---- code, in turn with each other change of the canister

  /** Changes code as a canister does through the management canister, whatever calls are open. */
  async install(handle: number, module: ModuleInfo): Promise<void> {
    await this.#inTurn(handle, async () => void (await this.#change(handle, module, this.#changeBy('canister'))));
  }

  async uninstall(handle: number): Promise<void> {
    await this.#inTurn(handle, () => this.#pinned(handle, () => this.#needs.scheduler.uninstall(handle)));
  }

  /** Does the same as `?mode=reinstall` on /install. */
  async reinstall(handle: number, module: ModuleInfo): Promise<void> {
    const { planted, tally } = this.#needs;
    const endsCalls = planted !== 'reinstall-ends-nothing';
    await this.#inTurn(handle, async () => {
      tally.reinstalls++;
      await this.#change(handle, module, { ...this.#changeBy(OPERATOR), mode: 'reinstall', endsCalls });
    });
  }

  /** Does the same as /upgrade and `--watch`, by the server's own code. */
  async upgrade(handle: number, module: ModuleInfo): Promise<void> {
    const { scheduler, tally, threads } = this.#needs;
    const record = {
      name: String(handle),
      handle,
      get isRemoved() {
        return threads.canisters[handle]?.isRemoved === true;
      },
      get status() {
        return scheduler.stateOf(handle).status;
      },
      steps: { checkMemory: () => undefined },
    } as unknown as ChangingCanister;
    const needs: UpgradeNeeds = {
      changes: {
        prepare: () => Promise.resolve({ module } as RecordedCode),
        encodeArgument: () => Promise.resolve(NO_BYTES),
        storeKeptHeap: () => Promise.resolve(),
        apply: async (_record, _code, { mode }) => {
          tally.upgrades++;
          const { step } = await this.#change(handle, module, { ...this.#changeBy(OPERATOR), ...UPGRADE, mode });
          if (step.fault !== undefined) throw new ServerError('invalid', 'install-failed', step.fault.message);
          return step;
        },
      },
      scheduler: {
        lockBetweenMessages: async (of, options) =>
          this.#needs.planted === 'upgrade-stops-nothing'
            ? scheduler.lock(of)
            : await scheduler.lockBetweenMessages(of, options),
        pause: async (of) => {
          tally.pauses++;
          await scheduler.pause(of);
        },
        resume: (of) => scheduler.resume(of),
      },
      compatibility: { compare: () => Promise.resolve(SAME) },
      log: NO_LOG,
      inTurn: (change) => this.#takeTurn(handle, () => change(NEVER_ABORTED)),
      isDone: () => undefined,
      rehearse: () => Promise.reject(new Error('nobody asked for a rehearsal')),
      judge: () => ({ refusal: undefined, warnings: [] }),
    };
    await this.#withoutRefusal(handle, () => upgrade(needs, record, NO_BYTES, { argument: undefined, caller: CALLER }));
  }

  #changeBy(who: string): Extract<CodeChange, { readonly mode: 'install' | 'reinstall' }> {
    const argument = seal(Buffer.from(who), drawBytes(this.#needs.draw));
    return { mode: 'install', argument, caller: CALLER };
  }

  #change(handle: number, module: ModuleInfo, change: CodeChange): Promise<ChangedCode> {
    return this.#pinned(handle, () => this.#needs.scheduler.change(handle, module, change));
  }

  async #pinned<T>(handle: number, work: () => Promise<T>): Promise<T> {
    const release = await this.#needs.scheduler.pin(handle);
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Makes a change in its turn. Refusals are ignored. */
  async #inTurn(handle: number, change: () => Promise<void>): Promise<void> {
    await this.#withoutRefusal(handle, () => this.#takeTurn(handle, change));
  }

  async #withoutRefusal(handle: number, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      // The canister cannot be woken, the executor has died, or the canister was deleted.
      if (!(error instanceof ServerError) && this.#needs.threads.canisters[handle]?.isRemoved !== true) throw error;
    }
  }

  async #takeTurn<T>(handle: number, change: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(handle);
    const turn = Promise.withResolvers<void>();
    this.#turns.set(handle, turn.promise);
    await before;
    try {
      if (this.#needs.threads.canisters[handle]?.isRemoved === true)
        throw new ServerError('missing', 'actor-missing', 'it has been deleted meanwhile');
      return await change();
    } finally {
      turn.resolve();
    }
  }

  // ---- the end of a canister

  /**
   * Deletes a stopped canister, or one with its open calls. Returns false if its executor died before that, or if it
   * runs.
   */
  async remove(handle: number, endsCalls: boolean): Promise<boolean> {
    const { scheduler, threads } = this.#needs;
    const letStop = endsCalls ? scheduler.beginDeletion(handle) : undefined;
    let isRemoved = false;
    await this.#inTurn(handle, async () => {
      if (!endsCalls && scheduler.stateOf(handle).storedStatus !== 'stopped') return;
      const letGo = scheduler.lock(handle);
      try {
        if (endsCalls) await scheduler.endCalls(handle);
        scheduler.withdraw(handle);
        threads.remove(handle);
        isRemoved = true;
      } finally {
        letGo();
      }
    });
    letStop?.();
    return isRemoved;
  }

  // ---- errands

  /** Runs an errand on that canister, or on one of which there is an image. */
  async runErrand(any: number, what: number): Promise<void> {
    const { draw, threads, scheduler } = this.#needs;
    const errand = ERRANDS[what % ERRANDS.length];
    const captured = [...this.#images.keys()].filter((handle) => threads.canisters[handle]?.isRemoved === false);
    const handle = errand === 'restore' ? (captured[draw(captured.length + 1)] ?? any) : any;
    try {
      const release = await scheduler.pin(handle);
      try {
        if (errand === 'capture') await this.#capture(handle);
        else if (errand === 'restore') await this.#restore(handle);
        else if (errand === 'pay') await this.#pay(handle);
        else await this.#checkpoint(handle);
      } finally {
        release();
      }
    } catch (error) {
      // The canister cannot be woken, the executor has died, or the canister was deleted.
      if (!(error instanceof ServerError) && threads.canisters[handle]?.isRemoved !== true) throw error;
    }
  }

  async #capture(handle: number): Promise<void> {
    const { threads, scheduler, tally } = this.#needs;
    const version = threads.canisters[handle]?.subject?.books.version;
    const release = scheduler.lock(handle);
    try {
      const module = version === undefined ? undefined : this.#modules.get(version);
      this.#images.set(handle, await threads.capture(handle, module));
      tally.captures++;
    } finally {
      release();
    }
  }

  async #restore(handle: number): Promise<void> {
    const { threads, scheduler, tally } = this.#needs;
    if (!this.#images.has(handle)) await this.#capture(handle);
    const image = this.#images.get(handle);
    if (image === undefined) return;
    await this.#takeTurn(handle, async () => {
      const release = scheduler.lock(handle);
      try {
        await threads.restore(handle, image);
        scheduler.restored(handle, image.module);
        tally.restores++;
      } finally {
        release();
      }
    });
  }

  async #pay(handle: number): Promise<void> {
    const { draw, threads, minted } = this.#needs;
    const amount = BigInt(1 + draw(100));
    await threads.addCycles(handle, amount);
    const canister = threads.canisters[handle];
    assert.ok(canister);
    canister.added += amount;
    minted(amount);
  }

  async #checkpoint(handle: number): Promise<void> {
    await this.#needs.threads.checkpoint(handle);
    this.#needs.tally.checkpoints++;
  }
}
