import type { CanisterWatcher } from './index.ts';

/**
 * Who wants to know when a canister changes. Kept here and not in the records: there are very many of those, and hardly
 * any is watched. A canister that nobody watches costs each message one comparison.
 */
export class CanisterWatches {
  readonly #byHandle = new Map<number, Set<CanisterWatcher>>();

  /** Until what is returned is disposed of. */
  add(handle: number, watcher: CanisterWatcher): Disposable {
    const watchers = this.#byHandle.get(handle) ?? new Set();
    this.#byHandle.set(handle, watchers.add(watcher));
    return {
      [Symbol.dispose]: () => {
        watchers.delete(watcher);
        if (watchers.size === 0 && this.#byHandle.get(handle) === watchers) this.#byHandle.delete(handle);
      },
    };
  }

  changed(handle: number): void {
    if (this.#byHandle.size === 0) return;
    for (const watcher of this.#byHandle.get(handle) ?? []) watcher.changed();
  }

  codeChanged(handle: number): void {
    if (this.#byHandle.size === 0) return;
    for (const watcher of this.#byHandle.get(handle) ?? []) watcher.codeChanged();
  }

  openMethodsChanged(handle: number): void {
    if (this.#byHandle.size === 0) return;
    for (const watcher of this.#byHandle.get(handle) ?? []) watcher.openMethodsChanged?.();
  }

  removed(handle: number): void {
    const watchers = this.#byHandle.get(handle);
    this.#byHandle.delete(handle);
    for (const watcher of watchers ?? []) watcher.removed();
  }
}
