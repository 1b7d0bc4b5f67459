/**
 * Executor and module of each canister. Canisters that no executor has sleep; an executor keeps some of them
 * packed.
 *
 * Main thread; plain data, with the counts of heaps and modules that go with it.
 */
import type { ModuleInfo } from '../index.ts';
import type { HeapBudget } from '../memory/heap-budget.ts';
import type { Executor } from './executor.ts';
import type { IdleModules } from './idle-modules.ts';
import { PackedHandles } from './packed-handles.ts';
import { threadStopped } from './refusals.ts';

export interface Placed {
  executor: Executor;
  /** True if the changes of the canister's steps are told, so that it can come back when its executor dies. */
  readonly isDurable: boolean;
  /** True if no executor has the canister. */
  isAsleep: boolean;
  /** The canister's present module, and with it a heap. */
  module: ModuleInfo | undefined;
  /** Number of times the canister was emptied: a change asked for before the last time leaves no code behind. */
  emptied: number;
}

type PlacedHandle = readonly [handle: number, placed: Placed];

/** In place of a canister that is gone. */
const REMOVED = 'removed';

interface PlacedCanistersNeeds {
  readonly heaps: HeapBudget;
  readonly uses: IdleModules;
  /** Returns the executor of a canister; starts it if needed. */
  readonly executorFor: (handle: number) => Executor;
}

export class PlacedCanisters {
  readonly #needs: PlacedCanistersNeeds;
  /** Canisters that an executor has, or is asked about. The others sleep. */
  readonly #placed: (Placed | typeof REMOVED | undefined)[] = [];
  /**
   * Sleeping canisters, and those falling asleep, that executors may keep packed. A change made without the executor
   * removes the canister from here.
   */
  readonly packed = new PackedHandles();

  constructor(needs: PlacedCanistersNeeds) {
    this.#needs = needs;
  }

  /** Returns the handle of a canister that is new here. */
  add(): number {
    return this.#placed.push(undefined) - 1;
  }

  place(handle: number, isDurable: boolean, isAsleep = false): Placed {
    const executor = this.#needs.executorFor(handle);
    const placed = { isDurable, executor, isAsleep, module: undefined, emptied: 0 };
    this.#placed[handle] = placed;
    return placed;
  }

  /** Returns a canister's place; a sleeping canister is placed for the caller. */
  of(handle: number): Placed {
    const placed = this.#placed[handle];
    if (placed === REMOVED || handle >= this.#placed.length) throw new Error(`no canister ${handle}`);
    return placed ?? this.place(handle, true, true);
  }

  /**
   * Returns the place of a canister that an executor has. Throws if its executor has died since it was woken: the new
   * one does not have the canister.
   */
  awake(handle: number): Placed {
    const placed = this.of(handle);
    if (placed.isAsleep) throw threadStopped();
    return placed;
  }

  /**
   * Returns the executor that has the canister now; undefined: the canister sleeps, and its packed state, present or
   * coming, is out of date.
   */
  toChange(handle: number): Executor | undefined {
    const placed = this.#placed[handle];
    if (isPlaced(placed) && !placed.isAsleep) return placed.executor;
    this.packed.delete(handle);
    return undefined;
  }

  /** Returns true if the canister has not been put to sleep, removed or placed anew since. */
  isStill(handle: number, placed: Placed): boolean {
    return this.#placed[handle] === placed;
  }

  /** Notes that no executor is asked about the canister any more. */
  fellAsleep(handle: number): void {
    this.#placed[handle] = undefined;
  }

  remove(handle: number): void {
    this.#placed[handle] = REMOVED;
    this.packed.delete(handle);
  }

  get live(): readonly number[] {
    return this.#all(({ isDurable, module }) => isDurable && module !== undefined).map(([handle]) => handle);
  }

  /** Canisters that are placed in an executor, by their handles. */
  allIn(executor: Executor | undefined): readonly PlacedHandle[] {
    return this.#all((placed) => placed.executor === executor);
  }

  #all(isMeant: (placed: Placed) => boolean): readonly PlacedHandle[] {
    const all = this.#placed.map((placed, handle) => [handle, placed] as const);
    return all.filter((each): each is PlacedHandle => isPlaced(each[1]) && isMeant(each[1]));
  }

  /**
   * Takes a heap and a use of a module for a canister that is about to get them. They count beside the canister's
   * present ones until the returned function is told whether they took their place. Returns the reason if there is no
   * room for another heap.
   */
  takePlace(placed: Placed, module: ModuleInfo): string | ((isInPlace: boolean) => void) {
    const { heaps, uses } = this.#needs;
    const refusal = heaps.take(module.pointerWidth, placed.module !== undefined);
    if (refusal !== undefined) return refusal;
    uses.take(module.hash);
    const { emptied } = placed;
    return (isInPlace) => {
      if (!isInPlace || placed.emptied !== emptied) {
        this.#free(module);
        return;
      }
      if (placed.module !== undefined) this.#free(placed.module);
      placed.module = module;
    };
  }

  #free(module: ModuleInfo): void {
    const { heaps, uses } = this.#needs;
    heaps.free(module.pointerWidth);
    uses.free(module.hash);
  }

  empty(placed: Placed): void {
    placed.emptied++;
    if (placed.module === undefined) return;
    this.#free(placed.module);
    placed.module = undefined;
  }
}

function isPlaced(placed: Placed | typeof REMOVED | undefined): placed is Placed {
  return placed !== undefined && placed !== REMOVED;
}
