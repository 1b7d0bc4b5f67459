/**
 * Sleeping canisters that executors have said they keep packed. An entry may be out of date; then the executor says so
 * when it is asked.
 * Main thread; plain data.
 */
export class PackedHandles {
  readonly #hashOf = new Map<number, string>();
  /** Packed canisters by the hash of their module, or by '' if they have none. */
  readonly #ofModule = new Map<string, Set<number>>();

  add(handle: number, hash = ''): void {
    this.delete(handle);
    this.#hashOf.set(handle, hash);
    const handles = this.#ofModule.get(hash);
    if (handles === undefined) this.#ofModule.set(hash, new Set([handle]));
    else handles.add(handle);
  }

  /** Removes a canister; returns true if it was there. */
  delete(handle: number): boolean {
    const hash = this.#hashOf.get(handle);
    if (hash === undefined) return false;
    this.#hashOf.delete(handle);
    const handles = this.#ofModule.get(hash);
    handles?.delete(handle);
    if (handles?.size === 0) this.#ofModule.delete(hash);
    return true;
  }

  /** Forgets the canisters of a module that executors have dropped, and with it their packed state. */
  forget(hash: string): void {
    for (const handle of this.#ofModule.get(hash) ?? []) this.#hashOf.delete(handle);
    this.#ofModule.delete(hash);
  }
}
