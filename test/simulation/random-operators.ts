/** Those who run the host in one of its lives: they change code, capture and restore state, pay, checkpoint, and delete. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServerError } from '../../kernel/index.ts';
import type { CanisterImage, ModuleInfo } from '../../subsystems/execution/index.ts';
import type { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { moduleBytes } from './random-modules.ts';
import type { RandomThreads } from './random-threads.ts';
import { type Draw, drawBytes, seal } from './sealed.ts';
import type { Tally } from './tally.ts';

const CALLER = Uint8Array.of(5);
/** What is asked of an executor directly. */
const ERRANDS = ['capture', 'restore', 'pay', 'checkpoint'] as const;

export interface RandomOperatorsOptions {
  readonly draw: Draw;
  readonly tally: Tally;
  readonly threads: RandomThreads;
  readonly scheduler: RoundScheduler;
  /** Cycles have been made. */
  readonly minted: (amount: bigint) => void;
}

export class RandomOperators {
  readonly #with: RandomOperatorsOptions;
  readonly #modules = new Map<number, ModuleInfo>();
  readonly #images = new Map<number, CanisterImage>();
  /** By canister, changes of its code that are under way. */
  readonly #changes = new Map<number, number>();
  /** Canisters that are given an image, or deleted with calls open: that has to be the only change, as in the registry. */
  readonly #exclusive = new Set<number>();

  constructor(options: RandomOperatorsOptions) {
    this.#with = options;
  }

  async moduleOf(version: number): Promise<ModuleInfo> {
    const known = this.#modules.get(version);
    if (known !== undefined) return known;
    const module = await this.#with.threads.prepare(moduleBytes(version));
    this.#modules.set(version, module);
    return module;
  }

  // ---- code

  async install(handle: number, module: ModuleInfo): Promise<void> {
    const argument = seal(Buffer.from('install'), drawBytes(this.#with.draw));
    const change = { mode: 'install', argument, caller: CALLER } as const;
    await this.#changing(handle, () => this.#with.scheduler.change(handle, module, change));
  }

  async uninstall(handle: number): Promise<void> {
    await this.#changing(handle, () => this.#with.scheduler.uninstall(handle)).catch(() => undefined);
  }

  async #changing(handle: number, change: () => Promise<unknown>): Promise<void> {
    const changes = this.#changes;
    if (this.#exclusive.has(handle)) return;
    changes.set(handle, (changes.get(handle) ?? 0) + 1);
    try {
      await change();
    } finally {
      changes.set(handle, (changes.get(handle) ?? 1) - 1);
    }
  }

  isChanging(handle: number): boolean {
    return this.#exclusive.has(handle) || (this.#changes.get(handle) ?? 0) > 0;
  }

  /** Nobody else may change it now. */
  isExclusive(handle: number): boolean {
    return this.#exclusive.has(handle);
  }

  // ---- the end of a canister

  remove(handle: number): void {
    this.#with.scheduler.withdraw(handle);
    this.#with.threads.remove(handle);
  }

  /** Deletes one that has calls open; false: its executor died before that. Whoever changes its code has to be done first. */
  async endAndRemove(handle: number): Promise<boolean> {
    const { scheduler } = this.#with;
    const letGoOn = scheduler.beginDeletion(handle);
    this.#exclusive.add(handle);
    try {
      while ((this.#changes.get(handle) ?? 0) > 0) await nextTurn();
      await this.#endCalls(handle);
      return true;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return false;
    } finally {
      this.#exclusive.delete(handle);
      letGoOn();
    }
  }

  async #endCalls(handle: number): Promise<void> {
    const { scheduler } = this.#with;
    const letGo = scheduler.lock(handle);
    try {
      await scheduler.endCalls(handle);
      this.remove(handle);
    } finally {
      letGo();
    }
  }

  /** As an upgrade over HTTP: between two messages if no call is open, else when all have come back. */
  async upgrade(handle: number, module: ModuleInfo): Promise<void> {
    const { scheduler, tally } = this.#with;
    let hasPaused = false;
    while (!this.isChanging(handle) && !this.#isRemoved(handle)) {
      const unlock = await scheduler.lockBetweenMessages(handle, { pauses: true });
      if (unlock !== undefined) {
        if (!this.#isRemoved(handle)) await this.install(handle, module);
        unlock();
        break;
      }
      if (this.#isRemoved(handle)) return;
      tally.pauses++;
      hasPaused = await scheduler.pause(handle).then(
        () => true,
        () => false,
      );
      if (!hasPaused) return;
    }
    if (hasPaused && !this.#isRemoved(handle)) scheduler.resume(handle);
  }

  #isRemoved(handle: number): boolean {
    return this.#with.threads.canisters[handle]?.isRemoved === true;
  }

  // ---- errands

  /** Does one of them with that canister, or with one of which there is an image. */
  async runErrand(any: number, what: number): Promise<void> {
    const { draw, threads, scheduler } = this.#with;
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
      // It cannot be woken, its executor has died, or it was deleted.
      if (!(error instanceof ServerError) && threads.canisters[handle]?.isRemoved !== true) throw error;
    }
  }

  async #capture(handle: number): Promise<void> {
    const { threads, scheduler, tally } = this.#with;
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
    const { threads, scheduler, tally } = this.#with;
    if (!this.#images.has(handle)) await this.#capture(handle);
    const image = this.#images.get(handle);
    if (image === undefined || this.isChanging(handle)) return;
    this.#exclusive.add(handle);
    const release = scheduler.lock(handle);
    try {
      await threads.restore(handle, image);
      scheduler.restored(handle, image.module);
      tally.restores++;
    } finally {
      this.#exclusive.delete(handle);
      release();
    }
  }

  async #pay(handle: number): Promise<void> {
    const { draw, threads, minted } = this.#with;
    const amount = BigInt(1 + draw(100));
    await threads.addCycles(handle, amount);
    const canister = threads.canisters[handle];
    assert.ok(canister);
    canister.added += amount;
    minted(amount);
  }

  async #checkpoint(handle: number): Promise<void> {
    await this.#with.threads.checkpoint(handle);
    this.#with.tally.checkpoints++;
  }
}
