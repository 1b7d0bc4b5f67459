/**
 * Which canister lives in which executor, with which module, and who hears of it. Those that no executor has sleep; of some of them
 * an executor keeps something.
 *
 * Main thread; plain data, with the counts of heaps and modules that go with it.
 */
import type { CanisterObserver, ModuleInfo } from '../index.ts';
import type { HeapBudget } from '../memory/heap-budget.ts';
import type { Executor } from './executor.ts';
import type { IdleModules } from './idle-modules.ts';
import { PackedHandles } from './packed-handles.ts';
import { threadStopped } from './refusals.ts';

export interface Placed {
  executor: Executor;
  /** Its steps' changes are told, so that it can come back when its executor dies. */
  readonly isKept: boolean;
  /** No executor has it: what is asked of it in the meantime, its observer keeps. */
  isAsleep: boolean;
  readonly observer: CanisterObserver;
  /** What it has now, and with it a heap. */
  module: ModuleInfo | undefined;
  /** Counts how often it was emptied: a change asked for before that leaves no code behind. */
  emptied: number;
}

export interface PlacedCanistersNeeds {
  readonly heaps: HeapBudget;
  readonly uses: IdleModules;
  /** The executor that a canister belongs to; it is started, if it has not been. */
  readonly executorFor: (handle: number) => Executor;
}

export class PlacedCanisters {
  readonly #with: PlacedCanistersNeeds;
  readonly #observers: (CanisterObserver | undefined)[] = [];
  /** Those that an executor has, or is asked about. The others sleep. */
  readonly #placed: (Placed | undefined)[] = [];
  /** Those that sleep or fall asleep, of which executors may keep something. What is changed of them without their executor takes them out. */
  readonly packed = new PackedHandles();

  constructor(needs: PlacedCanistersNeeds) {
    this.#with = needs;
  }

  /** The handle of a canister that is new here. */
  add(observer: CanisterObserver): number {
    this.#placed.push(undefined);
    return this.#observers.push(observer) - 1;
  }

  observerOf(handle: number): CanisterObserver | undefined {
    return this.#observers[handle];
  }

  place(handle: number, of: Pick<Placed, 'observer' | 'isKept'>, isAsleep = false): Placed {
    const executor = this.#with.executorFor(handle);
    const placed = { ...of, executor, isAsleep, module: undefined, emptied: 0 };
    this.#placed[handle] = placed;
    return placed;
  }

  /** One that sleeps is placed for whoever asks. */
  of(handle: number): Placed {
    const placed = this.#placed[handle];
    if (placed !== undefined) return placed;
    const observer = this.#observers[handle];
    if (observer === undefined) throw new Error(`no canister ${handle}`);
    return this.place(handle, { observer, isKept: true }, true);
  }

  /** One that an executor has. It was woken for whoever asks, but that executor may have died since: the new one has it not. */
  awake(handle: number): Placed {
    const placed = this.of(handle);
    if (placed.isAsleep) throw threadStopped();
    return placed;
  }

  /** The executor that has the canister now; undefined: it sleeps, and what is packed of it, or about to be, is out of date. */
  toChange(handle: number): Executor | undefined {
    const placed = this.#placed[handle];
    if (placed !== undefined && !placed.isAsleep) return placed.executor;
    this.packed.delete(handle);
    return undefined;
  }

  /** The canister has not been put to sleep, removed or placed anew since. */
  isStill(handle: number, placed: Placed): boolean {
    return this.#placed[handle] === placed;
  }

  /** No executor is asked about it any more. */
  fellAsleep(handle: number): void {
    this.#placed[handle] = undefined;
  }

  remove(handle: number): void {
    this.#placed[handle] = undefined;
    this.packed.delete(handle);
    this.#observers[handle] = undefined;
  }

  get live(): readonly number[] {
    const live = [...this.#placed.entries()].filter(([, placed]) => placed?.isKept && placed.module !== undefined);
    return live.map(([handle]) => handle);
  }

  allIn(executor: Executor | undefined): readonly Placed[] {
    return this.#placed.filter((placed) => placed !== undefined).filter((placed) => placed.executor === executor);
  }

  /**
   * A heap and the use of a module for a canister that is about to get it: counted beside those it has, until what is
   * returned is told whether it took their place. Or why there is no room for another heap.
   */
  takePlace(placed: Placed, module: ModuleInfo): string | ((isInPlace: boolean) => void) {
    const { heaps, uses } = this.#with;
    const refusal = heaps.take(module.pointerWidth, placed.module !== undefined);
    if (refusal !== undefined) return refusal;
    uses.take(module.hash);
    const { emptied } = placed;
    return (isInPlace) => {
      if (!isInPlace || placed.emptied !== emptied) {
        this.#giveBack(module);
        return;
      }
      if (placed.module !== undefined) this.#giveBack(placed.module);
      placed.module = module;
    };
  }

  #giveBack(module: ModuleInfo): void {
    const { heaps, uses } = this.#with;
    heaps.giveBack(module.pointerWidth);
    uses.giveBack(module.hash);
  }

  empty(placed: Placed): void {
    placed.emptied++;
    if (placed.module === undefined) return;
    this.#giveBack(placed.module);
    placed.module = undefined;
  }
}
